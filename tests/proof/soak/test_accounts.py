"""The soak's books find what is lost, changed, unwanted, recalled or early, and follow a journal that grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.kit.journal import Follower, Journal
from proof.soak.accounts import Accounts
from proof.soak.events import Event, What, events_of
from proof.soak.senders import schedule
from proof.soak.streams import BATCH, LONG_BODY, READERS, SHARES, Body, Stream, body_of, read_body

BY_NAME = {reader.name: reader for reader in READERS}


def sent(stream: Stream, number: int, what: What = What.ACKNOWLEDGED) -> Event:
    return Event(what, stream, number)


def got(reader: str, number: int, late: int = 0) -> Event:
    return Event(What.CONSUMED, BY_NAME[reader].stream, number, BY_NAME[reader], late)


def faults(*events: Event) -> list[str]:
    accounts = Accounts()
    accounts.take(events)
    return [f"{found.what}: {found.detail}" for found in accounts.faults()]


def test_each_acknowledged_message_reaches_each_reader_that_wants_it() -> None:
    assert faults(sent(Stream.BATCH, 0), got("batch", 0), got("batch", 0)) == []
    assert faults(sent(Stream.BATCH, 3)) == ["acknowledged and not consumed: batch: batch 3"]
    assert faults(sent(Stream.RETRY, 1), got("retry", 1)) == []
    assert faults(sent(Stream.RETRY, 3), got("retry", 3)) == ["acknowledged and not consumed: dead: retry 3"]
    assert len(faults(sent(Stream.PLAIN, 2))) == sum(reader.stream is Stream.PLAIN for reader in READERS)


def test_a_send_without_an_answer_obliges_to_nothing() -> None:
    assert faults(sent(Stream.BATCH, 0, What.FAILED)) == []
    assert faults(sent(Stream.BATCH, 0, What.FAILED), got("batch", 0)) == []


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ([got("batch", 4)], "consumed though it was never sent: batch: batch 4"),
        (
            [sent(Stream.SQL, 2), got("sql", 2)],
            "consumed though the reader must not get it: sql: sql 2",
        ),
        (
            [sent(Stream.TRANSACTION, 1), got("transaction", 1)],
            "consumed though the reader must not get it: transaction: transaction 1",
        ),
        (
            [sent(Stream.TIMER, 3), sent(Stream.TIMER, 3, What.RECALLED), got("timer", 3)],
            "consumed though it was recalled: timer: timer 3",
        ),
        (
            [sent(Stream.LEVEL, 0), sent(Stream.LEVEL, 1), got("level", 0, -3), got("level", 1, -40)],
            "delivered before it was due: 2 messages, level 1 by 40 ms",
        ),
    ],
)
def test_unexpected_message_is_found(events: list[Event], wrong: str) -> None:
    assert faults(*events) == [wrong]


def test_a_recalled_timer_is_awaited_by_nobody() -> None:
    assert faults(sent(Stream.TIMER, 3), sent(Stream.TIMER, 3, What.RECALLED)) == []


def test_outstanding_and_settled_counts_follow_events() -> None:
    accounts = Accounts()
    for number in range(10):
        accounts.take([sent(Stream.BATCH, number)])
    accounts.mark(100.0)
    outstanding = {name: accounts.outstanding(reader) for name, reader in BY_NAME.items()}
    assert (outstanding["batch"], sum(outstanding.values()), accounts.settled_before()) == (10, 10, 0.0)
    accounts.take(got("batch", number) for number in range(9))
    assert (accounts.outstanding(BY_NAME["batch"]), accounts.settled_before()) == (1, 0.0)
    accounts.take([got("batch", 9), sent(Stream.BATCH, 11)])
    accounts.mark(200.0)
    assert (accounts.outstanding(BY_NAME["batch"]), accounts.settled_before()) == (1, 100.0)
    # Number 10 is still under way: what is acknowledged later is not forgotten.
    accounts.take([got("batch", 11)])
    assert (accounts.outstanding(BY_NAME["batch"]), accounts.settled_before()) == (0, 100.0)
    accounts.take([sent(Stream.BATCH, 10)])
    assert accounts.outstanding(BY_NAME["batch"]) == 1
    accounts.take([got("batch", 10)])
    assert (accounts.outstanding(BY_NAME["batch"]), accounts.settled_before()) == (0, 200.0)


def test_lateness_counts_first_deliveries_since_the_last_question() -> None:
    accounts = Accounts()
    accounts.take([got("timer", 1, 700), got("timer", 2, 900), got("timer", 2, 90_000)])
    assert accounts.lateness(Stream.TIMER) == 800
    assert accounts.lateness(Stream.TIMER) is None
    assert accounts.repeated() == 1


def test_a_journal_is_followed_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    reader = Follower(path)
    assert reader.entries() == []
    journal = Journal(path)
    events = [sent(Stream.LIGHT, 5), got("timer", 1 << 31, -7), sent(Stream.TIMER, 0, What.RECALLED)]
    journal.note(*events[0].fields)
    assert list(events_of(reader.entries())) == events[:1]
    journal.note(*events[1].fields)
    journal.note(*events[2].fields)
    with path.open("ab") as file:
        file.write(b"half")  # of a record that is being written
    assert list(events_of(reader.entries())) == events[1:]
    assert reader.entries() == []
    journal.close()


def test_a_body_tells_its_message_and_any_change_of_it() -> None:
    for number in (0, 7, 25, 123_456):
        body = body_of(Stream.LIGHT, number, 1_700_000_000_000, 1_700_000_005_000)
        assert read_body(body) == Body(Stream.LIGHT, number, 1_700_000_000_000, 1_700_000_005_000)
        assert (len(body) == LONG_BODY) == (number % 16 == 7)
        for changed in (body[:-1], body + b"x", body[:-1] + b"\x00", body.replace(b"light", b"level", 1)):
            assert read_body(changed) is None or changed == body
    assert read_body(b"") is None and read_body(b"plain x 1 1 ") is None and read_body(b"\xff 1 1 1 ") is None


def test_the_schedule_gives_each_stream_its_share() -> None:
    order = schedule(1000)
    messages = {stream: order.count(stream) * (BATCH if stream is Stream.BATCH else 1) for stream in Stream}
    total = sum(messages.values())
    for stream, share in SHARES.items():
        assert messages[stream] / total == pytest.approx(share / 100, abs=0.005)
    assert set(order[:60]) == set(Stream)
