"""Readers of a store folder leave out what belongs to deleted topics, and only that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bolide.layout.deleted_topics import NAME, mark_line
from bolide.layout.errors import LayoutError
from bolide.spark.dispatch.dispatch_parts import make_part
from bolide.spark.store.deleted import alive, marks_of
from bolide.spark.store.store_options import store_options
from bolide.spark.store.store_plan import plan_stretches
from bolide.spark.store.store_rows import read_stretch
from bolide.store.files import RealFiles
from bolide.store.message_store import MessageStore
from tests.store.scenario import SHAPE, START, message


def test_records_below_the_mark_of_their_topic_are_gone() -> None:
    topics = pa.array(["A", "B", "A", "C", "B"])
    offsets = np.array([10, 20, 30, 40, 50], np.int64)
    assert alive(topics, offsets, {}).all()
    assert alive(topics, offsets, {"A": 30, "B": 51}).tolist() == [False, False, True, True, False]
    encoded = topics.dictionary_encode()
    assert alive(encoded, offsets, {"A": 30, "B": 51}).tolist() == [False, False, True, True, False]


def test_marks_lie_beside_the_log(tmp_path: Path) -> None:
    log = str(tmp_path / "commitlog" / "00000000000000000000")
    assert marks_of(log) == {}
    (tmp_path / NAME).write_bytes(mark_line("A", 7) + b"torn")
    assert marks_of(log) == {"A": 7}
    (tmp_path / NAME).write_bytes(b"?\n")
    with pytest.raises(LayoutError):
        marks_of(log)


def test_a_store_read_without_a_broker(tmp_path: Path) -> None:
    store = MessageStore(RealFiles(), str(tmp_path), SHAPE)
    store.load(START)
    for number in range(9):
        store.append(message(number), START)
    store.write_pending()
    store.delete_topic("T")
    new = [store.append(message(number), START).physical_offset for number in range(4)]
    store.append(message(0, topic="other"), START)
    store.write_pending()
    store.close(START)
    (stretch,) = plan_stretches(tmp_path, 1 << 30)
    options = store_options({"path": str(tmp_path)})
    rows = [row for batch in read_stretch(stretch, options, ("topic", "physical_offset")) for row in batch.to_pylist()]
    assert [row["physical_offset"] for row in rows if row["topic"] == "T"] == new
    assert len(rows) == 5
    part = make_part([stretch], SHAPE, str(tmp_path / "part"), 0)
    assert (part.records, part.file.units) == (14, 5)
