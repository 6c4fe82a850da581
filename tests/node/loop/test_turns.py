"""No peer holds the loop: what takes long is shared out over turns, in order, and nothing of it is lost."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Hold, NewRecords, Outcome, Parked, Waiter, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.core.stats import BrokerStats
from bolide.layout.message_id import encode_host
from bolide.node.loop.clock import Clock
from bolide.node.loop.front import LIGHT_AT_ONCE, Connections, Front
from bolide.node.loop.resumer import MOST_WOKEN, REST_MS, WOKEN_MS, Resumer
from bolide.node.loop.services import TICKS_MS
from bolide.node.loop.turns import FAILED_WAIT_MS, READS_MS, TICKS_AT_ONCE, Turns
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.request_routes import NO_CODES, Kind, RawRoute
from tests.node.loop.executing import NOW, OTHER, PULLS, Handlers, World, held
from tests.node.loop.turning import Loop, PatientHost, Ringing

TEN_MS = 10


class SharedHandlers(Handlers):
    """Sends are light, as a broker's are."""

    def routes(self) -> Routes:
        rows = [RawRoute(code, None, self.on_any, Kind.READ) for code in (PULLS, OTHER)]
        return [*rows, RawRoute(codes.SEND_MESSAGE_V2, None, self.on_any, Kind.SEND, light=True)]


class Shared(World):
    """An executor with turns, whose every answer takes `cost` ms."""

    host_type = PatientHost

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.loop = Loop()
        self.cost = TEN_MS
        self.served: list[tuple[int, int]] = []
        self.ticks: list[int] = []
        assert isinstance(self.host, PatientHost)
        self.patient = self.host
        self.turns = Turns(self.loop, self.executor, Clock(lambda: NOW, lambda: self.loop.passed))
        self.patient.turns_of = self.turns
        self.front = Front(self.turns, Connections(10, 1), BrokerStats(NOW), logging.getLogger("test"), NO_CODES)
        self.answers = {OTHER: self.slow, codes.SEND_MESSAGE_V2: self.slow}

    def handlers(self) -> Service:
        return SharedHandlers(self)

    def slow(self, channel: Channel, command: Command, now: int) -> Outcome:
        self.served.append((channel.id, command.opaque))
        self.loop.passed += self.cost
        return reply(make_response(command, 0))

    def read(self, channel: Channel, count: int, code: int = OTHER) -> None:
        """One read of a socket brings so many requests."""
        self.arrive(channel, [make_request(code, number) for number in range(count)])

    def arrive(self, channel: Channel, commands: list[Command]) -> None:
        self.front.take(channel, b"")
        self.front.received(channel, commands)

    def taken(self) -> int:
        """Requests served since the last call."""
        count, self.served = len(self.served), []
        return count


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Shared]:
    made = Shared(tmp_path)
    yield made
    made.store.close(NOW)


def test_a_turn_ends_in_time_and_what_is_left_is_served_in_order(world: Shared) -> None:
    world.read(world.peer, 9)
    assert world.taken() == READS_MS // TEN_MS
    assert world.patient.held_back == {world.peer.id}
    while world.loop.soon:
        before = world.loop.passed
        world.loop.turn()
        assert world.loop.passed - before <= 2 * TEN_MS
    assert [answer.opaque for answer in world.host.written[world.peer.id]] == list(range(9))
    assert world.patient.held_back == set()


def test_the_others_of_a_turn_get_their_share_of_the_next(world: Shared) -> None:
    third = Channel(3, encode_host("10.0.0.3", 2), "10.0.0.3:2")
    world.read(world.peer, 50)
    world.read(world.other, 50)
    world.read(third, 1)
    assert len(world.served) == READS_MS // TEN_MS
    while not any(channel == 3 for channel, _ in world.served):
        world.loop.turn()
    counts = [sum(1 for channel, _ in world.served if channel == number) for number in (1, 2, 3)]
    assert counts[2] == 1
    assert max(counts) <= 6
    while world.loop.soon:
        world.loop.turn()
    for channel, asked in ((world.peer, 50), (world.other, 50), (third, 1)):
        assert [answer.opaque for answer in world.host.written[channel.id]] == list(range(asked))


def test_what_waits_for_a_turn_stays_before_what_comes_later(world: Shared) -> None:
    world.read(world.peer, 4)
    world.arrive(world.peer, [make_request(OTHER, 4)])
    while world.loop.soon:
        world.loop.turn()
    assert [answer.opaque for answer in world.host.written[world.peer.id]] == list(range(5))


def test_cheap_requests_share_one_look_at_the_clock(world: Shared) -> None:
    world.read(world.peer, 3 * LIGHT_AT_ONCE, codes.SEND_MESSAGE_V2)
    assert world.taken() == LIGHT_AT_ONCE


def test_a_peer_that_goes_leaves_nothing_behind(world: Shared) -> None:
    world.read(world.peer, 9)
    world.taken()
    world.executor.closed(world.peer, NOW)
    while world.loop.soon:
        world.loop.turn()
    assert world.taken() == 0
    assert world.executor.outbox.for_next_turn == 0


