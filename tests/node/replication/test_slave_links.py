"""A master's slaves, each played by a socket: what they are sent, and what they cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.node.broker import BrokerNode
from bolide.node.replication.default_ha import SERVED_S
from bolide.node.replication.slave_links import (
    GATHER_BYTES,
    GATHER_MS,
    MOST_SLAVES,
    SHORT_MS,
    WRITE_BYTES,
    WRITE_HIGH,
    SlaveLinks,
)
from bolide.replication.frames import encode_report
from bolide.replication.in_sync import InSync
from bolide.replication.pacing import Pace
from bolide.transport.raw_connection import RawConnection
from proof.kit.waiting import PATIENCE, until
from tests.broker.parts import NOW, Parts, send_request
from tests.node.replication.parts import FILE, OK, codes_of, log_of, master, node_of, send

Slave = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(node: BrokerNode, *reports: int) -> Slave:
    """A slave that reports these ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.options.replication.ha_listen_port)
    writer.write(b"".join(map(encode_report, reports)))
    return reader, writer


async def frame(slave: Slave) -> tuple[int, bytes]:
    """The next transfer with bytes of the log."""
    async with asyncio.timeout(PATIENCE):
        while True:
            header = await slave[0].readexactly(12)
            body = await slave[0].readexactly(int.from_bytes(header[8:]))
            if body:
                return int.from_bytes(header[:8]), body


