"""Brokers under a controller in one loop: elections, roles that change while they run, logs that are cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bolide.admin import Admin
from bolide.errors import ConnectionLost
from bolide.layout.names import SCHEDULE_TOPIC
from bolide.node.broker import BrokerNode
from bolide.node.replication.switching import Switching
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.standing import Told
from bolide.replication.switch_frames import encode_answer
from bolide.store.background.arrival import Arrival
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE, until, until_answered
from proof.reader.records import leading
from tests.node.brokers import send_request
from tests.node.replication.controlled import ControlledSet, controlled, elect
from tests.node.replication.parts import OK, codes_of, log_of, same, send


async def test_the_first_broker_leads_and_the_second_holds_what_was_acknowledged(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first, second = await of.pair(in_sync_replicas=2)
        assert codes_of(await send(first, 100)) == OK
        assert log_of(first) == log_of(second)
        assert not second.parts.role.may_write
        assert codes_of(await send(second, 1)) == {codes.SYSTEM_BUSY}
        await same(first, second)


async def test_the_slave_leads_once_the_master_is_gone_and_the_old_master_follows(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first, second = await of.pair(all_ack_in_sync_state_set=True)
        assert codes_of(await send(first, 50)) == OK
        await of.stop("a")
        await of.leads(second)
        assert second.store.max_queue_offset("T", 0) == 50
        assert codes_of(await send(second, 50, first=50)) == OK
        again = await of.start("a", all_ack_in_sync_state_set=True)
        await of.all_in_sync(1, 2)
        assert codes_of(await send(second, 50, first=100)) == OK
        await same(second, again)
        assert again.store.max_queue_offset("T", 0) in range(151)
        await until(lambda: again.parts.role.broker_id == 1)


async def test_what_only_the_old_master_has_is_cut_when_it_follows(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        settings = {"all_ack_in_sync_state_set": True, "flush_disk_type": "SYNC_FLUSH"}
        first, second = await of.pair(**settings)
        assert codes_of(await send(first, 20)) == OK
        agreed = int(first.store.written_offset)
        # Nobody takes the slave out of the set, and it hears nothing more: what is sent now is the master's alone.
        await of.controller.stop()
        await second._replication.side._link.stop()
        unanswered = asyncio.create_task(send(first, 5, 700, first=900))
        await until(lambda: first.waiting_sends == 5 and int(first.store.flushed_offset) > agreed)
        assert first.store.max_queue_offset("T", 0) == 20, "nobody is given what is not confirmed"
        await of.stop("a")
        with pytest.raises(ConnectionLost):
            await unanswered
        of.controller = of.another_controller()
        await of.controller.start()
        await of.leads(second)
        assert second.store.max_queue_offset("T", 0) == 20
        assert codes_of(await send(second, 30, first=20)) == OK
        again = await of.start("a", **settings)
        await of.all_in_sync(1, 2)
        assert codes_of(await send(second, 30, first=50)) == OK
        await same(second, again)
        assert log_of(second)[:agreed] == log_of(again)[:agreed]
        await of.stop("b")
        await of.leads(again)
        assert again.store.max_queue_offset("T", 0) == 80


async def test_offsets_of_truncated_messages_are_reset_before_other_messages_get_them(tmp_path: Path) -> None:
    """The new master does not replace them: it does not know the group, and its delay levels have no progress."""
    async with controlled(tmp_path) as of:
        first, second = await of.pair()
        assert codes_of(await send(first, 3)) == OK
        await same(first, second)
        await of.controller.stop()  # otherwise the slave leaves the set, and cannot be elected
        link = switching_of(second)._link
        assert link is not None
        await link.stop()
        assert codes_of(await send(first, 5, first=900)) == OK
        assert first.store.max_queue_offset("T", 0) == 8
        client = await ClientConnection.connect(first.address, PATIENCE)
        await client.request(send_request("T", b"in two hours", "DELAY\x0118\x02"), PATIENCE)
        client.close()
        await client.wait_closed()
        assert first.store.max_queue_offset(SCHEDULE_TOPIC, 17) == 1
        first.parts.offsets.commit("g", "T", 0, 8, first.clock.now(), "10.0.0.1:5000")
        first.parts.delay.load(b'{"offsetTable":{"18":1}}')
        await of.stop("a")
        of.controller = of.another_controller()
        await of.controller.start()
        await of.leads(second)
        assert codes_of(await send(second, 10, first=3)) == OK
        again = await of.start("a")
        await of.all_in_sync(1, 2)
        await same(second, again)
        assert again.store.max_queue_offset("T", 0) == 13
        assert again.parts.offsets.query("g", "T", 0) == 3
        assert json.loads(again.parts.delay.encode())["offsetTable"] == {}
        assert json.loads((tmp_path / "a/config/delayOffset.json").read_bytes())["offsetTable"] == {}


async def test_a_slave_of_a_new_master_resets_offsets_that_its_log_has_not_reached(tmp_path: Path) -> None:
    """A group committed them without a master. The new master may give them to other messages."""
    async with controlled(tmp_path) as of:
        first, second = await of.pair()
        assert codes_of(await send(first, 3)) == OK
        await same(first, second)
        second.parts.offsets.commit("g", "T", 0, 9, second.clock.now(), "10.0.0.1:5000")
        switching = switching_of(second)
        await switching.follow(Told(1, first.address, 1, frozenset((1, 2)), 2), 2)
        await until(lambda: switching.shares_log())
        assert codes_of(await send(first, 10)) == OK
        await same(first, second)
        assert second.parts.offsets.query("g", "T", 0) == 3


async def test_a_new_master_resets_offsets_beyond_the_end_of_their_queue(tmp_path: Path) -> None:
    """Without a master, groups commit offsets at a slave, also of messages that only the lost master had."""
    async with controlled(tmp_path) as of:
        first, second = await of.pair(all_ack_in_sync_state_set=True)
        assert codes_of(await send(first, 3)) == OK
        await same(first, second)
        second.parts.offsets.commit("g", "T", 0, 9, second.clock.now(), "10.0.0.1:5000")
        await elect(of, 2)
        await of.leads(second)
        assert second.parts.offsets.query("g", "T", 0) == 3
        stored = json.loads((tmp_path / "b/config/consumerOffset.json").read_bytes())
        assert stored["offsetTable"]["T@g"] == {"0": 3}
        second.parts.offsets.commit("g", "T", 0, 9, second.clock.now(), "10.0.0.1:5000")
        assert second.parts.offsets.query("g", "T", 0) == 3


async def test_a_master_that_is_replaced_while_it_runs_follows_without_a_restart(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        settings = {"all_ack_in_sync_state_set": True}
        first, second = await of.pair(**settings)
        for round_, (old, new, number) in enumerate([(first, second, 2), (second, first, 1), (first, second, 2)]):
            assert codes_of(await send(old, 20, first=20 * round_)) == OK
            await elect(of, number)
            await of.leads(new)
            await until(lambda old=old: not old.parts.role.may_write)
            await of.all_in_sync(1, 2)
        assert second.store.max_queue_offset("T", 0) == 60
        assert codes_of(await send(second, 20)) == OK
        await same(second, first)
        await until(lambda: first.store.max_queue_offset("T", 0) == 80)
        assert {"T"} <= first.parts.topics.table.keys() & second.parts.topics.table.keys()


async def test_a_master_alone_says_that_a_message_is_held_once_and_delivers_it(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a", in_sync_replicas=2, slave_timeout=200)
        await of.leads(first)
        assert codes_of(await send(first, 3)) == {codes.FLUSH_SLAVE_TIMEOUT}
        await until(lambda: first.store.max_queue_offset("T", 0) == 3)


async def test_a_new_master_has_the_topics_of_its_messages_though_nobody_told_it(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first, second = await of.pair(all_ack_in_sync_state_set=True)
        assert second.master_tables is not None
        await second.master_tables.stop()
        assert codes_of(await send(first, 10)) == OK
        await elect(of, 2)
        await of.leads(second)
        assert "T" in second.parts.topics.table
        await of.all_in_sync(1, 2)
        await elect(of, 1)
        await of.leads(first)
        assert first.store.max_queue_offset("T", 0) == 10


async def test_slave_asks_for_a_topic_when_a_message_arrives_in_a_queue_that_it_does_not_know(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first, second = await of.pair(all_ack_in_sync_state_set=True)
        assert codes_of(await send(first, 1)) == OK
        await until(lambda: "T" in second.parts.topics.table)
        switching, tables = second._replication.side, second.master_tables
        assert switching is not None and tables is not None
        await tables.stop()
        tables._soon = False
        known = second.parts.topics.table["T"].read_queue_nums
        for queue, asks in ((known - 1, False), (known, True), (known, False)):
            switching.arrived([Arrival("T", queue, 1, 0, 0, b"")], 0)
            assert tables._soon is asks
            tables._soon = False


async def five_sends_that_wait(of: ControlledSet) -> tuple[BrokerNode, BrokerNode, asyncio.Task[list[Command]]]:
    """Start a master and a slave of a set that needs three members, and five sends, which wait for the third."""
    settings = {"in_sync_replicas": 3, "slave_timeout": 600_000}
    first, second = await of.pair(**settings)
    waiting = asyncio.create_task(send(first, 5))
    await until(lambda: first.waiting_sends == 5)
    return first, second, waiting


async def test_sends_that_wait_are_refused_once_the_master_is_replaced(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        _, second, waiting = await five_sends_that_wait(of)
        await elect(of, 2)
        answers = await waiting
        assert codes_of(answers) == {codes.SERVICE_NOT_AVAILABLE}
        assert all("may or may not be stored" in (answer.remark or "") for answer in answers)
        await of.leads(second)


async def test_a_master_that_returns_serves_nobody_what_another_could_be_elected_without(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a", all_ack_in_sync_state_set=True)
        await of.leads(first)
        assert codes_of(await send(first, 5)) == OK
        role, switching = first.parts.role, first._replication.side
        assert switching is not None
        await switching.lead(Told(1, first.address, 1, frozenset((1, 2)), 0), 1)
        assert not role.may_write
        assert not role.may_serve
        assert codes_of(await send(first, 1)) == {codes.SYSTEM_BUSY}
        # The controller is asked for a set of this broker alone: nobody else can be elected any more.
        await of.leads(first)
        assert of.in_sync() == {1}
        assert codes_of(await send(first, 1)) == OK


async def test_a_master_that_is_elected_once_more_confirms_nothing_in_between(tmp_path: Path) -> None:
    """What waits for replicas of the old epoch is not acknowledged by the new one, which begins with nobody."""
    async with controlled(tmp_path) as of:
        first, second, waiting = await five_sends_that_wait(of)
        role, switching = first.parts.role, first._replication.side
        assert switching is not None
        parts: list[bool] = []
        role.told.append(lambda role, now: parts.append(role.may_write))
        await switching.lead(Told(1, first.address, 9, frozenset((1,)), 9), 1)
        assert codes_of(await waiting) == {codes.SERVICE_NOT_AVAILABLE}
        assert parts == [False, True], "nothing is stored before the epoch is on disk"
        await second.stop()
        of.running.pop("b")


async def test_a_slave_is_read_once_its_log_is_known_to_be_its_masters(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first, second = await of.pair(slave_read_enable=True)
        role, switching = second.parts.role, second._replication.side
        assert switching is not None
        await until(lambda: role.may_serve)
        await switching.lose()
        assert not switching.shares_log(), "it has no master"
        await switching.follow(Told(1, first.address, 1, frozenset((1, 2)), 2), 2)
        assert not role.may_serve
        await until(lambda: role.may_serve)


@asynccontextmanager
async def speaking(stream: bytes) -> AsyncIterator[str]:
    """Run a server that writes these bytes to every connection; yield its address."""
    open_: list[asyncio.StreamWriter] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.append(writer)
        writer.write(stream)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in open_:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        await server.wait_closed()


def switching_of(node: BrokerNode) -> Switching:
    assert node._replication.side is not None
    return node._replication.side


@pytest.mark.parametrize("settings", [{"in_sync_replicas": 2}, {}])
async def test_replica_never_truncates_held_bytes_reports_it_and_remembers_after_a_restart(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with controlled(tmp_path) as of, speaking(encode_answer(Epochs([Epoch(1, 0)]), 0)) as liar:
        first = await of.start("a", **settings)
        await of.leads(first)
        second = await of.start("b", slave_read_enable=True, **settings)
        await of.all_in_sync(1, 2)
        assert codes_of(await send(first, 20)) == OK
        end = int(first.store.written_offset)
        await until(lambda: switching_of(second).held.offset == end == switching_of(first).held.offset)
        await of.controller.stop()  # otherwise the slave would be elected
        await of.stop("a")
        link = switching_of(second)._link
        assert link is not None
        await until(lambda: link.follow(liar) or bool(link.refused()))
        assert f"the set has confirmed this log up to {end}" in link.refused()
        assert f"bolide store truncate {second.store.root} --at 0 --yes" in link.refused()
        assert not second.parts.role.may_serve
        assert int(second.store.written_offset) == end
        async with Admin(of.names.address) as admin:
            await until_refused(admin, second.address)
        await of.stop("b")
        of.controller = of.another_controller()
        await of.controller.start()
        again = await of.start("b", **settings)
        assert switching_of(again).held.offset == end
        third = await of.start("a", **settings)
        await until(lambda: third.parts.role.may_write or again.parts.role.may_write)
        await of.all_in_sync(1, 2)
        assert again.parts.inspection.replicas.refused() == third.parts.inspection.replicas.refused() == ""


async def test_slave_prefers_the_masters_own_log_address_to_the_name_servers(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of, speaking(encode_answer(Epochs([Epoch(1, 0)]), 0)) as liar:
        _, second = await of.pair()
        link = switching_of(second)._link
        assert link is not None
        connection = link._connection
        assert connection is not None
        await until(switching_of(second).shares_log)
        switching_of(second).master_told(liar)
        assert switching_of(second).shares_log(), "the connection to its master is open"
        connection.abort()
        await until(lambda: link._connection not in (None, connection) and link.link(0).is_activated)
        assert link._connection is not None
        assert link._connection.remote != liar
        assert link.refused() == ""


async def until_refused(admin: Admin, address: str) -> None:
    """Wait until the list of replicas says that this one, and no other, does not follow."""

    async def refused() -> list[tuple[str, bool, bool]]:
        kept = [row for row in await admin.replicas() if row.kept]
        return [(row.replica, row.in_sync, "bolide store truncate" in row.kept) for row in kept]

    await until_answered(refused, [(address, False, True)])


async def test_log_that_differs_from_the_masters_is_not_truncated(tmp_path: Path) -> None:
    async with controlled(tmp_path) as of:
        first, second = await of.pair(in_sync_replicas=2)
        assert codes_of(await send(first, 20)) == OK
        end = int(first.store.written_offset)
        await until(lambda: int(second.store.flushed_offset) == end)
        await of.stop("b")
        path = tmp_path / "b" / "commitlog" / f"{0:020}"
        data = bytearray(path.read_bytes())
        differs = leading(bytes(data[:end])).records[-1].at + 47  # part of the born timestamp, which no CRC covers
        data[differs] ^= 1
        path.write_bytes(data)
        again = await of.start("b", in_sync_replicas=2)
        replicas = again.parts.inspection.replicas
        await until(lambda: bool(replicas.refused()))
        assert f"differ at offset {differs}" in replicas.refused()
        assert f"--at {differs} --yes" in replicas.refused()
        assert not again.parts.role.may_serve
