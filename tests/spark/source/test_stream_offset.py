"""The offsets that Spark stores: their text is short, and what earlier versions wrote is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.spark.errors import OptionError
from bolide.spark.source.marks import mark_of
from bolide.spark.source.queues import Queue, to_json
from bolide.spark.source.stream_offset import MANY, StreamOffset, newest_json, read_offset

WIDE = [Queue("Wide", "broker-a", number) for number in range(2_000)]
few = st.builds(Queue, st.sampled_from("TU"), st.sampled_from("ab"), st.integers(0, 200))
whole = st.builds(lambda topic, count: [Queue(topic, "c", n) for n in range(count)], st.just("T"), st.integers(0, 99))
queues = st.builds(lambda some, all_: [*some, *all_], st.lists(few, max_size=20), whole)
offsets = queues.flatmap(lambda found: st.fixed_dictionaries({queue: st.integers(0, 1 << 62) for queue in found}))


@given(reached=offsets, begins=offsets, initial=st.booleans())
def test_offsets_survive_a_checkpoint(reached: dict[Queue, int], begins: dict[Queue, int], initial: bool) -> None:
    offset = StreamOffset(reached, {queue: at & 0xFFFFFFFF for queue, at in begins.items()}, begins, initial)
    assert read_offset(json.loads(json.dumps(offset.to_json()))) == offset


def test_the_offsets_of_many_queues_are_short() -> None:
    marks = {queue: mark_of(1 << 40 | queue.queue_id << 8, 1_793_000_000_000 + queue.queue_id) for queue in WIDE}
    text = json.dumps(StreamOffset(dict.fromkeys(WIDE, 123_456), marks).to_json())
    assert len(text) < 30_000


def test_few_queues_and_queues_with_gaps_have_their_ids() -> None:
    narrow = dict.fromkeys(WIDE[:MANY], 7)
    gaps = dict.fromkeys([*WIDE[:MANY], *WIDE[MANY + 1 : MANY + 9]], 7)
    for newest in (narrow, gaps):
        assert newest_json(newest) == {"queues": to_json(newest)}
    assert newest_json(dict.fromkeys(WIDE[: MANY + 1], 7)) == {"queues": {"Wide": {"broker-a": [7] * (MANY + 1)}}}


def test_wide_offsets_of_earlier_versions_are_read() -> None:
    reached = {queue: queue.queue_id for queue in WIDE}
    assert read_offset({"queues": to_json(reached)}) == StreamOffset(reached)


@pytest.mark.parametrize("queues", [7, {"T": 7}, {"T": {"a": 7}}, {"T": {"a": ["x"]}}, {"T": {"a": [True]}}], ids=str)
def test_a_damaged_offset_is_named(queues: object) -> None:
    with pytest.raises(OptionError, match="the checkpoint must be JSON such as"):
        read_offset({"queues": queues})
