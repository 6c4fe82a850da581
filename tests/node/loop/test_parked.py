"""Answers that wait for the log leave in the order of their records, whatever the order in which they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bolide.broker.core.channel import Channel
from bolide.broker.core.stats import PutTimes
from bolide.node.loop.parked import ParkedReplies, ParkedReply, note_times
from bolide.remoting.codec import EncodedResponses
from bolide.remoting.codes import FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SERVICE_NOT_AVAILABLE

PEER = Channel(1, b"", "10.0.0.1:2")


def entry(offset: int, deadline: int = 100) -> ParkedReply:
    return ParkedReply(PEER, EncodedResponses(b""), offset, deadline, None, None)


def offsets(entries: list[ParkedReply]) -> list[int]:
    return [int(each.offset) for each in entries]


def test_an_answer_for_an_older_record_takes_no_other_with_it() -> None:
    parked = ParkedReplies()
    for offset in (100, 200, 0, 150):
        parked.add(entry(offset), True)
    assert offsets(parked.take_confirmed(50)) == [0]
    assert offsets(parked.take_confirmed(160)) == [100, 150]
    assert offsets(parked.take_confirmed(200)) == [200] and parked.count == 0


def test_how_long_sends_took_is_counted_by_turns() -> None:
    times = PutTimes()
    leaving = [entry(1, 100), entry(2, 100), entry(3, 103)]
    leaving[1].sends = 30
    note_times(leaving, 110, times)
    note_times([], 200, times)
    assert (sum(times.counts), times.total_ms, times.longest) == (32, 31 * 10 + 7, 10)
    assert times.counts[7] == 1


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


def run_of(first_end: int, offset: int, sends: int) -> ParkedReply:
    made = entry(offset)
    made.first_end = first_end
    made.sends = sends
    return made


def test_answers_to_many_sends_at_once_count_as_many() -> None:
    parked = ParkedReplies()
    parked.add(run_of(10, 100, 10), True)
    assert (parked.count, parked.size) == (10, 90)
    parked.add(entry(150), True)
    parked.add(run_of(160, 300, 5), True)
    assert (parked.count, parked.size) == (16, 290)
    assert offsets(parked.take_confirmed(150)) == [100, 150] and parked.count == 5
    assert offsets(parked.take_beyond(200)) == [300] and parked.count == 0
    parked.add(run_of(310, 400, 3), True)
    parked.add(entry(500), True)
    assert offsets(parked.take_beyond(450)) == [500] and parked.count == 3
    assert offsets(parked.take_late(100)) == [400] and parked.count == 0
    parked.add(run_of(510, 600, 3), True)
    assert offsets(parked.take_all()) == [600] and parked.count == 0


def test_late_code_keeps_an_error_and_a_failure_replaces_it() -> None:
    made = entry(100)
    made.comes_late(FLUSH_SLAVE_TIMEOUT)
    made.comes_late(FLUSH_DISK_TIMEOUT)
    assert (made.response.code, made.response.remark) == (FLUSH_SLAVE_TIMEOUT, None)
    made.fail("full: /\udcff")
    assert (made.response.code, made.response.remark) == (SERVICE_NOT_AVAILABLE, "full: /?")


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3))))
def test_any_order_leaves_in_the_order_of_records_and_of_arrival(steps: list[tuple[int, int]]) -> None:
    parked = ParkedReplies()
    plain: list[tuple[int, int]] = []
    responses = [EncodedResponses(b"") for _ in steps]
    for number, (offset, take) in enumerate(steps):
        parked.add(ParkedReply(PEER, responses[number], offset, 1000 + number, None, None), True)
        plain.append((offset, number))
        plain.sort()
        if take == 0:
            taken = [each for each in plain if each[0] <= offset // 2]
            plain = [each for each in plain if each[0] > offset // 2]
            assert offsets(parked.take_confirmed(offset // 2)) == [each[0] for each in taken]
        assert parked.count == len(plain)
    left = parked.take_all()
    assert [(int(each.offset), each.response) for each in left] == [(offset, responses[at]) for offset, at in plain]
    deadlines = [each.deadline for each in left]
    assert deadlines == sorted(deadlines)
