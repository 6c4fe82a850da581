"""Rows to messages: every part of a row is where the protocol has it, and a bad row is refused in one sentence.

Each row is read from columns and by the reference, which must agree.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from bolide.layout.properties import parse_properties
from bolide.spark.sink.elements import ElementReader, readable
from bolide.spark.sink.messages import MAX_BODY, Outgoing, Refusal, RowOrigin, RowReader, Task
from tests.spark.sink.both_readers import as_sent, by_reference, from_columns, read_all

TASK = Task("q", 3, 1)
TIME = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def read(*rows: dict[str, Any], topic: str = "T", immediate: bool = False) -> list[Outgoing | Refusal]:
    names = list(rows[0])
    kinds = {"properties": pa.map_(pa.string(), pa.string()), "deliver_time": pa.timestamp("us", "UTC")}
    arrays = [pa.array([row[name] for row in rows], kinds.get(name)) for name in names]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    found = by_reference(batch, topic, TASK, immediate=immediate)
    assert from_columns(batch, topic, TASK, immediate=immediate) == as_sent(found)
    return found


def one(**row: Any) -> Outgoing:
    (message,) = read({"body": b"x", **row})
    assert isinstance(message, Outgoing), message
    return message


def refusal(row: dict[str, Any], immediate: bool = False, default: str = "T") -> str:
    (found,) = read({"body": b"x", **row}, topic=default, immediate=immediate)
    assert isinstance(found, Refusal), found
    return str(found.error(TASK.partition))


def test_every_column_has_its_place() -> None:
    message = one(
        topic="Other",
        tags="a",
        keys=["k1", None, "k2"],
        properties=[("p", "1"), ("empty", ""), ("none", None), ("MSG_REGION", "r"), ("TAGS", "lost")],
        sharding_key="s",
        queue_id=2,
        flag=7,
    )
    properties = parse_properties(message.properties)
    assert (message.topic, message.queue_id, message.flag, message.route_key) == ("Other", 2, 7, "s")
    assert {name: properties.get(name) for name in ("TAGS", "KEYS", "p", "__SHARDINGKEY", "WAIT")} == {
        "TAGS": "a",
        "KEYS": "k1 k2",
        "p": "1",
        "__SHARDINGKEY": "s",
        "WAIT": "true",
    }
    assert not {"empty", "none", "MSG_REGION"} & set(properties)
    assert not message.alone


def test_a_key_with_a_blank_is_refused_in_a_list_and_is_several_in_a_text() -> None:
    assert "its key 'order 1' contains a blank" in refusal({"keys": ["k", "order 1"]})
    assert "its key ' ' contains a blank" in refusal({"keys": [" "]})
    assert parse_properties(one(keys="order 1").properties)["KEYS"] == "order 1"


@pytest.mark.parametrize("tag", ["a||b", " a", "*"])
def test_any_tag_of_a_stored_message_can_be_resent(tag: str) -> None:
    columns = {"body": pa.array([b"x", b"y"]), "tags": pa.array([tag, None])}
    columns["properties"] = pa.array([[], [("TAGS", tag)]], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch(columns)
    sent = read_all(ElementReader("T", TASK, False, any_tag=True), batch)
    read = list(RowReader("T", TASK, False, any_tag=True).read(RowOrigin(readable(batch), 0), range(2)))
    assert sent == as_sent(read)
    assert [isinstance(each, Outgoing) and parse_properties(each.properties)["TAGS"] for each in read] == [tag, tag]


def test_a_tag_of_the_map_that_the_column_replaces_is_not_read() -> None:
    assert parse_properties(one(tags="a", properties=[("TAGS", "b||c")]).properties)["TAGS"] == "a"


def test_an_id_is_that_of_the_place() -> None:
    first, second = (parse_properties(one().properties)["UNIQ_KEY"] for _ in range(2))
    assert first == second
    assert len(first) == 32
    both = read({"body": b"x"}, {"body": b"x"})
    assert len({parse_properties(each.properties)["UNIQ_KEY"] for each in both if isinstance(each, Outgoing)}) == 2
    assert parse_properties(one(message_id="ABC").properties)["UNIQ_KEY"] == "ABC"


def test_delays() -> None:
    level, timed = one(delay_level=3), one(deliver_time=TIME)
    assert parse_properties(level.properties)["DELAY"] == "3"
    assert parse_properties(timed.properties)["TIMER_DELIVER_MS"] == "1772366400250"
    assert level.alone and timed.alone
    assert parse_properties(one(deliver_time=None).properties).get("TIMER_DELIVER_MS") is None
    assert one(born_timestamp=1234).born_timestamp == 1234


@pytest.mark.parametrize("zone", ["GMT+8", "+05:30", "UTC+01:00", "America/Santiago"])
def test_times_are_moments_in_each_zone_of_spark_and_each_year(zone: str) -> None:
    micros = [
        1_793_000_000_123_456,
        None,
        253_402_300_799_000_000,
        -62_135_596_800_000_000,
        -500,
        9_000_000_000_000_000_000,
    ]
    times = pa.array(micros, pa.timestamp("us", zone))
    batch = pa.RecordBatch.from_arrays([pa.array([b"x"] * 6), times, times], ["body", "born_timestamp", "deliver_time"])
    sent = by_reference(batch, "T", TASK)
    assert from_columns(batch, "T", TASK) == as_sent(sent)
    assert all(isinstance(each, Outgoing) for each in sent)
    wanted = [None if each is None else each // 1000 for each in micros]
    assert [each.born_timestamp for each in sent if isinstance(each, Outgoing)] == wanted
    delays = [parse_properties(each.properties).get("TIMER_DELIVER_MS") for each in sent if isinstance(each, Outgoing)]
    assert delays == [None if each is None else str(each) for each in wanted]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"body": b""}, "partition 1, row 0, topic T: its body is empty"),
        ({"body": None}, "its body is empty"),
        ({"topic": "a b"}, "topic a b: a topic has up to 127 letters"),
        ({"tags": "a\x01b"}, "the property TAGS contains a character that separates"),
        ({"tags": "a||b"}, "row 0, topic T: its tag 'a||b' in the column tags contains ||, which separates the tags"),
        ({"tags": "a "}, "its tag 'a ' in the column tags begins or ends with a blank"),
        ({"properties": [("TAGS", "*")]}, "its tag '*' in the column properties is the subscription to all messages"),
        ({"delay_level": 19}, "levels go from 1 to 18"),
        ({"delay_level": 1, "deliver_time": TIME}, "both delay_level and deliver_time"),
        ({"queue_id": -1}, "queues are counted from 0"),
        ({"flag": 1 << 40}, "does not fit into 32 bits"),
        ({"body": b"x" * (MAX_BODY + 1)}, f"its body has {MAX_BODY + 1} bytes"),
        ({"properties": [("p", "x" * 40_000)]}, "more than 32767 bytes"),
        ({"immediate": True, "delay_level": 1}, "a message in a transaction cannot have"),
        ({"topic": None, "default": ""}, "topic (none): it has no topic"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_a_bad_row_is_named_by_its_place(row: dict[str, Any], text: str) -> None:
    row = dict(row)
    said = refusal(row, row.pop("immediate", False), row.pop("default", "T"))
    assert text in said
    assert "set option deadLetterPath" in said
