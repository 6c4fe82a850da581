"""Damaged delayed messages: set aside, kept in the table, and delivered once a record is intact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.delay.damaged_delays import MOST
from bolide.layout.names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.broker.delay.delaying import Delaying
from tests.broker.parts import BODY, NOW, overwrite
from tests.broker.timer_parts import Timer


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Delaying]:
    made = Delaying(tmp_path)
    yield made
    made.close()


def bodies(parts: Delaying) -> list[bytes]:
    return [record.body for record in parts.delivered()]


@pytest.mark.parametrize("at", [BODY, 0])
def test_damaged_message_of_a_level_is_delivered_once_it_is_intact(parts: Delaying, at: int) -> None:
    for body in (b"first", b"second", b"third"):
        parts.delayed(1, body)
    parts.damage(SCHEDULE_TOPIC, 1, at=at)
    parts.tick(NOW + 6_000)
    assert bodies(parts) == [b"first", b"third"]
    assert "set aside (1 in all)" in (problem := parts.store.maintenance.take_problem())
    assert "offset 1, does not match its CRC" in problem if at == BODY else "its lengths do not match" in problem
    parts.flush()
    stored = json.loads(parts.service.encode())
    assert (stored["offsetTable"], len(stored["bolideDamaged"])) == ({"1": 3}, 1)
    parts.retry(NOW + 70_000)
    assert (len(parts.delivered()), parts.damaged.count) == (2, 1)
    parts.start_service(json.dumps(stored).encode(), NOW + 70_000)
    parts.tick(NOW + 70_000)
    parts.retry(NOW + 70_000)
    assert (len(parts.delivered()), parts.damaged.count) == (2, 1)
    parts.damage(SCHEDULE_TOPIC, 1, at=at)  # the same bit again: the record is whole
    parts.retry(NOW + 140_000)
    parts.retry(NOW + 145_000)
    assert parts.damaged.count == 1, "the delivery is not on disk yet"
    parts.flush()
    parts.retry(NOW + 150_000)
    assert bodies(parts) == [b"first", b"third", b"second"]
    assert "bolideDamaged" not in json.loads(parts.service.encode())


def test_next_master_delivers_what_is_damaged_here(parts: Delaying) -> None:
    parts.delayed(1)
    (place,) = parts.store.units(SCHEDULE_TOPIC, 0, 0, 1)
    parts.service.follow(json.dumps({"offsetTable": {"1": 1}, "bolideDamaged": [place[:2]]}).encode())
    parts.role.become("ASYNC_MASTER", 0, NOW)
    for service in (parts.service, parts.damaged):
        service.role_changed(parts.role, NOW)
    parts.tick(NOW + 1_000)
    parts.retry(NOW + 1_000)
    assert bodies(parts) == [b"late"]


@pytest.mark.parametrize("places", [[[-1, 5]], [[1, 0]], [[1 << 63, 5]], [[1]], [1], [[0, 5]] * (2 * MOST + 1)])
def test_places_that_no_log_has_are_refused(parts: Delaying, places: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        parts.service.load(json.dumps({"offsetTable": {"1": 7}, "bolideDamaged": places}).encode())
    assert (parts.progress(), parts.damaged.count) == ({}, 0)


def test_level_waits_while_too_many_messages_are_damaged(parts: Delaying) -> None:
    parts.delayed(1)
    parts.damage(SCHEDULE_TOPIC, 0)
    parts.damaged.take([(offset, 100) for offset in range(1, MOST + 1)])
    parts.tick(NOW + 6_000)
    assert (parts.progress(), parts.damaged.count) == ({}, MOST)
    assert "delayed delivery waits" in parts.store.maintenance.take_problem()


def test_failed_write_of_a_late_delivery_is_repeated(parts: Delaying) -> None:
    parts.delayed(1)
    parts.damaged.take([(place, size) for place, size, _ in parts.store.units(SCHEDULE_TOPIC, 0, 0, 1)])
    parts.damaged.tick(NOW, 1)
    for taken_back in parts.store.on_taken_back:
        taken_back(int(parts.store.written_offset))
    parts.settle()
    parts.flush()
    parts.retry(NOW + 70_000)
    assert (len(parts.delivered()), parts.damaged.count) == (2, 1)


def test_places_that_the_log_no_longer_has_are_forgotten(parts: Delaying) -> None:
    parts.delayed(1)
    parts.damaged.take([(0, 100), (int(parts.store.end_offset), 100)])
    assert parts.service.cut(NOW)
    assert parts.damaged.places() == [[0, 100]]


@pytest.mark.parametrize(("at", "why"), [(88, "does not match its CRC"), (0, "its lengths do not match")])
@pytest.mark.parametrize("delay", [2_000, 3_000_000])
@pytest.mark.parametrize("in_wheel", [False, True])
def test_damaged_message_of_the_timer_is_delivered_once_it_is_intact(
    at: int, why: str, delay: int, in_wheel: bool
) -> None:
    timer = Timer()
    for key in ("a", "b"):
        timer.send(key, delay)
    if in_wheel:
        timer.later(500)
        assert timer.service.in_wheel == 2
    ((place, _, _),) = timer.store.units(TIMER_TOPIC, 0, 0, 1)
    byte = timer.store.log.segments.read(place + at, 1)
    overwrite(timer.store, place + at, b"?")
    timer.later(delay + 1_000)
    assert timer.delivered() == ["b"]
    problem = timer.store.maintenance.take_problem()
    assert "set aside (1 in all)" in problem and why in problem
    overwrite(timer.store, place + at, byte)
    timer.damaged.tick(timer.now + 60_000, 1)
    timer.turn()
    timer.later(delay + 1_000)
    assert timer.delivered() == ["b", "a"]


def test_checkpoint_waits_for_the_table_of_damaged_messages() -> None:
    timer = Timer()
    timer.send("a", 2_000)
    ((place, _, _),) = timer.store.units(TIMER_TOPIC, 0, 0, 1)
    overwrite(timer.store, place + 88, b"?")
    timer.later(10_000)
    before = timer.wheel.checkpoint.read_time
    assert before <= timer.now - 8_000
    timer.damaged.begin()
    timer.damaged.written()
    timer.later(40_000)
    assert timer.wheel.checkpoint.read_time > before
