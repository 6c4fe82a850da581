"""Light queues (LMQ): what a record says of them, by rows, by columns and in a rebuild; lists that are not right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.dispatch.columns import light_queues
from bolide.dispatch.multi import MultiQueue, is_offset, multi_queues, split_names, with_offsets
from bolide.dispatch.rebuild import rebuild
from bolide.dispatch.row import dispatch_at
from bolide.layout.columns import RecordColumns, chain_starts
from bolide.layout.queue_unit import read_unit
from bolide.layout.shape import StoreShape
from tests.layout.records import FIELDS
from tests.layout.strategies import encoded, record_fields

SHAPE = StoreShape(commit_log_segment_size=4096, consume_queue_segment_size=100, multi_dispatch=True)
NAMES = st.sampled_from(["%LMQ%a", "%LMQ%b", "%LMQ%", "%LMQ%é/x", "a", "", "%LMQ%" + "n" * 251, "%LMQ%" + "n" * 250])
NUMBERS = st.sampled_from(["0", "7", "-1", "", "x", "12345678901234567", "123456789012345678", "٣"])


def listed(names: list[str], numbers: list[str], before: str = "") -> bytes:
    return (
        f"{before}INNER_MULTI_DISPATCH\x01{','.join(names)}\x02INNER_MULTI_QUEUE_OFFSET\x01{','.join(numbers)}\x02"
    ).encode()


def places(found: list[MultiQueue] | None) -> list[tuple[str, int]]:
    return [(queue.topic, queue.queue_offset) for queue in found or []]


def test_names_and_offsets_belong_together_by_their_order() -> None:
    assert places(multi_queues("T", listed(["%LMQ%a", "%LMQ%b"], ["3", "0"]))) == [("%LMQ%a", 3), ("%LMQ%b", 0)]
    assert split_names("a,b,,") == ["a", "b"]  # Java's split
    assert places(multi_queues("T", listed(["%LMQ%a", "", ""], ["3"]))) == [("%LMQ%a", 3)]


@pytest.mark.parametrize(
    ("names", "numbers"),
    [(["%LMQ%a", "%LMQ%b"], ["1"]), (["%LMQ%a"], []), ([], ["1"]), (["%LMQ%a/b"], ["1"]), (["a"], ["1"])],
    ids=["too few", "no offsets", "no names", "slash", "no light queue"],
)
def test_invalid_list_is_not_dispatched(names: list[str], numbers: list[str]) -> None:
    assert multi_queues("T", listed(names, numbers)) is None


def test_invalid_queue_leaves_the_others() -> None:
    found = multi_queues("T", listed(["%LMQ%a", "%LMQ%b", "%LMQ%c", "%LMQ%a"], ["x", "2", "-1", "4"]))
    assert places(found) == [("%LMQ%b", 2), ("%LMQ%a", 4)]
    assert not is_offset("٣")


@pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX"])
def test_topics_a_message_only_waits_in_give_nothing(topic: str) -> None:
    assert multi_queues(topic, listed(["%LMQ%a"], ["1"])) is None


def test_offsets_are_written_behind_what_is_there() -> None:
    queues = [MultiQueue("%LMQ%a", 5), MultiQueue("%LMQ%b", 0)]
    names = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b"
    for before in (names, names + b"\x02"):
        raw = with_offsets(before, queues)
        assert raw == names + b"\x02INNER_MULTI_QUEUE_OFFSET\x015,0\x02"
        assert places(multi_queues("T", raw)) == [("%LMQ%a", 5), ("%LMQ%b", 0)]


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    fields = draw(record_fields())
    if draw(st.booleans()):
        names, numbers = draw(st.lists(NAMES, max_size=4)), draw(st.lists(NUMBERS, max_size=4))
        fields["properties"] = listed(names, numbers, "TAGS\x01t\x02")
    fields["topic"] = draw(st.sampled_from([fields["topic"], b"T", b"%RETRY%g", b"rmq_sys_x"]))
    return fields


@given(st.lists(records(), max_size=6))
@settings(max_examples=200)
def test_columns_are_rows(many: list[dict[str, Any]]) -> None:
    buf = b"".join(map(encoded, many))
    starts = chain_starts(buf)
    rows, names, offsets = light_queues(RecordColumns(buf, starts))
    texts: Any = names
    found = list(zip(rows.tolist(), texts.to_pylist(), offsets.tolist(), strict=True))
    wanted = [
        (row, *place) for row, at in enumerate(starts.tolist()) for place in places(dispatch_at(buf, at, SHAPE).multi)
    ]
    assert found == wanted


def test_columns_use_first_of_duplicate_queues() -> None:
    buf = encoded({**FIELDS, "properties": listed(["%LMQ%a", "%LMQ%b", "%LMQ%a"], ["1", "2", "3"])})
    rows, names, offsets = light_queues(RecordColumns(buf, chain_starts(buf)))
    texts: Any = names
    assert (rows.tolist(), texts.to_pylist(), offsets.tolist()) == ([0, 0], ["%LMQ%a", "%LMQ%b"], [1, 2])


def test_dispatch_can_be_switched_off() -> None:
    buf = encoded({**FIELDS, "properties": listed(["%LMQ%a"], ["0"])})
    assert places(dispatch_at(buf, 0, SHAPE).multi) == [("%LMQ%a", 0)]
    assert dispatch_at(buf, 0, replace(SHAPE, multi_dispatch=False)).multi is None


@pytest.mark.parametrize("ext", [False, True])
def test_a_rebuild_fills_light_queues_without_extensions(ext: bool) -> None:
    shape = replace(SHAPE, enable_consume_queue_ext=ext)
    data = b""
    for number in range(3):
        names, numbers = (["%LMQ%a"], [str(number)]) if number else (["%LMQ%a", "%LMQ%b"], ["0", "0"])
        raw = listed(names, numbers, "TAGS\x01t\x02")
        data += encoded({**FIELDS, "physical_offset": len(data), "queue_offset": number, "properties": raw})
    made = rebuild([(0, data)], shape)
    assert {key: queue.end // 20 for key, queue in made.queues.items()} == {
        ("topic", 1): 3,
        ("%LMQ%a", 0): 3,
        ("%LMQ%b", 0): 1,
    }
    assert made.skipped == []
    ((_, light),) = made.queues["%LMQ%a", 0].segments()
    assert [read_unit(light, at)[2] for at in (0, 20, 40)] == [116] * 3  # "t".hashCode()
    assert made.queues["%LMQ%a", 0].ext_segments() == []
