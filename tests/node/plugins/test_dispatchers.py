"""Dispatchers: every record once and in order, again after a failure, on from their progress, and nobody held up."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bolide.broker.core.effects import Effects
from bolide.layout.record import Record, encode_blank
from bolide.node.broker import BrokerNode
from bolide.node.plugins.dispatchers import CHUNK, Dispatchers, cut
from bolide.remoting.command import Command
from bolide.store.raw_log import RawLog
from bolide.transport.client import ClientConnection
from bolide.world.contract import Worker
from bolide.world.real import RealWorld
from proof.kit.waiting import PATIENCE, until
from tests.node.brokers import options, send_request
from tests.store.scenario import Machine


class Taker:
    """Takes records; fails while `fails`, waits while `open` is not set."""

    from_first = True

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.calls = 0
        self.fails = False
        self.open = threading.Event()
        self.open.set()
        self.closed = False

    def dispatch(self, records: Sequence[Record]) -> None:
        self.calls += 1
        self.open.wait()
        if self.fails:
            raise OSError("nobody listens")
        self.bodies += [record.body for record in records]

    def close(self) -> None:
        self.closed = True


class World:
    """A broker in which dispatchers are put by hand, as its setting would."""

    def __init__(self, folder: Path, **dispatchers: Taker) -> None:
        self.folder = folder
        self.node = BrokerNode(options(folder / "store"))
        self.made = dispatchers

    async def __aenter__(self) -> World:
        node = self.node
        await node.start()
        self.dispatchers = node._dispatchers = Dispatchers(
            self.made, node.store, node._executor._effects, asyncio.get_running_loop().call_soon_threadsafe,
            node.another_turn, lambda: self.now, RealWorld().worker,
        )  # fmt: skip
        self.now = 1_000_000
        kept = self.folder / "progress.json"
        if kept.exists() and kept.stat().st_size:
            self.dispatchers.load(kept.read_bytes())
        # Its time is the test's own, so that no pause ends by itself.
        node.parts.services.arrived_hooks.append(lambda arrivals, now: self.dispatchers.arrived(arrivals, self.now))
        self.dispatchers.tick(self.now, 1000)
        self.client = await ClientConnection.connect(node.address, PATIENCE)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.client.close()
        await self.client.wait_closed()
        await self.node.stop()
        (self.folder / "progress.json").write_bytes(self.dispatchers.encode())

    async def send(self, *bodies: bytes) -> None:
        for body in bodies:
            answer: Command = await self.client.request(send_request(body=body), PATIENCE)
            assert answer.code == 0


async def test_every_record_comes_once_and_in_order_over_restarts(tmp_path: Path) -> None:
    taker = Taker()
    many = [b"%d" % number for number in range(500)]
    async with World(tmp_path, one=taker) as world:
        await world.send(*many[:300])
        await until(lambda: len(taker.bodies) == 300, "the first records")
    assert taker.closed
    taker.closed = False
    async with World(tmp_path, one=taker) as world:
        await world.send(*many[300:])
        await until(lambda: len(taker.bodies) == 500, "the others")
    assert json.loads((tmp_path / "progress.json").read_text())["progress"]["one"] > 0
    assert taker.bodies == many


async def test_failed_dispatcher_gets_the_records_again_after_a_pause(tmp_path: Path) -> None:
    taker, other = Taker(), Taker()
    taker.fails = True
    async with World(tmp_path, bad=taker, good=other) as world:
        await world.send(b"a", b"b")
        await until(lambda: len(other.bodies) == 2, "the one that works")
        bad = world.dispatchers.feeds[0]
        await until(lambda: bad.failures == 1 and not bad.busy, "its failure")
        calls = taker.calls
        await world.send(b"c")
        assert taker.calls == calls  # the pause is kept, whatever arrives
        taker.fails = False
        assert world.dispatchers.due(world.now) == bad.not_before == world.now + 1000
        world.now += 1000
        world.dispatchers.tick(world.now, 1000)
        await until(lambda: taker.bodies == [b"a", b"b", b"c"], "everything again")
        await until(lambda: bad.failures == 0, "the news of it, which comes from the thread")
    assert other.bodies == [b"a", b"b", b"c"]


async def test_hanging_dispatcher_delays_neither_sends_nor_stop(tmp_path: Path) -> None:
    taker = Taker()
    taker.open.clear()
    async with World(tmp_path, one=taker) as world:
        await world.send(*[b"x" * 1000] * 1000)
        await until(lambda: taker.calls == 1, "the call that hangs")
    assert json.loads((tmp_path / "progress.json").read_text())["progress"]["one"] == 0
    taker.open.set()
    taker.bodies.clear()
    async with World(tmp_path, one=taker):
        await until(lambda: len(taker.bodies) >= 1000, "all of it, once more")


async def test_a_record_longer_than_a_chunk_comes_whole(tmp_path: Path) -> None:
    taker = Taker()
    long = bytes(3 * CHUNK)
    async with World(tmp_path, one=taker) as world:
        await world.send(b"before", long, b"behind")
        await until(lambda: len(taker.bodies) == 3, "all three")
    assert taker.bodies == [b"before", long, b"behind"]


async def test_a_new_one_that_does_not_want_the_past_begins_with_the_next_record(tmp_path: Path) -> None:
    taker = Taker()
    taker.from_first = False
    async with World(tmp_path) as world:
        await world.send(b"past")
    async with World(tmp_path, one=taker) as world:
        await world.send(b"present")
        await until(lambda: taker.bodies == [b"present"], "what came after its start")


def test_the_blank_at_the_end_of_a_file_leads_to_the_next_one() -> None:
    batch = cut(encode_blank(100)[:50], 900, 1000)
    assert (batch.records, batch.end, batch.wanted) == ([], 1000, 0)


def test_bytes_that_are_no_record_lead_nowhere() -> None:
    batch = cut(bytes(50), 900, 1000)
    assert (batch.records, batch.end, batch.wanted) == ([], 900, 0)


class ByHand:
    """A worker whose jobs run when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], object]] = []

    def give(self, job: Callable[[], object]) -> None:
        self.jobs.append(job)

    def stop(self, patience: float | None = None) -> bool:
        return True


