"""A whole broker over sockets: sends, pulls, holds, refusals, restarts."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bolide.errors import ConfigError, ConnectionLost
from bolide.layout.message_id import host_text
from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import decode_records
from bolide.node.broker import BrokerNode
from bolide.node.loop.front import Connections
from bolide.node.machine.node_world import RealNodeWorld
from bolide.node.ports.daemon_port import CannotListen
from bolide.node.settings.broker_settings import check_log_folder
from bolide.remoting import codes
from bolide.remoting.command import encode, make_request
from bolide.store.disk.files import FileFailed, RealFiles
from bolide.transport.client import ClientConnection
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE
from tests.node.brokers import SYNCED, broker, options, pull_request, send_request

Scenario = Callable[[BrokerNode, ClientConnection], Awaitable[None]]


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_sent_message_can_be_pulled_immediately(tmp_path: Path, flush: str) -> None:
    async with broker(tmp_path, flush_disk_type=flush, sync_flush_timeout=60_000) as (_node, client):
        sent = await client.request(send_request(properties="TAGS\x01a\x02UNIQ_KEY\x01U1\x02"), PATIENCE)
        assert (sent.code, sent.ext()["queueOffset"], sent.ext()["transactionId"]) == (0, "0", "U1")
        pulled = await client.request(pull_request(), PATIENCE)
        assert pulled.code == 0 and pulled.remark == "FOUND"
        (record,) = decode_records(pulled.body)
        assert (record.topic, record.body, record.queue_offset) == ("T", b"hello", 0)
        properties = parse_properties_bytes(record.properties)
        assert properties == {
            "TAGS": "a",
            "UNIQ_KEY": "U1",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }


@pytest.mark.parametrize("role", [{}, {"broker_role": "SLAVE", "broker_id": 1}], ids=["master", "truncated slave"])
async def test_progress_beyond_the_queues_is_set_back_on_disk_by_the_start(
    tmp_path: Path, role: dict[str, Any]
) -> None:
    """Otherwise a start after the next loss of power finds longer queues, and passes over what is new in them."""

    def offsets(name: str) -> dict[str, Any]:
        table: dict[str, Any] = json.loads((tmp_path / f"config/{name}.json").read_bytes())["offsetTable"]
        return table

    ops, group = "RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS", "T@g"
    (tmp_path / "config").mkdir()
    (tmp_path / "abort").write_bytes(b"")
    (tmp_path / "config/delayOffset.json").write_text('{"offsetTable":{"1":3}}')
    (tmp_path / "config/followedTimer.json").write_text('{"queueOffset":9,"readTime":1}')
    (tmp_path / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": {ops: {"0": 2}, group: {"0": 5}}}))
    async with broker(tmp_path, **role):
        assert offsets("delayOffset") == {}
        timer = json.loads((tmp_path / "config/followedTimer.json").read_bytes())
        assert timer.get("queueOffset", 0) == 0
        assert offsets("consumerOffset")[ops] == {"0": -1} and offsets("consumerOffset")[group] == {"0": 0}


async def test_a_held_pull_is_woken_by_the_message(tmp_path: Path) -> None:
    # Neither a sweep nor the end of its time answers it before the test gives up: only the message is left.
    async with broker(tmp_path, hold_sweep_interval=3_600_000) as (_node, client):
        await client.request(send_request(), PATIENCE)
        held = client.start(pull_request(offset=1, sys_flag=6, suspend=600_000), 2 * PATIENCE)
        other = client.start(pull_request(offset=1, sys_flag=6, suspend=1), PATIENCE)
        answer = await other
        assert (answer.code, answer.remark) == (codes.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")
        assert not held.done()
        await client.request(send_request(body=b"second"), PATIENCE)
        answer = await asyncio.wait_for(held, PATIENCE)
        assert answer.code == 0
        assert [record.body for record in decode_records(answer.body)] == [b"second"]
        assert answer.ext()["nextBeginOffset"] == "2"


async def test_unknown_codes_and_broken_headers_are_answered(tmp_path: Path) -> None:
    async with broker(tmp_path) as (_node, client):
        unknown = await client.request(make_request(29999, 0), PATIENCE)
        assert (unknown.code, unknown.remark) == (3, " request type 29999 not supported")
        empty = await client.request(make_request(codes.SEND_MESSAGE_V2, 0, {"b": "T"}), PATIENCE)
        assert empty.code == 1 and "HeaderError" in str(empty.remark)
        client.oneway(make_request(29999, 0, oneway=True))
        assert (await client.request(send_request(), PATIENCE)).code == 0


async def test_messages_and_topics_survive_a_restart(tmp_path: Path) -> None:
    async with broker(tmp_path) as (_node, client):
        for number in range(10):
            assert (await client.request(send_request(body=b"%d" % number), PATIENCE)).code == 0
    async with broker(tmp_path, auto_create_topic_enable=False) as (_node, client):
        pulled = await client.request(pull_request(), PATIENCE)
        assert [record.body for record in decode_records(pulled.body)] == [b"%d" % n for n in range(10)]
        assert (await client.request(send_request(), PATIENCE)).ext()["queueOffset"] == "10"
        assert (await client.request(send_request("New"), PATIENCE)).code == codes.TOPIC_NOT_EXIST


class BrokenSync(RealFiles):
    """Real files whose syncs of the log fail once `broken` is set."""

    broken = False

    def datasync(self, handle: int) -> None:
        if self.broken and "/commitlog/" in self._paths[handle]:
            raise FileFailed("sync of the log failed: I/O error")
        super().datasync(handle)


async def test_after_a_crash_no_offset_is_beyond_the_end_of_its_queue(tmp_path: Path) -> None:
    """The log may have lost what was consumed; other messages come to those offsets, and they count."""
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0"}

    async def told(client: ClientConnection) -> str:
        return (await client.request(make_request(codes.QUERY_CONSUMER_OFFSET, 0, fields), PATIENCE)).ext()["offset"]

    async with broker(tmp_path) as (_, client):
        assert (await client.request(send_request(), PATIENCE)).code == 0
        await client.request(pull_request(), PATIENCE)
        ahead = make_request(codes.UPDATE_CONSUMER_OFFSET, 0, {**fields, "commitOffset": "9"})
        assert (await client.request(ahead, PATIENCE)).code == 0
    async with broker(tmp_path) as (_, client):
        assert await told(client) == "9", "after a clean stop it is what somebody wanted"
    (tmp_path / "abort").write_text("1")
    async with broker(tmp_path) as (_, client):
        assert await told(client) == "1"


async def test_a_promoted_slave_has_no_offset_beyond_the_end_of_its_queue(tmp_path: Path) -> None:
    """Without a master, groups commit offsets at a slave, also of messages that the slave never received."""
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0"}

    async def committed(client: ClientConnection) -> str:
        commit = make_request(codes.UPDATE_CONSUMER_OFFSET, 0, {**fields, "commitOffset": "9"})
        assert (await client.request(commit, PATIENCE)).code == 0
        return await stored(client)

    async def stored(client: ClientConnection) -> str:
        return (await client.request(make_request(codes.QUERY_CONSUMER_OFFSET, 0, fields), PATIENCE)).ext()["offset"]

    async with broker(tmp_path) as (_, client):
        assert (await client.request(send_request(), PATIENCE)).code == 0
        await client.request(pull_request(), PATIENCE)
    async with broker(tmp_path, broker_role="SLAVE", broker_id=1) as (_, client):
        assert await committed(client) == "9"
    async with broker(tmp_path, broker_role="SLAVE", broker_id=1) as (_, client):
        assert await stored(client) == "9", "its master may return, and has these messages"
    async with broker(tmp_path) as (_, client):
        assert await stored(client) == "1"
        assert await committed(client) == "1", "a client that has not pulled since"


async def test_a_failed_sync_refuses_the_send_closes_the_listener_and_ends_the_broker(tmp_path: Path) -> None:
    files = BrokenSync()
    node = BrokerNode(options(tmp_path, **SYNCED), world=RealNodeWorld(files))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    assert (await client.request(send_request(), PATIENCE)).code == 0
    files.broken = True
    refused = await client.request(send_request(), PATIENCE)
    assert refused.code == codes.SERVICE_NOT_AVAILABLE and "I/O error" in str(refused.remark)
    await asyncio.wait_for(node.stopped.wait(), PATIENCE)
    assert isinstance(node.failure, FileFailed)
    assert (await client.request(send_request(), PATIENCE)).code == codes.SERVICE_NOT_AVAILABLE
    with pytest.raises(ConnectionLost):
        await ClientConnection.connect(node.address, PATIENCE)
    client.close()
    await client.wait_closed()
    await node.stop()
    assert (tmp_path / "abort").exists()  # the next start must not take the store for a clean one


async def test_a_log_that_fails_as_the_broker_stops_takes_no_offset_with_it(tmp_path: Path) -> None:
    files = BrokenSync()
    node = BrokerNode(options(tmp_path), world=RealNodeWorld(files))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    assert (await client.request(send_request(), PATIENCE)).code == 0
    commit = {"consumerGroup": "TOOLS_CONSUMER", "topic": "T", "queueId": "0", "commitOffset": "1"}
    assert (await client.request(make_request(codes.UPDATE_CONSUMER_OFFSET, 1, commit), PATIENCE)).code == 0
    client.close()
    await client.wait_closed()
    files.broken = True
    with pytest.raises(FileFailed):
        await node.stop()
    assert "T@TOOLS_CONSUMER" in (tmp_path / "config" / "consumerOffset.json").read_text()


async def test_the_fast_port_serves_sends_and_no_pulls(tmp_path: Path) -> None:
    async with broker(tmp_path, listen_port=reserve_port(-2), fast_port_enable="true") as (node, _client):
        fast = await ClientConnection.connect(f"{node.ip}:{node.port - 2}", PATIENCE)
        assert (await fast.request(send_request(), PATIENCE)).code == 0
        refused = await fast.request(pull_request(), PATIENCE)
        assert (refused.code, refused.remark) == (3, " request type 11 not supported")
        fast.close()
        await fast.wait_closed()


async def test_silent_connections_are_found_and_busy_ones_are_not(tmp_path: Path) -> None:
    async with broker(tmp_path) as (node, client):
        await client.request(send_request(), PATIENCE)
        table = node.connections
        (channel,) = table.channels.values()
        assert table.idle(1_000) == []
        assert table.idle(120_999) == []
        assert table.idle(121_000) == [channel]
        await client.request(send_request(), PATIENCE)
        assert table.idle(200_000) == []


async def test_too_many_connections_are_refused(tmp_path: Path) -> None:
    async with broker(tmp_path, max_connections=1) as (node, client):
        await client.request(send_request(), PATIENCE)
        second = await ClientConnection.connect(node.address, PATIENCE)
        with pytest.raises(ConnectionLost):
            await second.request(send_request(), PATIENCE)
        assert (await client.request(send_request(), PATIENCE)).code == 0
        await second.wait_closed()


async def test_filters_are_born_by_the_clock_that_labels_records(tmp_path: Path) -> None:
    async with broker(tmp_path) as (node, _):
        node.store.clock_set(3_600_000)
        now = node.clock.now()
        assert node.parts.pulls._filters._consumer_filters.store_time(now) == now + 3_600_000


def our_threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("bolide-"))


async def test_a_start_that_fails_leaves_no_thread_and_no_lock_behind(tmp_path: Path) -> None:
    async with broker(tmp_path / "first") as (node, _):
        before = our_threads()
        other = BrokerNode(options(tmp_path / "other", listen_port=node.port))
        for _ in range(2):
            with pytest.raises(CannotListen):
                await other.start()
            assert our_threads() == before


def test_a_path_of_the_log_that_is_the_one_used_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for same in (f"{tmp_path}/store/commitlog", "store/commitlog/", f"{tmp_path}/link/commitlog", "~/store/commitlog"):
        check_log_folder(options(tmp_path / "store", store_path_commit_log=same))
    for other in (f"{tmp_path}/elsewhere", f"{tmp_path}/store", f"{tmp_path}/store/commitlog,{tmp_path}/b"):
        with pytest.raises(ConfigError, match=f"the log is in commitlog/ under storePathRootDir, which is {tmp_path}"):
            check_log_folder(options(tmp_path / "store", store_path_commit_log=other))


def test_connections_that_are_refused_have_one_line_a_second() -> None:
    table = Connections(1, 1000)
    told = [table.refusals_to_tell(now) for now in (5000, 5000, 5999, 6000, 6001, 4000)]
    assert told == [1, 0, 0, 3, 0, 2]


async def test_an_address_clients_cannot_reach_refuses_the_start(tmp_path: Path) -> None:
    node = BrokerNode(options(tmp_path, broker_ip1="192.0.2.7"))
    with pytest.raises(ConfigError, match="cannot be reached"):
        await node.start()
    await node.stop()


async def test_a_balancer_names_the_client_that_records_keep(tmp_path: Path) -> None:
    async with broker(tmp_path, trusted_proxies="127.0.0.1") as (node, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
        writer.write(b"PROXY TCP4 203.0.113.7 10.0.0.1 56324 10911\r\n" + encode(send_request()))
        await reader.readexactly(4)
        assert "203.0.113.7:56324" in [channel.remote for channel in node.connections.channels.values()]
        stored = [(await client.request(pull_request(queueId=str(queue)), PATIENCE)).body for queue in range(4)]
        records = [record for body in stored for record in decode_records(body)]
        assert [host_text(record.born_host) for record in records] == ["203.0.113.7:56324"]
        writer.close()
        await writer.wait_closed()