def test_pulls_that_wake_together_are_shared_out(world: Shared) -> None:
    found = held(world)

    def hold_it(channel: Channel, command: Command, now: int) -> Outcome:
        outcome = found(command)
        assert isinstance(outcome, Hold)
        outcome.waiter.command = command
        outcome.waiter.records = NewRecords(0, predicate=lambda properties: True)
        outcome.waiter.again = lambda now: world.slow(channel, command, now)
        return outcome

    world.answers[PULLS] = hold_it
    world.cost = 0
    world.read(world.peer, 20, PULLS)
    world.loop.turn()
    world.cost = TEN_MS
    assert world.waiters.count == 20
    world.executor.tick(NOW + 100)
    assert world.taken() <= 3
    while world.loop.soon:
        world.loop.turn()
    world.turns.schedule()
    while world.loop.soon:
        world.loop.turn()
    assert sorted(answer.opaque for answer in world.host.written[world.peer.id]) == list(range(20))


def test_the_first_of_many_pulls_that_wake_are_answered_soon(world: Shared) -> None:
    found = held(world)

    def hold_it(channel: Channel, command: Command, now: int) -> Outcome:
        outcome = found(command)
        assert isinstance(outcome, Hold)
        outcome.waiter.command = command
        outcome.waiter.records = NewRecords(0, predicate=lambda properties: True)
        outcome.waiter.again = lambda now: world.slow(channel, command, now)
        return outcome

    world.answers[PULLS] = hold_it
    world.cost = 0
    world.read(world.peer, 20, PULLS)
    world.loop.turn()
    world.cost = 1
    world.executor.tick(NOW + 100)
    assert world.taken() == 1 + WOKEN_MS
    assert world.patient.held_back == set()
    assert world.executor.unanswered == 19 - WOKEN_MS
    while world.executor.unanswered:
        world.executor.end_of_turn(NOW + 100)
        assert 0 < world.taken() <= 1 + REST_MS
    assert len(world.host.written[world.peer.id]) == 20


def test_no_more_pulls_that_woke_wait_than_are_counted(world: Shared) -> None:
    world.cost = 0
    pulls = []
    for number in range(MOST_WOKEN + 200):
        command = make_request(PULLS, number)
        outcome = held(world)(command)
        assert isinstance(outcome, Hold)
        again = functools.partial(world.slow, world.peer, command)
        records = NewRecords(0, predicate=lambda properties: True)
        pulls.append(Waiter(world.peer, command, outcome.waiter.key, NOW, again, records))
    world.cost = 1
    resumer = Resumer(
        world.executor.outbox,
        world.host,
        lambda channel, command, not_served, now: None,
        world.executor.settle,
        lambda channel, command, error: None,
        lambda now, lag: None,
    )
    resumer.clock = world.turns.now
    resumer.woken(pulls, NOW)
    assert resumer.woken_left == MOST_WOKEN
    assert world.patient.held_back == {world.peer.id}


