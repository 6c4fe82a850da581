"""Answers that wait for the log leave in the order of their records, whatever the order in which they came."""

from __future__ import annotations

from bolide.broker.core.channel import Channel
from bolide.node.loop.parked import ParkedReplies, ParkedReply

PEER = Channel(1, b"", "10.0.0.1:2")


def entry(offset: int, deadline: int = 100) -> ParkedReply:
    return ParkedReply(PEER, b"", offset, deadline, None, None)


def offsets(entries: list[ParkedReply]) -> list[int]:
    return [int(each.offset) for each in entries]


def test_an_answer_for_an_older_record_takes_no_other_with_it() -> None:
    parked = ParkedReplies()
    for offset in (100, 200, 0, 150):
        parked.add(entry(offset), True)
    assert offsets(parked.take_confirmed(50)) == [0]
    assert offsets(parked.take_confirmed(160)) == [100, 150]
    assert offsets(parked.take_confirmed(200)) == [200] and parked.count == 0


def test_deadlines_stay_in_order_too() -> None:
    parked = ParkedReplies()
    parked.add(entry(100, 10), True)
    parked.add(entry(200, 20), True)
    parked.add(entry(50, 30), True)
    assert parked.next_deadline() == 10
    assert offsets(parked.take_late(10)) == [50, 100]
    assert offsets(parked.take_late(20)) == [200]


def test_an_older_record_is_looked_for_among_those_that_still_wait() -> None:
    parked = ParkedReplies()
    for offset in (100, 200, 300):
        parked.add(entry(offset), True)
    assert offsets(parked.take_confirmed(250)) == [100, 200]
    parked.add(entry(0), True)
    assert parked.count == 2 and offsets(parked.take_confirmed(0)) == [0]
