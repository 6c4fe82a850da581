"""A whole name server over sockets: a peer that asks and does not read."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from pathlib import Path

from bolide.namesrv.options import NamesrvOptions
from bolide.node.config import load_daemon
from bolide.node.namesrv import WRITE_HIGH, NamesrvNode, kept_settings
from bolide.remoting import codes
from bolide.remoting.command import encode, make_request
from bolide.transport.client import ClientConnection
from tests.client.waiting import until
from tests.node.test_outbox import read_answers

VALUE = 200_000
ASKED = 300


def test_a_peer_that_reads_nothing_costs_little_and_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kvConfig.json")))
        await node.start()
        client = await ClientConnection.connect(node.address)
        try:
            ext = {"namespace": "N", "key": "k"}
            put = make_request(codes.PUT_KV_CONFIG, 0, {**ext, "value": "v" * VALUE})
            assert (await client.request(put, 5)).code == 0
            frames = [encode(make_request(codes.GET_KVLIST_BY_NAMESPACE, n, {"namespace": "N"})) for n in range(ASKED)]
            tracemalloc.start()
            with socket.create_connection(("127.0.0.1", node.port)) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                await asyncio.to_thread(sock.sendall, b"".join(frames))
                await until(lambda: any(peer.behind for peer in node._peers.values()), "the peer to fall behind")
                for _ in range(5):
                    assert (await client.request(make_request(codes.GET_KV_CONFIG, 0, ext), 5)).code == 0
                assert tracemalloc.get_traced_memory()[1] < 6 * WRITE_HIGH
                answers = await asyncio.to_thread(read_answers, sock, ASKED)
            assert [answer.opaque for answer in answers] == list(range(ASKED))
            assert {len(answer.body) > VALUE for answer in answers} == {True}
        finally:
            tracemalloc.stop()
            client.close()
            await client.wait_closed()
            await node.stop()

    asyncio.run(scenario())


def test_settings_changed_while_it_runs_are_kept_for_the_next_start(tmp_path: Path) -> None:
    flags = {"configStorePath": str(tmp_path / "own" / "namesrv.conf"), "listenPort": 0}
    kv = {"kvConfigPath": str(tmp_path / "kvConfig.json")}
    loaded, kept = load_daemon(NamesrvOptions, {**flags, **kv}, None, kept_settings, {})

    async def scenario() -> None:
        node = NamesrvNode(loaded.options, conf=kept)
        await node.start()
        client = await ClientConnection.connect(node.address)
        try:
            for body in (b"orderMessageEnable=true\n", b"clusterTest=true\nproductEnvName=here\n"):
                assert (await client.request(make_request(codes.UPDATE_NAMESRV_CONFIG, 0, body=body), 5)).code == 0
        finally:
            client.close()
            await client.wait_closed()
            await node.stop()

    asyncio.run(scenario())
    again, _ = load_daemon(NamesrvOptions, {**flags, **kv}, None, kept_settings, {})
    options = again.options
    assert (options.order_message_enable, options.cluster_test, options.product_env_name) == (True, True, "here")
    assert Path(kept).stat().st_mode & 0o777 == 0o600
    text = Path(kept).read_text(encoding="utf-8")
    assert sorted(text.split()) == ["clusterTest=true", "orderMessageEnable=true", "productEnvName=here"]
