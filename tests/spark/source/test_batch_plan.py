"""The plan of a batch beside a model of topics that grow and are created again. No Spark, no broker."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from bolide.spark.source.batch_plan import BatchPlan, QueuesFound, plan_batch, shorter
from bolide.spark.source.marks import Marks, MessagesBefore, changed
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.stream_offset import StreamOffset, begins_of, read_offset

QUEUES = [Queue(topic, broker, number) for topic in ("S", "T") for broker in ("a", "b") for number in range(2)]
A, B = QUEUES[:2]


@dataclass(frozen=True)
class Life:
    """One queue of the model. Its messages are (life, offset)."""

    number: int
    end: int = 0

    def mark(self, offset: int) -> int:
        """What identifies the message before an offset."""
        return self.number * 1_000_000 + offset


@dataclass
class Topics:
    """The model of a cluster, and of the query that reads it: it asks as `StreamRun` does."""

    lives: dict[Queue, Life] = field(default_factory=dict)
    made: int = 0
    away: set[Queue] = field(default_factory=set)
    read: list[tuple[Queue, int, int]] = field(default_factory=list)
    """Messages that batches had, as (queue, life, offset)."""

    def create(self, queue: Queue) -> None:
        self.made += 1
        self.lives[queue] = Life(self.made)

    def send(self, queue: Queue, count: int) -> None:
        if queue in self.lives:
            self.lives[queue] = replace(self.lives[queue], end=self.lives[queue].end + count)

    def ends(self) -> Offsets:
        return {queue: life.end for queue, life in self.lives.items() if queue not in self.away}

    def before(self, offsets: Offsets) -> MessagesBefore:
        there = {queue: at for queue, at in offsets.items() if queue in self.lives and queue not in self.away}
        marks: Marks = {q: self.lives[q].mark(at) for q, at in there.items() if 0 < at <= self.lives[q].end}
        return MessagesBefore(marks, {q: self.lives[q].end for q, at in there.items() if at > self.lives[q].end})

    def plan(self, start: StreamOffset) -> BatchPlan:
        """The plan after all comparisons."""
        ends = self.ends()
        plan = plan_batch(start, QueuesFound(ends, {queue: 0 for queue in ends if queue not in start.reached}))
        plan = self.again(plan, list(shorter(start.reached, ends)))
        return self.again(plan, list(changed(plan.read_here(), plan.marks, self.before(plan.read_here()))))

    def again(self, plan: BatchPlan, queues: list[Queue]) -> BatchPlan:
        return plan.created_again(dict.fromkeys(queues, 0), {queue: self.lives[queue].end for queue in queues})

    def batch(self, start: StreamOffset, most: int) -> StreamOffset:
        """Read the next batch, through the text that Spark stores."""
        plan = self.plan(start)
        end = plan.end(most)
        if not plan.must_be_stored and not plan.moves(end):
            return start
        found = stored(plan.offset(end, self.before(plan.unmarked(end)).marks))
        begin = begins_of(start, found)
        rows = [
            (queue, self.lives[queue].number, offset)
            for queue, last in found.reached.items()
            for offset in range(begin[queue], last)
        ]
        assert not most or len(rows) <= most
        self.read += rows
        return found


def stored(offset: StreamOffset) -> StreamOffset:
    """An offset as it comes back from a checkpoint."""
    return read_offset(json.loads(json.dumps(offset.to_json())))


steps = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(QUEUES), st.just(0)),
    st.tuples(st.just("send"), st.sampled_from(QUEUES), st.integers(1, 20)),
    st.tuples(st.just("away"), st.sampled_from(QUEUES), st.just(0)),
    st.tuples(st.just("batch"), st.just(A), st.sampled_from([0, 1, 7])),
)


@given(st.lists(steps, max_size=40), st.booleans())
def test_every_message_of_every_topic_is_read_once(sequence: list[tuple[str, Queue, int]], initial: bool) -> None:
    topics = Topics()
    place = stored(StreamOffset({}, initial=initial))
    for what, queue, number in sequence:
        if what == "create":
            place = topics.batch(replace(place), 0)  # what is deleted unread is lost, which is not the plan's fault
            if queue not in topics.away:
                topics.create(queue)
        elif what == "send":
            topics.send(queue, number)
        elif what == "away":
            topics.away ^= {queue}
        else:
            place = topics.batch(place, number)
    topics.away.clear()
    place = topics.batch(place, 0)
    assert topics.batch(place, 0) is place, "nothing is new"
    assert len(topics.read) == len(set(topics.read)), "once"
    last = {(queue, life.number, offset) for queue, life in topics.lives.items() for offset in range(life.end)}
    assert last <= set(topics.read)


def test_empty_batch_needs_no_offset() -> None:
    plan = plan_batch(StreamOffset({A: 5}, {A: 1}), QueuesFound({A: 5}))
    assert (plan.rows, plan.must_be_stored, plan.moves(plan.end(0))) == (0, False, False)
    assert plan.unmarked(plan.end(0)) == {}
    assert plan.kept_marks(plan.end(0)) == {A: 1}


def test_a_missing_queue_and_a_replica_that_lags_move_nothing() -> None:
    plan = plan_batch(StreamOffset({A: 5, B: 7}, {A: 1, B: 2}), QueuesFound({B: 3}))
    assert plan.end(0) == {A: 5, B: 7}
    assert plan.rows == 0
    assert plan.read_here() == {B: 7}, "the other cannot be compared now"
    assert plan.offset({A: 5, B: 7}, {}).marks == {A: 1, B: 2}


def test_former_and_forgotten_queues_change_the_checkpoint_without_a_message() -> None:
    plan = plan_batch(StreamOffset({A: 5, B: 7}, {B: 2}), QueuesFound({A: 5}, former={QUEUES[2]: 9}, forgotten={B}))
    assert plan.must_be_stored
    assert plan_batch(StreamOffset({A: 5}), QueuesFound({A: 5}, former={B: 9})).must_be_stored
    assert plan_batch(StreamOffset({A: 5, B: 7}), QueuesFound({A: 5}, forgotten={B})).must_be_stored
    assert plan.end(0) == {A: 5, QUEUES[2]: 9}
    assert plan.offset(plan.end(0), {}) == StreamOffset({A: 5, QUEUES[2]: 9})


def test_a_queue_that_was_created_again_is_read_from_its_first_message_and_has_no_mark() -> None:
    start = StreamOffset({A: 5, B: 7}, {A: 1, B: 2})
    plan = plan_batch(start, QueuesFound({A: 9, B: 8})).created_again({A: 0}, {A: 9})
    assert (plan.rows, plan.read_here()) == (10, {B: 7})
    end = plan.end(4)
    assert sum(end.values()) == 0 + 7 + 4
    found = plan.offset(end, {A: 3})
    assert found.begins == {A: 0}
    assert begins_of(start, stored(found)) == {A: 0, B: 7}


def test_only_queues_that_advance_are_compared_and_marked() -> None:
    plan = plan_batch(StreamOffset({A: 5, B: 7}, {A: 1, B: 2}), QueuesFound({A: 9, B: 7}))
    end = plan.end(0)
    assert plan.advanced(end) == {A: 5}
    assert plan.unmarked(end) == {A: 9}
    assert plan.offset(end, {}).marks == {B: 2}


def test_the_end_of_a_first_batch_says_where_all_its_queues_begin() -> None:
    start = StreamOffset({A: 5}, initial=True)
    found = stored(plan_batch(start, QueuesFound({A: 9, B: 2}, first={B: 1})).offset({A: 9, B: 2}, {}))
    later = StreamOffset({A: 8}, initial=True)
    assert begins_of(later, found) == {A: 5, B: 1}, "asked again after a crash"
    assert "initial" not in found.to_json()
    assert begins_of(StreamOffset({A: 3}, initial=True), StreamOffset({A: 5})) == {A: 5}, "such a start says nothing"
