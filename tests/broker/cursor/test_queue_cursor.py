"""A cursor over a queue: limits of a tick, expired messages, and messages on a slow disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.away import Journeys
from bolide.broker.cursor.queue_cursor import BYTES_AT_ONCE, QueueCursor
from bolide.broker.delay.delay_level import Level
from tests.broker.cursor.following import Following
from tests.broker.parts import NOW, send_request, text


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Following]:
    made = Following(tmp_path)
    yield made
    made.close()


def bodies(cursor: QueueCursor, budget: int) -> list[bytes]:
    """The bodies that one tick reads. The cursor advances."""
    found = []
    for index, place in enumerate(cursor.places(budget)):
        if not cursor.bring(index):
            break
        record = cursor.runs.intact(*place)
        assert record is not None
        found.append(record.body)
        cursor.offset += 1
    return found


def test_an_unknown_queue_has_nothing_to_read(parts: Following) -> None:
    assert parts.cursor.places(10) == [] and parts.cursor.end == 0 and not parts.cursor.more


def test_a_tick_reads_as_many_messages_as_its_budget_allows(parts: Following) -> None:
    places = parts.put(5)
    assert parts.cursor.places(2) == places[:2] and parts.cursor.more
    assert bodies(parts.cursor, 2) == [b"0", b"1"]
    assert bodies(parts.cursor, 2) == [b"2", b"3"] and parts.cursor.more
    assert bodies(parts.cursor, 2) == [b"4"] and not parts.cursor.more
    assert bodies(parts.cursor, 2) == [] and parts.cursor.offset == parts.cursor.end == 5


def test_a_tick_reads_no_more_than_some_megabytes_and_at_least_one_message(parts: Following) -> None:
    parts.put(10, BYTES_AT_ONCE // 8)
    assert len(parts.cursor.places(256)) == 7 and parts.cursor.more
    parts.cursor.offset = 7
    assert len(parts.cursor.places(256)) == 3 and not parts.cursor.more


def test_a_message_that_is_not_wanted_ends_the_reading(parts: Following) -> None:
    """A delay level wants the messages that are due."""
    for sent in (NOW, NOW, NOW + 500):
        parts.answer(send_request(properties=text(DELAY="1")), sent)
    level = Level(1, 1_000, parts.store, parts.loads, Journeys(parts.effects, parts))
    level.now = NOW + 1_000
    assert len(level.places(10)) == 2
    assert not level.more, "a tick at once would find nothing"
    level.offset = 1
    assert len(level.places(10)) == 1
    level.now = NOW + 1_500
    assert len(level.places(10)) == 2


def test_messages_that_expired_are_passed_over(parts: Following) -> None:
    parts.put(3)
    queue = parts.store.queues.get("T", 1)
    assert queue is not None
    queue.min_offset = 2
    assert bodies(parts.cursor, 10) == [b"2"] and parts.cursor.offset == 3


@pytest.mark.parametrize(("offset", "clamped"), [(0, 1), (2, 2), (3, 3), (9, 3)])
def test_an_offset_is_moved_into_the_range_of_the_queue(parts: Following, offset: int, clamped: int) -> None:
    parts.put(3)
    queue = parts.store.queues.get("T", 1)
    assert queue is not None
    queue.min_offset = 1
    assert parts.cursor.move_to(offset) == parts.cursor.offset == clamped


def cold(parts: Following) -> None:
    parts.store.queues.flush(True)
    parts.files.cold = True


def test_units_and_records_that_are_not_in_memory_are_loaded_first(parts: Following) -> None:
    parts.put(2)
    cold(parts)
    rounds = 0
    read: list[bytes] = []
    while len(read) < 2:
        read += bodies(parts.cursor, 10)
        if len(read) < 2:
            assert parts.cursor.loading and not parts.cursor.more
            parts.loads.begin()
            assert parts.load() == 1
            assert not parts.cursor.loading
            rounds += 1
    assert read == [b"0", b"1"] and rounds == 2


def test_data_that_leaves_memory_after_its_load_is_waited_for_once(parts: Following) -> None:
    parts.put(2)
    cold(parts)
    for _ in range(2):  # the units, then the first record
        assert bodies(parts.cursor, 10) == []
        parts.loads.begin()
        assert parts.load(warm=False) == 1
    assert bodies(parts.cursor, 1) == [b"0"]
    parts.cursor.runs.close()
    assert bodies(parts.cursor, 1) == [] and parts.cursor.loading


def test_a_second_cursor_must_repeat_its_request_after_the_load_of_the_first(parts: Following) -> None:
    parts.put(1)
    cold(parts)
    other = QueueCursor(parts.store, "T", 1, parts.loads)
    assert parts.cursor.places(1) == []
    parts.loads.begin()
    assert other.places(1) == [] and not other.loading, "it may not count what another has loaded as its own"
    parts.load(warm=False)
    assert other.places(1) == [] and other.loading
