"""Which waiters an arrival, the clock, the sweep and a release wake, and which are dropped."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import NOTHING, ROUTE, NewRecords, Outcome, Waiter
from bolide.broker.core.wait_table import (
    GONE_AT_LEAST,
    LATE_AT_ONCE,
    LOOKS,
    MAX_HELD_PER_CHANNEL,
    WaitTable,
)
from bolide.remoting.command import make_request
from bolide.store.background.arrival import Arrival

HOST = b"\x7f\x00\x00\x01\x00\x00\x00\x01"


def held(
    channel: Channel,
    topic: str = "T",
    queue_id: int = 0,
    offset: int = 5,
    deadline: int = 1000,
    tag_codes: set[int] | None = None,
    predicate: Callable[[bytes], bool] | None = None,
    cost: int = 1,
) -> Waiter:
    again = lambda now: NOTHING  # noqa: E731 # a handler of one word
    records = NewRecords(offset, tag_codes, predicate, cost)
    return Waiter(channel, make_request(11, 1), (topic, queue_id), deadline, again, records)


def arrival(topic: str = "T", queue_id: int = 0, max_offset: int = 6, tags_code: int = 0, properties: bytes = b""):
    return Arrival(topic, queue_id, max_offset, tags_code, 1, properties)


class Again:
    """What runs a pull again, and can be watched."""

    def __call__(self, now: int) -> Outcome:
        return NOTHING


def channel(number: int = 1) -> Channel:
    return Channel(number, HOST, "127.0.0.1:1")


def test_an_arrival_wakes_the_pulls_of_its_queue_in_order() -> None:
    table = WaitTable(10)
    first, second, other = held(channel()), held(channel(2)), held(channel(), queue_id=1)
    for pull in (first, second, other):
        assert table.add(pull)
    assert table.arrived([arrival()]) == [first, second]
    assert table.count == 1 and not first.waiting and other.waiting
    assert table.arrived([arrival()]) == []


def test_an_arrival_at_or_below_the_offset_wakes_nobody() -> None:
    table = WaitTable(10)
    table.add(held(channel(), offset=6))
    assert table.arrived([arrival(max_offset=6)]) == []
    assert len(table.arrived([arrival(max_offset=7)])) == 1


def test_a_filter_keeps_the_pull_until_something_matches() -> None:
    table = WaitTable(10)
    by_tag = held(channel(), tag_codes={7})
    by_sql = held(channel(), predicate=lambda raw: raw == b"yes")
    table.add(by_tag)
    table.add(by_sql)
    assert table.arrived([arrival(tags_code=8, properties=b"no")]) == []
    assert table.arrived([arrival(tags_code=7, properties=b"no")]) == [by_tag]
    assert table.arrived([arrival(tags_code=8, properties=b"yes")]) == [by_sql]


def test_the_sweep_takes_what_fell_behind_whatever_its_filter() -> None:
    table = WaitTable(10)
    behind, level = held(channel(), tag_codes={7}), held(channel(), offset=9)
    table.add(behind)
    table.add(level)
    assert table.behind(lambda topic, queue_id: 9) == [behind]
    assert table.count == 1
    assert table.behind(lambda topic, queue_id: 10) == [level]  # one message is enough


def test_deadlines_come_in_order_and_skip_the_woken() -> None:
    table = WaitTable(10)
    late, early, woken = held(channel(), deadline=300), held(channel(), deadline=100), held(channel(), "U", deadline=50)
    for pull in (late, early, woken):
        table.add(pull)
    table.arrived([arrival("U")])
    assert table.next_deadline() == 100
    assert table.expired(99) == []
    assert table.expired(300) == [early, late]
    assert table.next_deadline() is None and table.count == 0


def test_a_closed_channel_is_forgotten_and_the_others_stay() -> None:
    table = WaitTable(10)
    gone, stays = channel(1), channel(2)
    table.add(held(gone))
    table.add(held(gone, "U"))
    kept = held(stays)
    table.add(kept)
    table.drop(gone)
    assert (table.count, len(gone.waiters), len(stays.waiters)) == (1, 0, 1)
    assert table.arrived([arrival(), arrival("U")]) == [kept]


def test_release_takes_everything_of_one_queue() -> None:
    table = WaitTable(10)
    pull = held(channel())
    table.add(pull)
    table.add(held(channel(), queue_id=1))
    assert table.release(("T", 0)) == [pull]
    assert table.release(("T", 0)) == [] and table.count == 1


def test_waiter_without_records_is_woken_by_its_key_or_its_deadline_only() -> None:
    table = WaitTable(10)
    again = lambda now: NOTHING  # noqa: E731 # a handler of one word
    first, late = (Waiter(channel(n), make_request(400, 1), ("T", ROUTE), 100 * n, again) for n in (1, 2))
    other = Waiter(channel(), make_request(400, 1), ("U", ROUTE), 100, again)
    pull = held(channel())
    for waiter in (first, other, pull):
        assert table.add(waiter)
    asked: list[tuple[str, int]] = []
    assert table.behind(lambda *queue: asked.append(queue) or 5) == []
    assert asked == [("T", 0)], "a route has no offsets"
    assert table.release(("T", ROUTE)) == [first]
    assert table.add(late)
    assert table.arrived([arrival(), arrival(queue_id=ROUTE, max_offset=1 << 40)]) == [pull]
    assert (table.expired(100), table.expired(200), table.count) == ([other], [late], 0)


def test_connection_has_a_limited_number_of_waiters() -> None:
    table, peer = WaitTable(MAX_HELD_PER_CHANNEL + 10), channel()
    for _ in range(MAX_HELD_PER_CHANNEL):
        assert table.add(held(peer))
    assert not table.add(held(peer)) and table.add(held(channel(2)))
    assert len(table.arrived([arrival()])) == MAX_HELD_PER_CHANNEL + 1 and table.add(held(peer))


def test_a_full_table_refuses() -> None:
    table = WaitTable(1)
    assert table.add(held(channel()))
    assert not table.add(held(channel()))


def test_pulls_woken_long_before_their_deadline_leave_the_heap() -> None:
    table = WaitTable(10)
    peer = channel()
    for number in range(1000):
        table.add(held(peer, offset=number))
        table.arrived([arrival(max_offset=number + 1)])
    assert table.count == 0 and len(table._deadlines) < 200


def test_looks_at_filters_are_limited() -> None:
    table = WaitTable(10)
    looks: list[bytes] = []

    def never(properties: bytes) -> bool:
        looks.append(properties)
        return False

    dear = held(channel(), predicate=never, cost=LOOKS // 4)
    table.add(dear)
    few = [arrival(max_offset=6 + n) for n in range(4)]
    assert (table.arrived(few), len(looks)) == ([], 4)
    assert (table.arrived([*few, arrival(max_offset=10)]), len(looks)) == ([dear], 8)
    assert table.arrived(few) == []


def test_many_pulls_whose_time_is_over_leave_some_at_a_time() -> None:
    table = WaitTable(3 * LATE_AT_ONCE)
    pulls = [held(channel()) for _ in range(LATE_AT_ONCE + 1)]
    for pull in pulls:
        table.add(pull)
    assert table.expired(1000) == pulls[:-1]
    assert table.next_deadline() == 1000
    assert table.expired(1000) == pulls[-1:]
    assert table.count == 0 and table.next_deadline() is None


def test_connections_that_close_cost_what_they_held() -> None:
    table = WaitTable(100_000)
    channels = [channel(number) for number in range(10_000)]
    for each in channels:
        for _ in range(4):
            assert table.add(held(each, deadline=10**12))
    began = time.process_time()
    for each in channels:
        table.drop(each)
    assert time.process_time() - began < 1.0  # 0.1 s; a look at all that is held for each of them takes 4 s
    assert table.count == 0 and table.arrived([arrival()]) == []


def test_what_a_closed_connection_held_wakes_no_more_and_does_not_pile_up() -> None:
    table = WaitTable(100_000)
    stays = channel(1)
    kept = [held(stays), held(stays, "U"), held(stays, "V", offset=9)]
    for pull in kept:
        table.add(pull)
    pulls = []
    for number in range(3 * GONE_AT_LEAST):
        gone = channel(number + 2)
        pull = held(gone, ("T", "U", "V")[number % 3])
        pull.again = Again()
        pulls.append(weakref.ref(pull.again))
        table.add(pull)
        table.drop(gone)
    del pull
    assert (table.count, stays.waiters) == (3, dict.fromkeys(kept))
    assert sum(pull() is not None for pull in pulls) <= GONE_AT_LEAST
    assert table.arrived([arrival()]) == [kept[0]]
    assert table.release(("U", 0)) == [kept[1]]
    assert table.behind(lambda topic, queue_id: 9) == []
    assert table.behind(lambda topic, queue_id: 10) == [kept[2]]
    assert table.count == 0 and not stays.waiters


def test_the_sweep_clears_what_closed_connections_held_at_quiet_queues() -> None:
    table = WaitTable(10)
    gone, stays = channel(1), channel(2)
    watched: list[weakref.ref[Again]] = []
    for pull in (held(gone, "quiet"), held(gone, "shared"), held(stays, "shared")):
        pull.again = Again()
        watched.append(weakref.ref(pull.again))
        assert table.add(pull)
    table.drop(gone)
    del gone, pull
    assert table.behind(lambda topic, queue_id: 0) == []
    assert table.expired(5000) != []
    assert ([one() for one in watched[:2]], table.count) == ([None, None], 0)
