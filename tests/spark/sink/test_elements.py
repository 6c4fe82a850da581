"""Rows read from columns are the same messages, byte for byte, as rows read one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from bolide.spark.sink import elements
from bolide.spark.sink.elements import ElementReader, Elements
from bolide.spark.sink.messages import Outgoing, Refusal, RowOrigin, RowReader, Task
from tests.spark.sink.both_readers import as_sent, by_reference, from_columns, read_all

TASK = Task("q", 3, 1)
TEXTS = [
    "a",
    "tag",
    "ключ",
    "日本",
    "😀x",
    "longer text with blanks",
    "TAGS",
    "a\x01b",
    "b\x02",
    "a||b",
    " a",
    "*",
    "",
    None,
    None,
]
NAMES = ["a", "b", "", "TAGS", "KEYS", "__SHARDINGKEY", "UNIQ_KEY", "WAIT", "MSG_REGION", "x\x01", "ключ"]
MAP = pa.map_(pa.string(), pa.string())
MICROS = [None, None, 1_793_000_000_123_456, -500]


class Drawn:
    """Random columns; most rows of some, and few of others, are odd."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.odd = self.random.choice([0.0, 0.05, 0.5])
        self.count = self.random.choice([0, 1, 3, 20, 200])

    def column(self, make: Callable[[], Any], kind: pa.DataType | None = None) -> Any:
        return pa.array([make() for _ in range(self.count)], kind)

    def text(self) -> str | None:
        return self.random.choice(TEXTS) if self.random.random() < self.odd else self.random.choice(TEXTS[:6])

    def keys(self) -> list[str | None] | None:
        if self.random.random() < self.odd:
            return self.random.choice([None, [], [None], ["", None], ["k1", None, "k2"], ["b\x01"]])
        return ["k1", "k2"]

    def map(self) -> list[tuple[str, str | None]] | None:
        if self.random.random() >= self.odd:
            return [(f"n{number}", "value") for number in range(self.random.randrange(4))]
        if self.random.random() < 0.1:
            return self.random.choice([None, [("big", "x" * 40_000)]])
        return [(self.random.choice(NAMES), self.text()) for _ in range(self.random.randrange(5))]

    def batch(self) -> pa.RecordBatch:
        draw = self.random
        bodies: list[Any] = [b"x", b"body" * 20, b"1", b"", None] if draw.random() < 0.5 else ["x", "жж", "", None]
        text = draw.choice([pa.string(), pa.string(), pa.large_string()])
        kind = text if isinstance(bodies[0], str) else draw.choice([pa.binary(), pa.large_binary()])
        moment = draw.choice([pa.timestamp("us", "GMT+8"), pa.int64()])
        columns = {
            "body": self.column(lambda: draw.choice(bodies if draw.random() < self.odd else bodies[:2]), kind),
            "topic": self.column(lambda: draw.choice(["T", "T", "U", "V", "", None, "bad topic"]), text),
            "tags": self.column(self.text, text),
            "keys": self.column(self.text, text) if draw.random() < 0.5 else self.column(self.keys),
            "properties": self.column(self.map, MAP),
            "sharding_key": self.column(self.text, text),
            "route_key": self.column(self.text, text),
            "message_id": self.column(self.text, text),
            "queue_id": self.column(lambda: draw.choice([None, 0, 1, 2, -1]), draw.choice([pa.int8(), pa.int64()])),
            "flag": self.column(lambda: draw.choice([None, 0, 7, -(1 << 31), 1 << 31]), pa.int64()),
            "delay_level": self.column(lambda: draw.choice([None, 0, 1, 19]), pa.int32()),
            "deliver_time": self.column(lambda: draw.choice(MICROS), moment),
            "born_timestamp": self.column(lambda: draw.choice(MICROS), moment),
        }
        chosen = {name: column for name, column in columns.items() if name == "body" or draw.random() < 0.4}
        return pa.record_batch(chosen)


@pytest.mark.parametrize("seed", range(150))
def test_columns_and_rows_agree(seed: int) -> None:
    drawn = Drawn(seed)
    batch = drawn.batch()
    topic, immediate = drawn.random.choice(["T", ""]), drawn.random.random() < 0.3
    reader, first = ElementReader(topic, TASK, immediate), 0
    cut = drawn.random.randrange(drawn.count + 1)
    for part in (batch.slice(0, cut), batch.slice(cut)):  # slices of one batch share its buffers
        wanted = as_sent(by_reference(part, topic, TASK, immediate=immediate, first=first))
        assert read_all(reader, part) == wanted
        first += part.num_rows


class Unused(RowReader):
    """Fails if a row is read on its own."""

    def read(self, origin: RowOrigin, rows: Sequence[int]) -> Iterator[Outgoing | Refusal]:
        raise AssertionError(rows)


def test_ordinary_rows_need_no_reference() -> None:
    columns = {
        "body": pa.array([b"x", b"y"]),
        "tags": pa.array(["a", None]),
        "keys": pa.array([["k1", "k2"], None]),
        "properties": pa.array([[("TAGS", "b"), ("UNIQ_KEY", "1"), ("p", "1")], None], MAP),
        "sharding_key": pa.array([None, "s"]),
        "born_timestamp": pa.array([None, 5]),
    }
    assert len(read_all(ElementReader("T", TASK, False, Unused), pa.record_batch(columns))) == 2


def test_large_batches_are_read_in_pieces() -> None:
    body = b"x" * (elements.MAX_PIECE // 3)
    found = list(ElementReader("T", TASK, False).read(pa.record_batch({"body": pa.array([body] * 5)})))
    assert len(found) > 1
    assert [row for each in found if isinstance(each, Elements) for row in each.rows.tolist()] == [0, 1, 2, 3, 4]


def test_text_that_is_not_utf_8_is_refused_with_its_row_alone() -> None:
    broken = pa.array([b"a", b"\xff", None], pa.binary())
    tags = pa.Array.from_buffers(pa.string(), 3, broken.buffers(), 1)
    bodies, topics = pa.array([b"x", b"y", b"z"]), pa.array([None, "U", None], pa.string())
    batch = pa.RecordBatch.from_arrays([bodies, topics, tags], ["body", "topic", "tags"])
    found = list(ElementReader("T", TASK, False).read(batch))
    refusals = [each for each in found if isinstance(each, Refusal)]
    reason = "it contains text that is not valid UTF-8"
    assert [(each.row, each.topic, each.reason) for each in refusals] == [(1, "U", reason)]
    assert refusals[0].values == {"body": b"y", "topic": "U"}
    assert [each.rows.tolist() for each in found if isinstance(each, Elements)] == [[0, 2]]
    # As a body the same bytes are sent as they are.
    body = pa.Array.from_buffers(pa.string(), 2, broken.buffers())
    assert b"\xff" in from_columns(pa.RecordBatch.from_arrays([body], ["body"]), "T", TASK)[1][1]