async def ended(slave: Slave) -> None:
    """Read until the master closes the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            while await slave[0].read(1 << 16):
                pass
        except ConnectionError:
            return
        finally:
            slave[1].close()


def slaves_of(node: BrokerNode) -> SlaveLinks:
    found = node._replication.side
    assert found is not None
    return found


async def test_a_slave_gets_the_log_from_where_it_ends_and_is_shown(tmp_path: Path) -> None:
    async with master(tmp_path, in_sync_replicas=1) as node:
        assert codes_of(await send(node, 150)) == OK
        slave = await connect(node, 5, 1000)
        got = b""
        while 1000 + len(got) < node.store.written_offset:
            offset, body = await frame(slave)
            assert offset == 1000 + len(got)
            assert len(body) <= 32 * 1024
            assert offset // FILE == (offset + len(body) - 1) // FILE, "within one file"
            got += body
        assert got == log_of(node)[1000:]
        slave[1].write(encode_report(1000 + len(got)))
        end = int(node.store.written_offset)
        await until(lambda: slaves_of(node).connections(0)[0].slave_ack_offset == end)
        (one,) = slaves_of(node).connections(0)
        assert slaves_of(node).in_sync(0) == 1
        assert (one.diff, one.in_sync, one.transfer_from_where) == (0, True, end)
        slave[1].close()
        await until(lambda: not slaves_of(node).connections(0))


async def test_a_slave_follows_once_it_confirms_bytes_or_has_the_whole_log(tmp_path: Path) -> None:
    """The records below its first report may belong to another log: it has not compared any bytes yet."""
    async with master(tmp_path, in_sync_replicas=1) as node:
        links = slaves_of(node)
        assert codes_of(await send(node, 20)) == OK
        end = int(node.store.written_offset)
        slave = await connect(node, 1000)
        await frame(slave)
        assert links.connections(0)[0].slave_ack_offset == 1000
        assert not node._replication.followed_by("127.0.0.1")
        slave[1].write(encode_report(1001))
        await until(lambda: node._replication.followed_by("127.0.0.1"))
        assert not node._replication.followed_by("127.0.0.2")
        slave[1].close()
        await until(lambda: not links.connections(0))
        assert not node._replication.followed_by("127.0.0.1")
        slave = await connect(node, end)
        await until(lambda: node._replication.followed_by("127.0.0.1"))
        slave[1].close()


async def test_a_slave_that_reads_nothing_costs_a_bounded_amount(tmp_path: Path) -> None:
    """What it does not read stays in the log, not in memory."""
    async with master(tmp_path, in_sync_replicas=1, mapped_file_size_commit_log=1 << 24) as node:
        assert codes_of(await send(node, 1000, 15_000)) == OK
        assert node.store.written_offset > 12 * WRITE_HIGH
        slave = await connect(node, 1)
        links = slaves_of(node)
        await until(lambda: any(connection.paused for connection in links._slaves))
        assert codes_of(await send(node, 50)) == OK
        (connection,) = links._slaves
        unread = connection._transport.get_write_buffer_size()
        assert WRITE_HIGH < unread < WRITE_HIGH + WRITE_BYTES + 4096, "the write that filled it, with its headers"
        got = 0
        while got + 1 < node.store.written_offset:
            got += len((await frame(slave))[1])
        slave[1].close()


@pytest.mark.parametrize(
    ("reports", "says"),
    [
        ([1 << 40], "reached offset 1099511627776 when this log ended at"),
        ([-1], "reports the offset -1"),
        ([1000, 1 << 30], None),
    ],
    ids=["ahead", "negative", "the last counts"],
)
async def test_a_report_that_cannot_be_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reports: list[int], says: str | None
) -> None:
    async with master(tmp_path, in_sync_replicas=1) as node:
        assert codes_of(await send(node, 10)) == OK
        for _ in range(3):
            await ended(await connect(node, *reports))
        assert caplog.text.count(says or "reached offset 1073741824") == 1, "one line, however often it tries"


async def test_what_was_deleted_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with master(tmp_path, in_sync_replicas=1) as node:
        assert codes_of(await send(node, 300)) == OK
        node.store.log.segments.detach_before(2 * FILE)
        await ended(await connect(node, 500))
        assert f"ends at offset 500, and this log starts at {2 * FILE}" in caplog.text


async def test_a_silent_slave_is_disconnected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with master(tmp_path, in_sync_replicas=1, ha_housekeeping_interval=300) as node:
        await ended(await connect(node))
        assert "silent for 300 ms" in caplog.text


async def test_connections_of_slaves_are_limited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with master(tmp_path, in_sync_replicas=1) as node:
        slaves = [await connect(node, 0) for _ in range(MOST_SLAVES)]
        await until(lambda: len(slaves_of(node)._slaves) == MOST_SLAVES)
        await until(lambda: all(slave.began_at >= 0 for slave in slaves_of(node)._slaves.values()))
        for _ in range(3):
            await ended(await connect(node))
        for slave in slaves:
            slave[1].close()
    said = [record.message for record in caplog.records if "connections are open" in record.message]
    assert len(said) == 1, "one line for each reason"


async def test_who_only_connects_makes_room_for_a_slave(tmp_path: Path) -> None:
    async with master(tmp_path, in_sync_replicas=1) as node:
        strangers = [await connect(node) for _ in range(MOST_SLAVES)]
        await until(lambda: len(slaves_of(node)._slaves) == MOST_SLAVES)
        slave = await connect(node, 0)
        await until(lambda: any(one.began_at >= 0 for one in slaves_of(node)._slaves.values()))
        await ended(strangers[0])
        assert len(slaves_of(node)._slaves) == MOST_SLAVES
        for each in (*strangers, slave):
            each[1].close()


async def test_two_slaves_must_hold_what_three_machines_must(tmp_path: Path) -> None:
    async with master(tmp_path, in_sync_replicas=3, slave_timeout=60_000) as node:
        one, two = await connect(node, 0), await connect(node, 0)
        await until(lambda: len(slaves_of(node)._slaves) == 2)
        sending = asyncio.create_task(send(node, 1))
        await frame(one)
        end = int(node.store.written_offset)
        one[1].write(encode_report(end))
        await until(lambda: slaves_of(node).connections(0)[0].slave_ack_offset == end)
        assert not sending.done()
        assert node.store.dispatched_offset == 0
        await frame(two)
        two[1].write(encode_report(end))
        assert codes_of(await sending) == OK
        for slave in (one, two):
            slave[1].close()


async def test_an_async_master_listens_where_the_port_is_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with master(tmp_path, broker_role="ASYNC_MASTER", in_sync_replicas=1) as node:
        slave = await connect(node, 0)
        assert codes_of(await send(node, 1)) == OK
        assert await frame(slave) == (0, log_of(node))
        assert "follows from offset 0" in caplog.text
        slave[1].close()
    async with node_of(tmp_path) as node:
        assert node._replication.side is None


async def test_a_stop_waits_until_a_slave_that_keeps_up_has_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No send waits for it, but it may be made the master next."""
    caplog.set_level(logging.INFO)
    quiet = {"broker_role": "ASYNC_MASTER", "in_sync_replicas": 1, "ha_send_heartbeat_interval": 600_000}
    async with master(tmp_path, **quiet) as node:
        slave, silent = await connect(node, 0), await connect(node)
        assert codes_of(await send(node, 1)) == OK
        end = int(node.store.written_offset)
        await frame(slave)
        stopping = asyncio.create_task(node.stop())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SERVED_S / 10):
                await slave[0].read(1)
        slave[1].write(encode_report(end))
        await stopping
        assert f"has disconnected, its last report was {end}" in caplog.text
        for each in (slave, silent):
            each[1].close()


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "10.0.0.2", 4000

    def write(self, data: bytes) -> None:
        self.written.append(data)


