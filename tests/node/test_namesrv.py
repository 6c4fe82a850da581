"""A whole name server over sockets: a peer that asks and does not read."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from bolide.errors import ConnectionLost
from bolide.namesrv.options import NamesrvOptions
from bolide.node.loop.clock import Clock
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.namesrv import NamesrvNode, kept_settings
from bolide.node.ports.peers import WRITE_HIGH
from bolide.node.settings.config import load_daemon
from bolide.remoting import codes
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.register import body_checksum, encode_register_body
from bolide.store.disk.files import FileFailed, RealFiles
from bolide.store.errors import StoreDamaged
from bolide.transport.client import ClientConnection
from bolide.world.clocks import steady_ms
from proof.kit.waiting import PATIENCE, until
from tests.client.scripted_broker import ScriptedBroker
from tests.namesrv.peer import FakeBroker, World
from tests.node.answers import read_answers

VALUE = 200_000
SLOW = 40
"""Requests of one read that take 10 ms each."""
ASKED = 300
TRIES = 40
"""Connections that are refused: some of them in the same second, however slow the machine is."""


async def test_a_peer_that_reads_nothing_costs_little_and_loses_nothing(tmp_path: Path) -> None:
    node = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kvConfig.json")))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        ext = {"namespace": "N", "key": "k"}
        put = make_request(codes.PUT_KV_CONFIG, 0, {**ext, "value": "v" * VALUE})
        assert (await client.request(put, PATIENCE)).code == 0
        frames = [encode(make_request(codes.GET_KVLIST_BY_NAMESPACE, n, {"namespace": "N"})) for n in range(ASKED)]
        tracemalloc.start()
        with socket.create_connection(("127.0.0.1", node.port)) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            await asyncio.to_thread(sock.sendall, b"".join(frames))
            await until(lambda: any(peer.behind for peer in node._peers), "the peer to fall behind")
            for _ in range(5):
                assert (await client.request(make_request(codes.GET_KV_CONFIG, 0, ext), PATIENCE)).code == 0
            assert tracemalloc.get_traced_memory()[1] < 6 * WRITE_HIGH
            answers = await asyncio.to_thread(read_answers, sock, ASKED)
        assert [answer.opaque for answer in answers] == list(range(ASKED))
        assert {len(answer.body) > VALUE for answer in answers} == {True}
    finally:
        tracemalloc.stop()
        client.close()
        await client.wait_closed()
        await node.stop()


async def test_too_many_connections_are_refused_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = {"kv_config_path": str(tmp_path / "kvConfig.json"), "max_connections": 1}
    node = NamesrvNode(NamesrvOptions(listen_port=0, **conf))  # type: ignore[arg-type]  # keywords of the struct
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    ask = make_request(codes.GET_KVLIST_BY_NAMESPACE, 0, {"namespace": "N"})
    try:
        await client.request(ask, PATIENCE)
        for _ in range(TRIES):
            second = await ClientConnection.connect(node.address, PATIENCE)
            with pytest.raises(ConnectionLost):
                await second.request(ask, PATIENCE)
            await second.wait_closed()
        await client.request(ask, PATIENCE)
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()
    said = [record.message for record in caplog.records if "ulimit" in record.message]
    assert 1 <= len(said) < TRIES and "1 are open" in said[0]


async def test_start_on_an_address_that_others_reach_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = NamesrvNode(
        NamesrvOptions(bind_address="0.0.0.0", listen_port=0, kv_config_path=str(tmp_path / "kv.json"))
    )
    await node.start()
    await node.stop()
    assert "anyone who reaches 0.0.0.0 may register as any broker" in caplog.text


async def test_settings_changed_while_it_runs_are_kept_for_the_next_start(tmp_path: Path) -> None:
    flags = {"configStorePath": str(tmp_path / "own" / "namesrv.conf"), "listenPort": 0}
    kv = {"kvConfigPath": str(tmp_path / "kvConfig.json")}
    loaded, kept = load_daemon(NamesrvOptions, {**flags, **kv}, None, kept_settings, {})
    node = NamesrvNode(loaded.options, conf=kept)
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        for body in (b"orderMessageEnable=true\n", b"needWaitForService=true\nwaitSecondsForService=7\n"):
            assert (await client.request(make_request(codes.UPDATE_NAMESRV_CONFIG, 0, body=body), PATIENCE)).code == 0
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()
    again, _ = load_daemon(NamesrvOptions, {**flags, **kv}, None, kept_settings, {})
    options = again.options
    assert (options.order_message_enable, options.need_wait_for_service, options.wait_seconds_for_service) == (
        True,
        True,
        7,
    )
    assert Path(kept).stat().st_mode & 0o777 == 0o600
    text = Path(kept).read_text(encoding="utf-8")
    assert sorted(text.split()) == ["needWaitForService=true", "orderMessageEnable=true", "waitSecondsForService=7"]


async def test_a_limit_of_connections_changes_while_it_runs(tmp_path: Path) -> None:
    node = NamesrvNode(
        NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")), conf=f"{tmp_path}/kept.conf"
    )
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        body = b"maxConnections=1\n"
        assert (await client.request(make_request(codes.UPDATE_NAMESRV_CONFIG, 0, body=body), PATIENCE)).code == 0
        with socket.create_connection(("127.0.0.1", node.port)) as one_more:
            assert await asyncio.to_thread(one_more.recv, 1) == b"", "it is closed at once"
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()


class Failing(RealFiles):
    """Real files on which nothing can be written while `full` is set."""

    full = False

    def write_file(self, path: str, data: bytes) -> None:
        if self.full:
            raise FileFailed(f"cannot write {path}: no")
        super().write_file(path, data)


async def test_a_value_is_answered_when_it_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "fresh" / "kvConfig.json"
    node = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(path)))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        for number in range(3):
            ext = {"namespace": "N", "key": f"k{number}", "value": "v"}
            assert (await client.request(make_request(codes.PUT_KV_CONFIG, 0, ext), PATIENCE)).code == 0
            assert f"k{number}" in path.read_text(encoding="utf-8")
        gone = make_request(codes.DELETE_KV_CONFIG, 0, {"namespace": "N", "key": "k0"})
        assert (await client.request(gone, PATIENCE)).code == 0
        assert "k0" not in path.read_text(encoding="utf-8")
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()


async def test_a_value_that_cannot_be_written_is_answered_with_an_error_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "kvConfig.json"
    disk = Failing()
    node = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(path)), world=RealNodeWorld(disk))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        disk.full = True
        put = make_request(codes.PUT_KV_CONFIG, 0, {"namespace": "N", "key": "k", "value": "v"})
        answer = await client.request(put, PATIENCE)
        assert answer.code == codes.SYSTEM_ERROR and "kvConfig.json could not be written" in (answer.remark or "")
        disk.full = False
        await until(path.exists, "the file to be written after all")
        await until(lambda: "was written: the earlier error is resolved" in caplog.text, "the log to say so")
        disk.full = True
        assert (await client.request(put, PATIENCE)).code == codes.SYSTEM_ERROR
        path.unlink()
        disk.full = False
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()  # tries once more what is not on disk
    assert path.exists()


@pytest.mark.parametrize("spoilt", [b"", b"{]", b"[]"])
async def test_values_that_cannot_be_read_refuse_the_start_or_are_those_of_before(
    tmp_path: Path, spoilt: bytes
) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(spoilt)
    node = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(path)))
    with pytest.raises(StoreDamaged, match=r"kvConfig\.json cannot be read .*: replace it with an intact copy"):
        await node.start()
    (tmp_path / "kvConfig.json.bak").write_bytes(b'{"configTable":{"N":{"k":"before"}}}')
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    answer = await client.request(make_request(codes.GET_KV_CONFIG, 0, {"namespace": "N", "key": "k"}), PATIENCE)
    assert answer.ext()["value"] == "before"
    client.close()
    await client.wait_closed()
    await node.stop()


class SlowServer:
    """A name server whose every answer takes 10 ms by a clock of its own, which it moves."""

    def __init__(self, node: NamesrvNode) -> None:
        self.served: list[tuple[int, int]] = []
        self.took = 0
        self._server = node._server

    def handle(self, channel_id: int, remote: str, command: Command, now: int) -> Command | None:
        self.took += 10
        self.served.append((channel_id, command.opaque))
        return self._server.handle(channel_id, remote, command, now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


async def test_a_read_full_of_slow_requests_leaves_the_loop_to_others(tmp_path: Path) -> None:
    node = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kvConfig.json")))
    await node.start()
    slow: Any = SlowServer(node)
    node._server = slow
    node._peers._clock = Clock(steady=lambda: steady_ms() + slow.took)
    try:
        frames = [encode(make_request(codes.GET_BROKER_CLUSTER_INFO, n)) for n in range(SLOW)]
        with (
            socket.create_connection(("127.0.0.1", node.port)) as many,
            socket.create_connection(("127.0.0.1", node.port)) as one,
        ):
            many.sendall(b"".join(frames))
            one.sendall(frames[0])
            answers = await asyncio.to_thread(read_answers, many, SLOW)
            assert [answer.opaque for answer in answers] == list(range(SLOW))
            assert len(await asyncio.to_thread(read_answers, one, 1)) == 1
        place = next(at for at, (_, opaque) in enumerate(slow.served) if at and opaque == 0)
        assert place < 8  # not after all requests of the first
    finally:
        await node.stop()


async def test_unfinished_frames_of_all_peers_are_limited(tmp_path: Path) -> None:
    settings = {"kv_config_path": str(tmp_path / "kvConfig.json"), "max_unfinished_bytes": 100_000}
    node = NamesrvNode(NamesrvOptions(listen_port=0, **settings))  # type: ignore[arg-type]  # of two kinds
    await node.start()
    frame = encode(make_request(codes.PUT_KV_CONFIG, 0, body=bytes(200_000)))
    peers = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(5)]
    try:
        for peer in peers:
            await asyncio.to_thread(peer.sendall, frame[:40_000])
        await until(lambda: len(node._peers) == 2, "those who began first to be gone")
        assert node._unfinished.size <= 100_000
    finally:
        for peer in peers:
            peer.close()
        await node.stop()


async def test_brokers_are_told_of_a_change_in_their_set(tmp_path: Path) -> None:
    with ScriptedBroker() as broker:
        options = NamesrvOptions(
            listen_port=0, kv_config_path=str(tmp_path / "kvConfig.json"), notify_min_broker_id_changed=True
        )
        node = NamesrvNode(options)
        await node.start()
        clients = [await ClientConnection.connect(node.address, PATIENCE) for _ in range(2)]
        try:
            for number, addr in ((1, broker.address), (0, "127.0.0.1:1")):
                peer = FakeBroker(World(), broker_id=number, addr=addr).topic("T")
                body = encode_register_body(peer.body(), False, codes.VERSION_5_5_0)
                header = peer.header(enable_acting_master=True, body_crc32=body_checksum(body))
                request = make_request(codes.REGISTER_BROKER, 0, header.to_ext(), body, version=codes.VERSION_5_5_0)
                assert (await clients[number].request(request, PATIENCE)).code == codes.SUCCESS
            clients[0].close()
            told = codes.NOTIFY_MIN_BROKER_ID_CHANGE
            await until(lambda: len(broker.requests(told)) == 2, "both notices")
            seen = {command.ext()["minBrokerId"]: command.is_oneway for command in broker.requests(told)}
            assert seen == {"0": True, "1": True}
        finally:
            for client in clients:
                client.close()
                await client.wait_closed()
            await node.stop()
