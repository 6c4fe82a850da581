"""Planning: shares of a limit, cuts of a range. Held against what must be true of any plan."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.ranges import limit_offsets, split, within

QUEUES = [Queue("T", broker, number) for broker in ("a", "b") for number in range(3)]
offsets = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 10_000), max_size=6)


@given(start=offsets, latest=offsets, limit=st.integers(0, 20_000))
def test_a_limit_is_used_up_exactly_and_never_exceeded(start: Offsets, latest: Offsets, limit: int) -> None:
    end = limit_offsets(start, latest, limit)
    assert set(end) == set(latest)
    lag = sum(max(latest[queue] - start.get(queue, 0), 0) for queue in latest)
    taken = sum(end[queue] - start.get(queue, 0) for queue in latest)
    assert taken == (lag if limit == 0 else min(lag, limit))
    for queue in latest:
        begin = start.get(queue, 0)
        assert begin <= end[queue] <= max(latest[queue], begin)


def test_every_queue_gets_its_part() -> None:
    one, two = QUEUES[0], QUEUES[1]
    assert limit_offsets({one: 0, two: 100}, {one: 300, two: 200}, 100) == {one: 75, two: 125}


@given(start=offsets, end=offsets, most=st.integers(0, 3_000))
def test_ranges_cover_everything_once(start: Offsets, end: Offsets, most: int) -> None:
    ranges = split(start, end, most)
    assert all(part.rows > 0 and (most == 0 or part.rows <= most) for part in ranges)
    for queue in end:
        mine = [part for part in ranges if part.queue == queue]
        begin = start.get(queue, 0)
        if end[queue] <= begin:
            assert mine == []
            continue
        assert mine[0].begin == begin
        assert mine[-1].end == end[queue]
        assert all(left.end == right.begin for left, right in pairwise(mine))
        sizes = [part.rows for part in mine]
        assert max(sizes) - min(sizes) <= 1


@given(start=offsets, end=offsets, most=st.integers(0, 3_000), least=st.integers(1, 40))
def test_there_are_as_many_parts_as_asked(start: Offsets, end: Offsets, most: int, least: int) -> None:
    plain, ranges = split(start, end, most), split(start, end, most, least)
    rows = sum(part.rows for part in plain)
    assert sum(part.rows for part in ranges) == rows
    assert all(part.rows > 0 for part in ranges)
    assert len(ranges) == max(len(plain), min(least, rows))


def test_the_longest_queue_is_cut_first() -> None:
    one, two = QUEUES[0], QUEUES[1]
    assert [part.rows for part in split({}, {one: 900, two: 100}, 0, 4)] == [300, 300, 300, 100]


@given(given=offsets, low=st.integers(0, 10_000), more=st.integers(0, 10_000))
def test_offsets_stay_within_bounds(given: Offsets, low: int, more: int) -> None:
    for queue, offset in within(given, low, low + more).items():
        assert low <= offset <= low + more
        assert offset == given[queue] or not low <= given[queue] <= low + more
