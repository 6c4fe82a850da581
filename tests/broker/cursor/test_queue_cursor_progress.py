"""The ledger of progress: safe records, failed writes, messages to other sets, and changes of roles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.away import Journeys
from bolide.broker.cursor.queue_cursor import ProgressLedger
from tests.broker.cursor.following import Following
from tests.broker.parts import NOW, message


class Counting(Following):
    """A ledger for the cursor, and messages that cause records of ten bytes each."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ledger = ProgressLedger(self.cursor, Journeys(self.effects, self))

    def cause(self, end_offset: int) -> None:
        self.ledger.appended(end_offset)
        self.cursor.offset += 1

    def send_away(self) -> None:
        self.ledger.away.begin(message("U", 0, b"x", ""), self.cursor.offset)
        self.cursor.offset += 1


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Counting]:
    made = Counting(tmp_path)
    yield made
    made.close()


def test_progress_includes_a_message_when_its_record_is_safe(parts: Counting) -> None:
    ledger = parts.ledger
    for end in (10, 20):
        parts.cause(end)
    ledger.advance(9)
    assert ledger.confirmed == 0
    ledger.advance(10)
    assert ledger.confirmed == 1, "also one of a turn that is not written"
    ledger.written(20)
    ledger.advance(19)
    assert ledger.confirmed == 1
    parts.cause(30)
    ledger.advance(20)
    assert ledger.confirmed == 2
    ledger.written(30)
    ledger.advance(30)
    assert ledger.confirmed == 3


def test_progress_includes_a_message_without_a_record_after_its_predecessors(parts: Counting) -> None:
    parts.cursor.offset = 1
    parts.cause(10)
    parts.cursor.offset += 1
    parts.ledger.written(10)
    parts.ledger.advance(9)
    assert parts.ledger.confirmed == 0
    parts.ledger.advance(10)
    assert parts.ledger.confirmed == 3


def test_a_failed_write_moves_back_to_its_first_message(parts: Counting) -> None:
    for end in (10, 20, 30):
        parts.cause(end)
    assert parts.ledger.taken_back(10)
    assert parts.cursor.offset == 1
    parts.ledger.written(10)
    parts.ledger.advance(40)
    assert parts.ledger.confirmed == 1, "other records are now where the lost ones were"
    assert not parts.ledger.taken_back(10)


def test_a_turn_is_written_only_up_to_its_last_record(parts: Counting) -> None:
    for end in (10, 20):
        parts.cause(end)
    parts.ledger.written(10)
    assert parts.ledger.taken_back(10) and parts.cursor.offset == 1


def test_a_failed_write_leaves_written_records(parts: Counting) -> None:
    parts.cause(10)
    parts.ledger.written(10)
    parts.cause(20)
    assert parts.ledger.taken_back(0)
    assert parts.cursor.offset == 1


def test_progress_includes_messages_to_other_sets_in_order_of_the_queue(parts: Counting) -> None:
    for _ in range(3):
        parts.send_away()
    (_, first), (_, second), _ = parts.effects.take().aways
    second("", NOW)
    parts.ledger.advance(1 << 40)
    assert parts.ledger.confirmed == 0
    first("", NOW)
    parts.ledger.advance(0)
    assert parts.ledger.confirmed == 2


def test_a_change_of_roles_repeats_what_is_not_safe(parts: Counting) -> None:
    for end in (10, 20):
        parts.cause(end)
        parts.ledger.written(end)
    parts.ledger.advance(10)
    parts.cause(30)
    parts.ledger.restart()
    assert parts.cursor.offset == parts.ledger.confirmed == 1
    parts.ledger.advance(1 << 40)
    assert parts.ledger.confirmed == 1, "nothing of before counts any longer"
    assert not parts.ledger.taken_back(0)


def test_a_change_of_roles_ends_the_flight_of_messages(parts: Counting) -> None:
    for _ in range(2):
        parts.send_away()
    (_, first), (_, second) = parts.effects.take().aways
    first("", NOW)
    parts.ledger.restart()
    assert parts.cursor.offset == parts.ledger.confirmed == 1
    assert parts.ledger.away.count == 0
    parts.cause(10)
    second("", NOW)
    parts.ledger.advance(9)
    assert parts.ledger.confirmed == 1


def test_a_reset_drops_earlier_records(parts: Counting) -> None:
    parts.cause(10)
    parts.ledger.written(10)
    parts.cause(20)
    parts.ledger.reset(7)
    assert parts.cursor.offset == parts.ledger.confirmed == 7
    assert not parts.ledger.taken_back(0)
    parts.ledger.advance(20)
    assert parts.ledger.confirmed == 7
