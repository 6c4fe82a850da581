"""Frames that are served before they become commands: when they may be, and that nothing else changes by it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bolide.broker.core.outcome import Outcome, Parked, reply
from bolide.broker.core.stats import BrokerStats
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.send.plain_sends import LIGHT_BODY, PlainSends
from bolide.broker.tables.topics import TopicTable
from bolide.node.loop.clock import Clock
from bolide.node.loop.front import LIGHT_AT_ONCE, Connections, Front
from bolide.node.loop.turns import FAILED_WAIT_MS, READS_MS, Turns
from bolide.remoting import codes
from bolide.remoting.command import Command, encode, make_request, make_response
from bolide.remoting.request_routes import NO_CODES
from bolide.transport.server import ServerConnection
from tests.node.loop.executing import NOW, PULLS, SENDS, World
from tests.node.loop.turning import Loop, PatientHost, Ringing
from tests.transport.noting import NotingTransport

ANSWER = encode(make_response(make_request(codes.SEND_MESSAGE_V2, 5), 0))
HEARTBEAT = encode(make_request(codes.HEART_BEAT, 6))
Taken = tuple[int, int, int, int, bytes, bytes, bytes, list[str | bytes]]


class Kernel:
    """Accepts text as one send without a record, and four capitals as four sends of weight 8. Rejects real frames."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def take(
        self,
        data: bytes,
        at: int,
        enough: int,
        find: Callable[[bytes], object],
        host: bytes,
        start: int,
        room: int,
        stamp: int,
    ) -> Taken | None:
        self.asked.append((at, enough))
        if data[at : at + 4].isupper():
            return at + 4, 4, 32, 0, b"", 4 * ANSWER, b"", []
        return (len(data), 1, 5, 0, b"", ANSWER, b"", []) if data[at] else None

    def take_long(
        self, head: bytes, body: bytes, find: Callable[[bytes], object], host: bytes, start: int, room: int, stamp: int
    ) -> Taken | None:
        """Takes a send whose head is "plain". Its weight is the number of bytes of its body."""
        return (0, 1, len(body), 0, b"", ANSWER, b"", []) if head == b"plain" else None


class Fronted(World):
    """An executor that takes plain sends, behind a front and in turns."""

    host_type = PatientHost

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, sync=False)
        topics = TopicTable(BrokerOptions(), self.effects, NOW)
        self.kernel = Kernel()
        self.executor.plain = PlainSends(self.kernel, self.door, topics, self.executor.stats)  # type: ignore[arg-type]  # does what a kernel does
        self.loop = Loop()
        self.passed = 0
        self.ticks = 0
        """What a reading of the clock takes."""
        self.turns = Turns(self.loop, self.executor, Clock(lambda: NOW, self.steady))  # type: ignore[arg-type]  # all of a loop that they use
        assert isinstance(self.host, PatientHost)
        self.host.turns_of = self.turns
        self.do(SENDS, self.store_one())  # so that the log has a file in use
        self.end_of_turn()
        self.host.written.clear()
        self.peer.sends = True

    def steady(self) -> int:
        self.passed += self.ticks
        return self.passed

    def front(self, not_served: frozenset[int] = NO_CODES) -> Front:
        return Front(self.turns, Connections(10, 1), BrokerStats(NOW), logging.getLogger("test"), not_served)

    def end_of_turn(self) -> None:
        self.turns.schedule()
        while self.loop.soon:
            self.loop.turn()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Fronted]:
    made = Fronted(tmp_path)
    yield made
    made.store.close(NOW)


def test_plain_sends_are_taken_and_answered_with_the_turn(world: Fronted) -> None:
    assert world.front().take(world.peer, b"plain") == 5
    assert world.got() == []
    world.loop.turn()
    assert world.got() == [(0, None)]


def test_what_waits_too_long_in_a_turn_is_left_for_the_next(world: Fronted) -> None:
    """It is postponed, as everything that is read so late, connection by connection."""
    front = world.front()
    world.passed += 5
    assert front.take(world.peer, b"plain") == 5
    world.passed += READS_MS - 1
    assert front.take(world.peer, b"plain") == 5
    world.passed += 1
    assert front.take(world.peer, b"plain") == 0
    world.end_of_turn()
    assert front.take(world.peer, b"plain") == 5
    world.end_of_turn()
    assert len(world.got()) == 3


def test_a_peer_whose_reads_begin_with_other_requests_is_not_looked_at(world: Fronted) -> None:
    front = world.front()
    assert front.take(world.peer, HEARTBEAT) == 0
    assert front.take(world.peer, b"plain") == 0
    world.do(SENDS, world.store_one())
    assert front.take(world.peer, b"plain") == 5, "an ordinary send may be followed by plain ones"


@pytest.mark.parametrize("size", [1, 4, 8, len(HEARTBEAT) - 1])
def test_a_read_with_a_part_of_a_frame_does_not_disable_the_kernel(world: Fronted, size: int) -> None:
    front = world.front()
    assert front.take(world.peer, HEARTBEAT[:size]) == 0
    assert front.take(world.peer, b"plain") == 5