def test_ticks_leave_the_loop_in_time(world: Shared) -> None:
    class Slow(Service):
        def __init__(self) -> None:
            self.ticked = 0

        def due(self, now: int) -> int | None:
            return NOW if self.ticked == 0 else None

        def tick(self, now: int, budget: int) -> None:
            self.ticked += 1
            world.loop.passed += TEN_MS

    slow = [Slow() for _ in range(5)]
    services = type(world.services)(slow)
    services.clock = world.turns.now
    services.start(NOW)
    assert services.tick(NOW, lambda service, error: None) == -(-TICKS_MS // TEN_MS)
    assert services.next_due() == NOW
    services.tick(NOW, lambda service, error: None)
    services.tick(NOW, lambda service, error: None)
    assert [one.ticked for one in slow] == [1] * 5


def test_how_long_turns_take_is_counted(world: Shared) -> None:
    turns = world.executor.stats.turns
    assert turns.text().startswith("[<=0ms]:0 [0~5ms]:0 [5~10ms]:0 [10~20ms]:0")
    for cost in (700, TEN_MS, 0):
        world.cost = cost
        world.read(world.peer, 1)
        world.loop.turn()
    assert (turns.counts, turns.longest) == ([1, 0, 1, 0, 0, 0, 0, 0, 1, 0], 700)


class SlowTick(SharedHandlers):
    """One tick, 300 ms after the start, which takes 60 ms."""

    ticked = False

    def due(self, now: int) -> int | None:
        return None if self.ticked else NOW + 300

    def tick(self, now: int, budget: int) -> None:
        self.ticked = True
        assert isinstance(self.world, Shared)
        self.world.loop.passed += 60


class Ticking(Shared):
    """An executor with one service that wants a tick."""

    def handlers(self) -> Service:
        return SlowTick(self)


def test_a_tick_is_part_of_its_turn_and_a_late_ring_is_counted(tmp_path: Path) -> None:
    world = Ticking(tmp_path)
    world.loop = loop = Ringing()
    stats = world.executor.stats
    world.services.start(NOW)
    turns = Turns(loop, world.executor, Clock(lambda: NOW, lambda: loop.passed))
    turns.start()
    loop.passed += 40  # the loop is busy with something else when the timer should ring
    loop.ring()
    assert (stats.late_timers.longest, sum(stats.late_timers.counts)) == (40, 1)
    assert (stats.turns.longest, sum(stats.turns.counts)) == (60, 1)
    world.store.close(NOW)


class LongWork(SharedHandlers):
    """So many ticks of 3 ms, each due as soon as the one before is over."""

    left = 3 * TICKS_AT_ONCE

    def due(self, now: int) -> int | None:
        return NOW if self.left else None

    def tick(self, now: int, budget: int) -> None:
        self.left -= 1
        assert isinstance(self.world, Shared)
        self.world.loop.passed += 3


class Working(Shared):
    """An executor with one service that has much to do."""

    work: LongWork

    def handlers(self) -> Service:
        self.work = LongWork(self)
        return self.work


def test_long_work_needs_no_pauses_and_lets_sockets_be_read(tmp_path: Path) -> None:
    world = Working(tmp_path)
    world.loop = loop = Ringing()
    world.services.start(NOW)
    turns = Turns(loop, world.executor, Clock(lambda: NOW, lambda: loop.passed))
    turns.schedule()
    loop.turn()
    pauses = 0
    while world.work.left:
        assert not (loop.soon and loop.later)
        left = world.work.left
        if loop.soon:
            loop.turn()  # sockets are read before each of them
        else:
            assert loop.later[-1][0] == 0.001
            loop.ring()
            pauses += 1
        assert world.work.left == left - 1
    assert pauses == pytest.approx(3, abs=1)
    world.store.close(NOW)


def test_a_stop_ends_long_work(tmp_path: Path) -> None:
    world = Working(tmp_path)
    world.loop = loop = Ringing()
    world.services.start(NOW)
    turns = Turns(loop, world.executor, Clock(lambda: NOW, lambda: loop.passed))
    turns.schedule()
    loop.turn()
    turns.stop()
    left = world.work.left
    while loop.soon:
        loop.turn()
    assert (world.work.left, loop.later) == (left, [])
    world.store.close(NOW)


@pytest.mark.parametrize("place", ["tick", "turn"])
def test_a_fault_of_ours_stops_no_clock(world: Shared, place: str) -> None:
    loop = Ringing()
    turns = Turns(loop, world.executor, Clock(lambda: NOW, lambda: loop.passed))
    fault = [RuntimeError("an internal error")]

    def once(*_: object) -> None:
        if fault:
            raise fault.pop()

    def send(channel: Channel, command: Command, now: int) -> Outcome:
        outcome = world.store_one(wait=place == "tick")(command)
        assert isinstance(outcome, Parked)
        outcome.after = once
        return outcome

    world.answers[OTHER] = send
    world.executor.handle(world.peer, make_request(OTHER, 1), NO_CODES, NOW)
    turns.schedule()
    if place == "tick":
        loop.turn()
        loop.passed += 500
        world.do(OTHER, world.store_one(), now=turns.now())  # its time is over half a second later
        turns.schedule()
        loop.turn()
    with pytest.raises(RuntimeError):
        while fault:
            loop.ring() if place == "tick" else loop.turn()
    assert not fault
    assert [seconds >= FAILED_WAIT_MS / 1000 for seconds, _ in loop.later] == [place == "turn"]


class Delaying(SharedHandlers):
    """Wants a tick half a second after it hears of a message, as the service of delays does."""

    at: int | None = None

    def tick(self, now: int, budget: int) -> None:
        self.at = None
        assert isinstance(self.world, Delayed)
        self.world.ticked_at.append(now - NOW)

    def due(self, now: int) -> int | None:
        return self.at

    def arrived(self, arrivals: object, now: int) -> None:
        self.at = now + 500


class Delayed(Shared):
    """An executor with a service that learns of messages once they are on disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ticked_at: list[int] = []

    def handlers(self) -> Service:
        return Delaying(self)


def test_what_a_flush_brings_is_waited_for(tmp_path: Path) -> None:
    world = Delayed(tmp_path)
    world.loop = loop = Ringing()
    world.services.start(NOW)
    turns = Turns(loop, world.executor, Clock(lambda: NOW, lambda: loop.passed))
    turns.start()
    world.do(OTHER, world.store_one())
    turns.schedule()
    loop.turn()
    while loop.next():
        pass  # the sync takes longer than the services wait to be asked again
    began = loop.passed
    target = world.host.flushes.pop(0)
    world.store.sync_commit_log(target)
    turns.flushed(target)
    while not world.ticked_at and loop.next():
        pass
    assert world.ticked_at == [began + 500]
    world.store.close(NOW)
