"""Readers of a store folder leave out what belongs to deleted topics, and only that."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bolide.layout.deleted_topics import NAME, mark_line
from bolide.layout.errors import LayoutError
from bolide.spark.dispatch.dispatch_parts import make_part
from bolide.spark.errors import DataLost
from bolide.spark.spark_versions import ReadAllAvailable
from bolide.spark.store.deleted import alive, is_undone, marks_of, newest_deletion
from bolide.spark.store.store_options import store_options
from bolide.spark.store.store_plan import plan_stretches
from bolide.spark.store.store_rows import read_stretch
from bolide.spark.store.store_stream import StoreStreamReader
from bolide.store.disk.files import RealFiles
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


def test_the_newest_deletion_is_the_last_line_of_any_topic(tmp_path: Path) -> None:
    assert newest_deletion(tmp_path, 100) is None
    (tmp_path / NAME).write_bytes(mark_line("A", 7) + mark_line("B", 9) + mark_line("A", 9))
    assert newest_deletion(tmp_path, 100) == ("A", 9)
    assert newest_deletion(tmp_path, 8) == ("A", 8), "what follows was not left out yet"
    store = MessageStore(RealFiles(), str(tmp_path / "store"), SHAPE)
    store.load(START)
    for topic in ("T", "other", "T"):
        store.append(message(0, topic=topic), START)
        store.write_pending()
        store.delete_topic(topic)
        newest = newest_deletion(tmp_path / "store", 1 << 40)
        assert newest is not None
        assert newest[0] == topic == list(store.queues.deleted.marks)[-1]
    store.close(START)


def test_deletion_before_the_log_is_undone() -> None:
    missing = Path("/nowhere")
    assert is_undone(missing, 0, "T", 50)
    assert not is_undone(missing, 50, "T", 50), "the log begins after it: a broker forgets such a mark"


def _stream(root: Path, **more: str) -> StoreStreamReader:
    options = store_options({"path": str(root), "subscribe": "T,other", **more}, streaming=True)
    return StoreStreamReader(options, ("topic",))


def _topics(stream: StoreStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    return [
        topic
        for part in stream.partitions(start, end)
        for batch in stream.read(part)
        for topic in batch.column(0).to_pylist()
    ]


def test_a_copy_from_before_a_deletion_has_records_that_a_stream_passed_over(tmp_path: Path) -> None:
    root, copy = tmp_path / "store", tmp_path / "copy"
    store = MessageStore(RealFiles(), str(root), SHAPE)
    store.load(START)
    for topic in ("T", "T", "other"):
        store.append(message(0, topic=topic), START)
    store.write_pending()
    store.close(START)
    shutil.copytree(root, copy)
    store = MessageStore(RealFiles(), str(root), SHAPE)
    store.load(START)
    store.delete_topic("T")
    store.close(START)
    stream = _stream(root)
    start = stream.initialOffset()
    end = json.loads(json.dumps(stream.latestOffset(start, ReadAllAvailable())))
    assert _topics(stream, start, end) == ["other"]
    assert _stream(root).latestOffset(end, ReadAllAvailable()) is end
    shutil.rmtree(root)
    copy.rename(root)
    with pytest.raises(DataLost, match="no longer has the deletion of topic T"):
        _stream(root).latestOffset(end, ReadAllAvailable())
    tolerant = _stream(root, failOnDataLoss="false")
    again = tolerant.latestOffset(end, ReadAllAvailable())
    assert _topics(tolerant, end, again) == ["T", "T", "other"]