class Links:
    """A master's side of one slave, which reports offset 8 first; `scheduled` counts turns that were asked for."""

    def __init__(self, folder: Path, needed: int) -> None:
        self.parts = Parts(folder)
        self.scheduled: list[int] = []
        self.slaves = SlaveLinks(
            self.parts.store, InSync(needed=needed, timeout=3000, max_gap=1000, end=0), Pace(), self.parts.effects,
            lambda: self.scheduled.append(1), lambda: self.now, logging.getLogger("test"),
        )  # fmt: skip
        self.now = NOW
        self.connect()
        self.grow(1)
        self.connection.data_received(encode_report(8))

    def connect(self) -> None:
        """Open a connection."""
        self.connection, self.wire = RawConnection(self.slaves, WRITE_HIGH), Wire()
        self.connection.connection_made(self.wire)

    def grow(self, messages: int) -> None:
        """Have the log grow by so many messages of a good kilobyte."""
        for number in range(messages):
            self.parts.answer(send_request(body=b"%d" % number + bytes(1000)))

    @property
    def unsent(self) -> int:
        (slave,) = self.slaves._slaves.values()
        return int(self.parts.store.written_offset) - slave.session.next_offset


@pytest.fixture
def links(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Links]:
    made = Links(tmp_path, getattr(request, "param", 1))
    yield made
    made.parts.close()


@pytest.mark.parametrize(("links", "turns"), [(1, 2), (2, 3)], indirect=["links"])
def test_a_turn_writes_to_a_slave_once_and_a_report_ends_one_where_it_is_waited_for(links: Links, turns: int) -> None:
    links.grow(80)
    links.slaves.turn(NOW)
    end = int(links.parts.store.written_offset)
    (written,) = links.wire.written
    assert end > 2 * 32 * 1024 and len(written) == end - 8 + 3 * 12, "three transfers"
    links.connection.data_received(encode_report(end))
    assert len(links.scheduled) == turns
    assert links.slaves.connections(NOW)[0].slave_ack_offset == end


def test_a_slave_that_nobody_waits_for_is_sent_little_at_a_time_only_after_a_while(links: Links) -> None:
    links.slaves.turn(NOW)
    assert links.unsent == 0
    links.grow(1)
    links.parts.effects.take()
    for moment in range(GATHER_MS):
        links.slaves.turn(NOW + moment)
        assert links.unsent > 0
        assert links.slaves.due(NOW + moment) == NOW + GATHER_MS
    assert links.parts.effects.take().wakes == [links.slaves]
    links.grow(1)
    links.slaves.turn(NOW + GATHER_MS)
    assert links.unsent == 0 and len(links.wire.written) == 2, "both at once"
    assert links.slaves.due(NOW + GATHER_MS) > NOW + 1000