def over(of: Machine, taker: Taker, worker: ByHand, effects: Effects | None = None) -> Dispatchers:
    """A dispatcher of a store without a node around it."""
    return Dispatchers(
        {"one": taker}, of.store, effects or Effects(), lambda call, *told: call(*told), lambda: None, lambda: of.now,
        lambda name: worker,
    )  # fmt: skip


def test_records_at_the_offsets_of_truncated_ones_are_dispatched() -> None:
    """A slave truncates its log after an election. Its dispatcher had processed the end, or is about to."""
    made, taker, worker = Machine(), Taker(), ByHand()
    made.turn(3)
    dispatchers = over(made, taker, worker)
    dispatchers.tick(made.now, 1)
    worker.jobs.pop()()
    assert len(taker.bodies) == 3
    RawLog(made.store).cut(made.acknowledged[1].at.physical_offset, made.now)
    made.turn()
    made.tick()
    dispatchers.tick(made.now, 1)
    RawLog(made.store).cut(made.acknowledged[1].at.physical_offset, made.now)
    worker.jobs.pop()()
    made.turn(4)
    dispatchers.tick(made.now, 1)
    worker.jobs.pop()()
    assert taker.bodies[-5:] == [b"body 3 " * 4, *(b"body %d " % number * (1 + number % 5) for number in range(4, 8))]
    assert not worker.jobs


def test_progress_is_written_soon_after_a_truncation() -> None:
    """After a crash, a start would find a longer log and accept progress that the truncated records had."""
    made, taker, worker = Machine(), Taker(), ByHand()
    made.turn(3)
    effects = Effects()
    dispatchers = over(made, taker, worker, effects)
    dispatchers.load(b'{"progress": {"removed": 100000}}')
    dispatchers.feeds[0].offset = 0
    dispatchers.tick(made.now, 1)
    worker.jobs.pop()()
    made.tick(10_000)
    dispatchers.tick(made.now, 1)
    assert effects.persists
    effects.persists.clear()
    end = made.acknowledged[1].at.physical_offset
    RawLog(made.store).cut(end, made.now)
    due = dispatchers.due(made.now)
    assert due is not None and due <= made.now
    dispatchers.tick(made.now, 1)
    assert effects.persists
    assert json.loads(dispatchers.encode())["progress"] == {"one": end, "removed": end}


def test_dispatcher_beyond_the_end_of_the_log_is_due() -> None:
    """Otherwise the log has grown past its offset when the next record arrives."""
    made, taker, worker = Machine(), Taker(), ByHand()
    made.turn(2)
    dispatchers = over(made, taker, worker)
    dispatchers.load(b'{"progress": {"one": 100000}}')
    assert dispatchers.due(made.now) == made.now
    dispatchers.tick(made.now, 1)
    assert dispatchers.feeds[0].offset == made.store.dispatched_offset
    made.turn()
    dispatchers.tick(made.now, 1)
    worker.jobs.pop()()
    assert taker.bodies == [b"body 2 " * 3]


async def test_a_thread_that_cannot_be_started_ends_those_before_it(tmp_path: Path) -> None:
    first, second = Taker(), Taker()

    def worker(name: str) -> Worker:
        if name.endswith("second"):
            raise RuntimeError("can't start new thread")
        return RealWorld().worker(name)

    async with World(tmp_path) as world:
        node = world.node
        made = {"first": first, "second": second}
        with pytest.raises(RuntimeError, match="start new thread"):
            Dispatchers(made, node.store, Effects(), lambda *told: None, node.another_turn, node.clock.now, worker)
    assert first.closed
    assert not [thread for thread in threading.enumerate() if thread.name == "bolide-dispatcher-first"]
