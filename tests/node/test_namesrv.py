"""A whole name server over sockets: a peer that asks and does not read."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from pathlib import Path

from bolide.namesrv.options import NamesrvOptions
from bolide.node.namesrv import WRITE_HIGH, NamesrvNode
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