def test_much_is_sent_at_once(links: Links) -> None:
    links.slaves.turn(NOW)
    while links.unsent < GATHER_BYTES:
        links.slaves.turn(NOW)
        links.grow(1)
    links.slaves.turn(NOW)
    assert links.unsent == 0


@pytest.mark.parametrize("links", [2], indirect=True)
def test_a_slave_with_another_log_acknowledges_nothing_below_the_offset_that_it_requests(links: Links) -> None:
    """It compares its last file only, so it requests the start of this file; the records below may differ."""
    links.grow(2)
    end = int(links.parts.store.written_offset)
    links.connection.connection_lost(None)
    links.slaves.turn(NOW)
    links.connection, links.wire = RawConnection(links.slaves, WRITE_HIGH), Wire()
    links.connection.connection_made(links.wire)
    links.connection.data_received(encode_report(end - 8))
    links.slaves.turn(NOW)
    assert links.slaves.late(end - 8) and links.parts.store.replicated_offset == 0
    links.connection.data_received(encode_report(end))
    links.slaves.turn(NOW)
    assert not links.slaves.late(end) and links.parts.store.replicated_offset == end


@pytest.mark.parametrize("links", [2], indirect=True)
def test_a_slave_that_is_waited_for_is_sent_everything_at_once(links: Links) -> None:
    for _ in range(3):
        links.grow(1)
        links.slaves.turn(NOW)
        assert links.unsent == 0


def test_a_clock_that_is_set_back_holds_nothing_up(links: Links) -> None:
    links.slaves.turn(NOW)
    links.grow(1)
    links.slaves.turn(NOW - 1)
    assert links.unsent == 0


def test_a_slave_that_reads_nothing_wakes_nobody(links: Links) -> None:
    links.slaves.turn(NOW)
    links.grow(1)
    links.slaves.turn(NOW + 1)
    links.connection.pause_writing()
    links.slaves.turn(NOW + GATHER_MS)
    assert links.unsent > 0
    due = links.slaves.due(NOW + GATHER_MS)
    assert due is not None and due > NOW + 1000
    links.connection.resume_writing()
    links.slaves.turn(NOW + GATHER_MS)
    assert links.unsent == 0


def test_reports_that_a_closed_connection_still_has_are_ignored(links: Links) -> None:
    end = int(links.parts.store.written_offset)
    links.slaves.close(frozenset({2}))
    assert not links.wire.aborted
    links.slaves.close(frozenset({1}))
    assert links.wire.aborted
    links.connection.data_received(encode_report(end))
    assert not links.slaves.connections(NOW)
    assert links.slaves.in_sync(NOW) == 0


def test_repeated_short_connections_of_a_slave_are_logged_once(
    links: Links, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    links.slaves.turn(NOW)
    end = int(links.parts.store.written_offset)

    def connect(lasts: int, *reports: int) -> list[str]:
        caplog.clear()
        links.connect()
        for report in reports:
            links.connection.data_received(encode_report(report))
            links.slaves.turn(links.now)
        links.now += lasts
        links.connection.connection_lost(None)
        return [record.getMessage().split(" ", 3)[3].split(",")[0] for record in caplog.records]

    both = ["follows from offset 8", "has disconnected"]
    assert connect(100, 8) == both
    for _ in range(3):
        assert connect(100, 8) == []
    assert connect(100, 8, end) == ["has disconnected"], "its report is another"
    assert connect(SHORT_MS, 8) == ["has disconnected"], "it stayed"
    assert connect(100, 8) == both
    assert connect(100, end) == [f"follows from offset {end}", "has disconnected"]
