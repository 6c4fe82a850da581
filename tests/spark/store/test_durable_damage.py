"""Damage that a read of a store finds where no file is missing and no chain of records is broken twice."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from bolide.layout.checkpoint import decode_checkpoint
from bolide.spark.errors import CorruptStore
from bolide.spark.store.durable import DurableEnd
from bolide.spark.store.store_plan import packed
from bolide.spark.store.store_source import RocketMQStoreDataSource
from tests.golden.stores import GoldenStore, golden_store

SCHEMA = StructType([StructField("physical_offset", LongType()), StructField("topic", StringType())])


@pytest.fixture
def golden(tmp_path: Path) -> GoldenStore:
    """A store that was stopped cleanly, to be damaged."""
    found = golden_store("5.5.0-clean")
    shutil.copytree(found.root, tmp_path / "store")
    return GoldenStore(found.name, tmp_path / "store", found.manifest, found.shape)


def place(golden: GoldenStore, number: int) -> int:
    return int(golden.log()[number]["physicalOffset"])


def file_of(golden: GoldenStore, at: int) -> tuple[Path, int]:
    size = golden.shape.commit_log_segment_size
    return golden.root / "commitlog" / f"{at // size * size:020d}", at % size


def overwrite(golden: GoldenStore, at: int, data: bytes) -> None:
    path, begin = file_of(golden, at)
    whole = path.read_bytes()
    path.write_bytes(whole[:begin] + data + whole[begin + len(data) :])


def nothing_names_it(golden: GoldenStore) -> None:
    """Neither queues nor a checkpoint say what the log should have."""
    shutil.rmtree(golden.root / "consumequeue")
    (golden.root / "checkpoint").unlink()


def streamed(golden: GoldenStore, **options: str) -> list[int]:
    source = RocketMQStoreDataSource(CaseInsensitiveDict({"path": str(golden.root), **options}))
    reader: Any = source.streamReader(SCHEMA)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [at for batch in batches for at in batch.column(0).to_pylist()]


def test_the_newest_file_of_a_stopped_store_is_cut(golden: GoldenStore) -> None:
    path, begin = file_of(golden, place(golden, -3))
    path.write_bytes(path.read_bytes()[:begin])
    with pytest.raises(CorruptStore, match=f"no whole record at physical offset {place(golden, -3)}, where queues or"):
        DurableEnd(golden.root).find()


def test_records_follow_a_hole_in_the_newest_file(golden: GoldenStore) -> None:
    overwrite(golden, place(golden, -5) + 4, b"x")
    nothing_names_it(golden)
    with pytest.raises(CorruptStore, match=f"at physical offset {place(golden, -5)}, where records follow at"):
        DurableEnd(golden.root).find()
    whole = [place(golden, number) for number in range(len(golden.log()))]
    assert streamed(golden, corruptRecords="skip") == whole[:-5] + whole[-4:]
    (golden.root / "abort").touch()
    assert DurableEnd(golden.root).find() <= place(golden, -5), "nothing says that these are on disk"


def test_bytes_after_the_last_record_of_a_stopped_store(golden: GoldenStore) -> None:
    overwrite(golden, place(golden, -1) + 4, b"x")
    nothing_names_it(golden)
    with pytest.raises(CorruptStore, match=f"at physical offset {place(golden, -1)}, in a store that was stopped"):
        DurableEnd(golden.root).find()


def test_what_the_checkpoint_calls_flushed_is_missing_under_a_broker(
    golden: GoldenStore, caplog: pytest.LogCaptureFixture
) -> None:
    (golden.root / "abort").touch()
    flushed = decode_checkpoint((golden.root / "checkpoint").read_bytes()).physic_msg_timestamp
    first = next(number for number, entry in enumerate(golden.log()) if entry["storeTimestamp"] >= flushed)
    for number in range(first, len(golden.log())):
        overwrite(golden, place(golden, number) + 4, b"x")
    at = place(golden, first)
    with pytest.raises(CorruptStore, match=f"at physical offset {at}, where the checkpoint says that records stored"):
        DurableEnd(golden.root).find()
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        skipping = DurableEnd(golden.root, skip_corrupt=True)
        assert [skipping.find(), skipping.find()] == [at, at]
    assert [f"at physical offset {at}" in one.getMessage() for one in caplog.records] == [True]


def test_skipped_bytes_are_counted(golden: GoldenStore, caplog: pytest.LogCaptureFixture) -> None:
    overwrite(golden, place(golden, 10) + 4, b"x")
    size = golden.log()[10]["storeSize"]
    reader = RocketMQStoreDataSource(
        CaseInsensitiveDict({"path": str(golden.root), "corruptRecords": "skip"})
    ).reader(SCHEMA)
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    assert rows == len(golden.log()) - 1
    (said,) = [one.getMessage() for one in caplog.records]
    assert f"left out {size} bytes at physical offset {place(golden, 10)}" in said


def test_an_empty_file_is_not_a_crash(golden: GoldenStore) -> None:
    for path in (golden.root / "commitlog").iterdir():
        path.write_bytes(b"")
    options = CaseInsensitiveDict({"path": str(golden.root), "splitSize": "4096"})
    reader = RocketMQStoreDataSource(options).reader(SCHEMA)
    with pytest.raises(CorruptStore, match="a file is missing or truncated"):
        for part in reader.partitions():
            list(reader.read(part))
    assert packed([], 4096) == []
