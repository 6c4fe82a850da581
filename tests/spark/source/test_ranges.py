"""Planning: shares of a limit, cuts of a range. Held against what must be true of any plan."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.ranges import MANY, PACKED_ROWS, Range, limit_offsets, packed, split, within

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


@given(start=offsets, latest=offsets, limit=st.integers(1, 20_000))
def test_no_queue_with_lag_is_left_out(start: Offsets, latest: Offsets, limit: int) -> None:
    end = limit_offsets(start, latest, limit)
    lagging = [queue for queue in latest if latest[queue] > start.get(queue, 0)]
    served = [queue for queue in lagging if end[queue] > start.get(queue, 0)]
    assert len(served) == min(len(lagging), limit)


def test_short_queues_beside_a_long_one_are_read_from_the_first_batch() -> None:
    latest = dict.fromkeys(QUEUES, 3) | {QUEUES[2]: 20_000}
    at: Offsets = dict.fromkeys(QUEUES, 0)
    for _ in range(3):
        at = limit_offsets(at, latest, 100)
    assert [at[queue] for queue in QUEUES] == [3, 3, 285, 3, 3, 3]


@given(
    lags=st.lists(st.integers(0, 50), min_size=6, max_size=6),
    begin=st.lists(st.integers(0, 50), min_size=6, max_size=6),
    limit=st.integers(1, 5),
)
def test_queues_take_turns_under_a_limit_smaller_than_their_number(
    lags: list[int], begin: list[int], limit: int
) -> None:
    start: Offsets = dict(zip(QUEUES, begin, strict=True))
    # The first queue grows faster than it is read.
    latest = {queue: start[queue] + lag for queue, lag in zip(QUEUES, lags, strict=True)} | {QUEUES[0]: 1_000_000}
    at = start
    for _ in range(-(-len(QUEUES) // limit)):
        at = limit_offsets(at, latest, limit)
    assert all(at[queue] > start[queue] for queue in QUEUES if latest[queue] > start[queue])


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


def of_rows(rows: list[int]) -> list[Range]:
    return [Range(Queue("T", "a", number), 0, count) for number, count in enumerate(rows)]


@given(rows=st.lists(st.integers(1, 3 * PACKED_ROWS), max_size=300), least=st.integers(0, 400))
def test_shared_tasks_have_every_range_once_and_bounded_rows(rows: list[int], least: int) -> None:
    ranges = of_rows(rows)
    tasks = packed(ranges, least)
    assert [part for task in tasks for part in task] == ranges
    assert len(tasks) >= min(least, len(ranges))
    assert all(len(task) == 1 or sum(part.rows for part in task) <= PACKED_ROWS for task in tasks)
    if len(rows) <= MANY:
        assert len(tasks) == len(rows)


@given(rows=st.lists(st.integers(1, 20), min_size=MANY + 1, max_size=3000))
def test_small_queues_share_few_tasks(rows: list[int]) -> None:
    assert len(packed(of_rows(rows))) <= MANY


def test_long_ranges_have_tasks_of_their_own() -> None:
    tasks = packed(of_rows([1, 10 * PACKED_ROWS, 1] * 100))
    assert {len(task) for task in tasks if any(part.rows > PACKED_ROWS for part in task)} == {1}


@given(given=offsets, low=st.integers(0, 10_000), more=st.integers(0, 10_000))
def test_offsets_stay_within_bounds(given: Offsets, low: int, more: int) -> None:
    for queue, offset in within(given, low, low + more).items():
        assert low <= offset <= low + more
        assert offset == given[queue] or not low <= given[queue] <= low + more