@pytest.mark.parametrize(("weight", "readings", "after"), [(31, 0, 0), (32, 1, 5)])
def test_the_clock_is_read_after_a_long_send_as_after_others(
    world: Fronted, weight: int, readings: int, after: int
) -> None:
    """After a light one, the next sends are served as commands, because their weights add up."""
    front = world.front()
    world.peer.sends = False
    world.ticks = 1
    assert front.take(world.peer, b"", None) == 0
    of_every_read = world.passed
    assert front.take(world.peer, b"plain", (b"plain", bytes(weight))) == after
    assert world.peer.sends
    assert world.passed - 2 * of_every_read == readings


def test_a_long_send_that_the_kernel_rejects_is_left_to_the_caller(world: Fronted) -> None:
    front = world.front()
    assert front.take(world.peer, b"plain", (b"not plain", b"")) == -1
    assert world.kernel.asked == []
    world.passed += READS_MS
    assert front.take(world.peer, b"plain", (b"plain", b"")) == -1


def test_a_port_that_does_not_serve_sends_takes_none(world: Fronted) -> None:
    for not_served, takes in ((NO_CODES, True), (frozenset({codes.SEND_MESSAGE}), False)):
        front = world.front(not_served)
        assert (front.take(world.peer, b"plain") == 5) == takes


def test_every_read_of_a_connection_begins_at_the_front(world: Fronted) -> None:
    world.executor.plain = None
    front = world.front()
    connection = ServerConnection(front, 1 << 20, 100, 1000)
    connection.connection_made(NotingTransport())
    assert connection.taker is front


def test_sends_taken_at_once_use_up_the_time_of_a_turn_as_others_do(world: Fronted) -> None:
    """The clock is read whenever they weigh enough. Once the turn is over the rest of the read waits for another."""
    front = world.front()
    assert front.take(world.peer, b"ABCDEFGHplain") == 4 + 4 + 5
    assert world.kernel.asked == [(0, LIGHT_AT_ONCE), (4, LIGHT_AT_ONCE), (8, LIGHT_AT_ONCE)]
    world.end_of_turn()
    assert front.take(world.peer, b"plain") == 5
    world.kernel.asked.clear()
    world.passed += READS_MS - 2
    world.ticks = 1
    assert front.take(world.peer, b"ABCDEFGH") == 4
    assert len(world.kernel.asked) == 1
    front.received(world.peer, [make_request(codes.SEND_MESSAGE_V2, 9)])
    assert world.executor.outbox.for_next_turn == 1


@pytest.mark.parametrize(
    ("bodies", "readings"), [([0] * 31, 0), ([0] * 32, 1), ([LIGHT_BODY * 31], 1), ([2047] * 31, 0)]
)
def test_the_clock_is_read_for_light_requests_by_their_number_and_by_their_bodies(
    world: Fronted, bodies: list[int], readings: int
) -> None:
    world.ticks = 1
    world.executor.light = frozenset({codes.SEND_MESSAGE_V2})
    front = world.front()
    front.take(world.peer, HEARTBEAT)
    before = world.passed
    front.received(world.peer, [make_request(codes.SEND_MESSAGE_V2, 1, body=bytes(size)) for size in bodies])
    assert world.passed - before == readings


def test_what_was_taken_at_once_counts_with_what_follows_it(world: Fronted) -> None:
    """It weighs 5: 27 more make the clock be read, 26 do not."""
    world.ticks = 1
    world.executor.light = frozenset({codes.SEND_MESSAGE_V2})
    front = world.front()
    for count, readings in ((26, 0), (27, 1)):
        world.peer.sends = True
        assert front.take(world.peer, b"plain") == 5
        before = world.passed
        front.received(world.peer, [make_request(codes.SEND_MESSAGE_V2, number) for number in range(count)])
        assert world.passed - before == readings
        world.ticks = 0
        world.end_of_turn()
        world.ticks = 1


def test_what_a_failed_turn_left_undone_is_done_by_the_next_timer(world: Fronted) -> None:
    world.turns = Turns(loop := Ringing(), world.executor, Clock(lambda: NOW, lambda: loop.passed))
    world.services.touched = False  # else the services are to be asked in a second, whatever happens

    def fails() -> None:
        raise RuntimeError("an internal error")

    def send(command: Command) -> Outcome:
        outcome = world.store_one(wait=False)(command)
        assert isinstance(outcome, Parked)
        outcome.after = fails
        return outcome

    world.do(SENDS, send)
    world.do(PULLS, lambda command: reply(make_response(command, 0)))
    world.services.touched = False
    world.turns.schedule()
    with pytest.raises(RuntimeError):
        loop.turn()
    assert world.got() == []
    assert [seconds for seconds, _ in loop.later] == [FAILED_WAIT_MS / 1000]
    loop.ring()
    assert (0, None) in world.got()
