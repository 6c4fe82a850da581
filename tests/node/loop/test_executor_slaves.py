"""Answers that wait for slaves as well as for the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.core.outcome import Outcome, Parked, reply
from bolide.broker.options.composed import BrokerOptions
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from tests.node.loop.executing import NOW, SENDS, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close(NOW)


class Slaves:
    """Replication in which a test says how far the slaves are, and how far dispatch may go."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.held = 0
        self.released = 0

    def turn(self, now: int) -> None:
        self.world.store.replicated_offset = max(self.held, self.released)

    def late(self, end: int) -> bool:
        return end > self.held


def test_an_answer_waits_for_the_slaves(world: World) -> None:
    world.executor.replication = slaves = Slaves(world)
    world.do(SENDS, world.store_one())
    world.turn()
    world.flush()
    assert world.got() == []
    slaves.held = int(world.store.end_offset)
    world.turn()
    assert world.got() == [(codes.SUCCESS, None)]


def test_what_the_slaves_do_not_hold_in_time_is_answered_12(world: World) -> None:
    world.executor.replication = slaves = Slaves(world)
    world.do(SENDS, world.store_one())
    world.turn()
    slaves.held = int(world.store.end_offset)
    world.do(SENDS, world.store_one())
    world.turn()
    world.flush()
    world.turn()
    world.flush()
    slaves.released = int(world.store.end_offset)
    world.turn()
    assert world.got() == [(codes.SUCCESS, None), (codes.FLUSH_SLAVE_TIMEOUT, None)]


@pytest.mark.parametrize("late_by_clock", [False, True])
def test_an_answer_that_something_failed_is_no_success_because_it_is_late(world: World, late_by_clock: bool) -> None:
    """A reply that could not be pushed is stored all the same, and 12 would say that it was sent."""
    world.executor.replication = slaves = Slaves(world)

    def failed(command: Command) -> Outcome:
        stored = world.store_one()(command)
        assert isinstance(stored, Parked)
        return Parked(reply(make_response(command, codes.SYSTEM_ERROR, "the requester is gone")), stored.offset)

    world.do(SENDS, failed)
    world.turn()
    if late_by_clock:
        world.executor.tick(NOW + 5000)
        world.turn(NOW + 5000)
    else:
        world.flush()
        slaves.released = int(world.store.end_offset)
        world.turn()
    assert world.got() == [(codes.SYSTEM_ERROR, "the requester is gone")]


def test_when_disk_and_slaves_are_late_the_slaves_are_named(world: World) -> None:
    world.executor.replication = Slaves(world)
    world.do(SENDS, world.store_one())
    world.turn()
    world.executor.tick(NOW + 5000)
    world.turn(NOW + 5000)
    assert world.got() == [(codes.FLUSH_SLAVE_TIMEOUT, None)]


@pytest.mark.parametrize("slave_timeout", [1_000, 3_000, 30_000])
@pytest.mark.parametrize(
    "settings",
    [
        {"broker_role": "SYNC_MASTER"},
        {"enable_controller_mode": True, "controller_addr": "127.0.0.1:9877", "namesrv_addr": "127.0.0.1:9876"},
    ],
    ids=["plain", "controller"],
)
def test_a_send_that_waits_for_slaves_is_as_old_as_its_arrival(
    tmp_path: Path, settings: dict[str, Any], slave_timeout: int
) -> None:
    options = BrokerOptions.of(in_sync_replicas=2, slave_timeout=slave_timeout, **settings)
    world = World(tmp_path, broker=options)
    world.executor.replication = Slaves(world)
    world.do(SENDS, world.store_one())
    world.turn()
    gate = world.executor.gate
    assert gate.oldest(NOW + 700) == 700
    gate.look(NOW + options.send.max_parked_send_millis - 1, 0)
    assert gate.busy == ""
    gate.look(NOW + options.send.max_parked_send_millis, 0)
    assert "stands still for 3000ms" in gate.busy
    world.store.close(NOW)
