"""Damage that a read of a store finds where no file is missing and no chain of records is broken twice."""

from __future__ import annotations

import logging
import re
import shutil
import struct
from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StringType, StructField, StructType

from bolide.layout.checkpoint import Checkpoint, decode_checkpoint
from bolide.spark.errors import CorruptStore, DataLost
from bolide.spark.spark_versions import ReadAllAvailable
from bolide.spark.store.durable import CONFIRM, DurableEnd
from bolide.spark.store.log_scan import BadRange, FoundRecords, Stretch, scan
from bolide.spark.store.store_options import store_options
from bolide.spark.store.store_plan import packed
from bolide.spark.store.store_source import RocketMQStoreDataSource
from bolide.spark.store.store_stream import StoreStreamReader, missing, stretches_between
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


def opened(golden: GoldenStore, **options: str) -> StoreStreamReader:
    """A reader as Spark 4.2 and newer use it."""
    checked = store_options({"path": str(golden.root), **options}, streaming=True)
    return StoreStreamReader(checked, tuple(SCHEMA.fieldNames()))


def streamed(golden: GoldenStore, **options: str) -> list[int]:
    reader = opened(golden, **options)
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


@pytest.mark.parametrize("whole", [False, True], ids=["torn", "torn, and a whole record after it"])
def test_remains_after_the_end_of_a_java_log_are_not_damage(golden: GoldenStore, whole: bool) -> None:
    last = golden.log()[-1]
    end = place(golden, -1) + last["storeSize"]
    path, begin = file_of(golden, place(golden, -1))
    record = bytearray(path.read_bytes()[begin : begin + last["storeSize"]])
    overwrite(golden, end, bytes(record[:60]))  # a store was killed, recovered, and stopped cleanly
    if whole:
        record[28:36] = (end + 200).to_bytes(8, "big")
        overwrite(golden, end + 200, bytes(record))
    assert DurableEnd(golden.root).find() == end
    assert streamed(golden) == [place(golden, number) for number in range(len(golden.log()))]
    nothing_names_it(golden)
    with pytest.raises(CorruptStore, match=f"at physical offset {end}, "):
        DurableEnd(golden.root).find()


def test_missing_flushed_records_fail_under_a_broker(golden: GoldenStore, caplog: pytest.LogCaptureFixture) -> None:
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
    reader = RocketMQStoreDataSource(CaseInsensitiveDict({"path": str(golden.root), "corruptRecords": "skip"})).reader(
        SCHEMA
    )
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


def test_a_gap_is_counted_even_where_an_other_file_is_too_long(
    golden: GoldenStore, caplog: pytest.LogCaptureFixture
) -> None:
    files = sorted((golden.root / "commitlog").iterdir())
    last = int(golden.log()[-1]["physicalOffset"]) // golden.shape.commit_log_segment_size
    assert last >= 2
    with files[0].open("ab") as file:
        file.write(bytes(golden.shape.commit_log_segment_size))  # the sum of the sizes is as it was
    reader = opened(golden)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    files[1].unlink()
    size = golden.shape.commit_log_segment_size
    with pytest.raises(CorruptStore, match="bytes that are not a record"):  # the longer file covers it
        for planned in reader.partitions(start, end):
            list(reader.read(planned))
    files[0].write_bytes(files[0].read_bytes()[:size])
    said = f"no longer has its log from physical offset {size} to {2 * size}"
    with pytest.raises(DataLost, match=said):
        reader.partitions(start, end)
    loose = opened(golden, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        assert loose.partitions(start, end)
    assert [said in one.getMessage() for one in caplog.records] == [True]


def test_the_missing_parts_between_stretches() -> None:
    def part(start: int, begin: int, end: int) -> Stretch:
        return Stretch("x", start, 100, begin, end, last=False)

    assert missing([], 5, 9) == [(5, 9)]
    assert missing([part(0, 5, 100), part(100, 0, 20)], 5, 120) == []
    assert missing([part(0, 5, 90), part(100, 0, 20)], 5, 130) == [(90, 100), (120, 130)]
    assert missing([part(0, 0, 130), part(100, 0, 100), part(300, 0, 10)], 0, 310) == [(200, 300)]


def test_a_piece_of_a_batch_looks_at_nothing_after_its_end(golden: GoldenStore) -> None:
    """The last record of a batch may cross into the next piece: what follows is only just being written."""
    entry = golden.log()[30]
    end = int(entry["physicalOffset"] + entry["storeSize"])
    path, _ = file_of(golden, end)
    path.write_bytes(path.read_bytes()[:end].ljust(golden.shape.commit_log_segment_size, b"\0"))
    split = end - int(entry["storeSize"]) // 2
    pieces = stretches_between(golden.root, 0, end, split)
    assert [(piece.begin, piece.end) for piece in pieces] == [(0, split), (split, end)]
    found = [step for piece in pieces for step in scan(piece)]
    assert [step for step in found if isinstance(step, BadRange)] == []
    assert sum(len(step.starts) for step in found if isinstance(step, FoundRecords)) == 31


@pytest.mark.parametrize("how", ["gone", "shifted", "later"])
def test_a_flushed_file_is_gone_under_a_broker(golden: GoldenStore, how: str) -> None:
    (golden.root / "abort").touch()
    flushed = decode_checkpoint((golden.root / "checkpoint").read_bytes()).physic_msg_timestamp
    last = max(int(entry["physicalOffset"]) for entry in golden.log() if entry["storeTimestamp"] <= flushed)
    path, _ = file_of(golden, last)
    for later in sorted((golden.root / "commitlog").iterdir()):
        if later.name >= path.name and how == "gone":
            later.unlink()
        elif later.name >= path.name:
            data = later.read_bytes()
            # In front of the file, or in front of the store time of its first record, which is far in the future then.
            later.write_bytes(b"x" + data[:-1] if how == "shifted" else data[:50] + b"x" * 10 + data[50:-10])
    with pytest.raises(CorruptStore, match="where the checkpoint says that records stored"):
        DurableEnd(golden.root).find()


def one_queue_names(golden: GoldenStore, number: int) -> None:
    """Of all that names records there is one queue left, whose last unit is of this record."""
    nothing_names_it(golden)
    folder = golden.root / "consumequeue" / "orders" / "0"
    folder.mkdir(parents=True)
    unit = struct.pack(">qiq", place(golden, number), golden.log()[number]["storeSize"], 0)
    (folder / f"{0:020d}").write_bytes(unit)


def files_of(golden: GoldenStore) -> list[tuple[int, Path]]:
    return [(int(path.name), path) for path in sorted((golden.root / "commitlog").iterdir())]


def ruin(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


def left_out(caplog: pytest.LogCaptureFixture) -> list[tuple[int, int]]:
    """The ranges that were left out, as begin and end."""
    said = [re.search(r"left out (\d+) bytes at physical offset (\d+)", one.getMessage()) for one in caplog.records]
    return [(int(found[2]), int(found[1]) + int(found[2])) for found in said if found]


def test_records_after_the_last_named_one_are_skipped_with_a_warning(
    golden: GoldenStore, caplog: pytest.LogCaptureFixture
) -> None:
    base, newest = files_of(golden)[-1]
    numbers = [number for number, entry in enumerate(golden.log()) if entry["physicalOffset"] >= base]
    ruin(newest)
    one_queue_names(golden, numbers[1])
    named = place(golden, numbers[2])
    with pytest.raises(CorruptStore, match=f"where queues or checkpoint name records up to {named}"):
        DurableEnd(golden.root).find()
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        skipping = DurableEnd(golden.root, skip_corrupt=True)
        assert [skipping.find(), skipping.find()] == [named, named]
    (_, first_end), (second, second_end) = left_out(caplog)
    assert (first_end, second, second_end) == (named, named, base + newest.stat().st_size)


@pytest.mark.parametrize("names", ["within it", "nothing"])
def test_files_after_a_ruined_one_are_read(golden: GoldenStore, caplog: pytest.LogCaptureFixture, names: str) -> None:
    files = files_of(golden)
    (begin, ruined), (end, _) = files[-2:]
    lost = [number for number, entry in enumerate(golden.log()) if begin <= entry["physicalOffset"] < end]
    ruin(ruined)
    one_queue_names(golden, lost[1])
    if names == "nothing":
        shutil.rmtree(golden.root / "consumequeue")
    # The first record of the file after it is spoilt, too: the file does not say by itself that it is part of the log.
    overwrite(golden, end + 4, b"x")
    with pytest.raises(CorruptStore, match="holds no whole record at physical offset"):
        DurableEnd(golden.root).find()
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        rows = streamed(golden, corruptRecords="skip")
    gone = {*lost, lost[-1] + 1}
    assert rows == [place(golden, number) for number in range(len(golden.log())) if number not in gone]
    ranges = left_out(caplog)
    assert [number for number in gone if not any(low <= place(golden, number) < high for low, high in ranges)] == []


def test_a_stream_that_skips_damage_passes_a_file_whose_first_record_is_spoilt(golden: GoldenStore) -> None:
    (golden.root / "abort").touch()
    last = golden.log()[-1]
    (golden.root / "checkpoint").write_bytes(Checkpoint(physic_msg_timestamp=last["storeTimestamp"]).encode())
    overwrite(golden, files_of(golden)[-1][0] + 4, b"x")
    with pytest.raises(CorruptStore, match="where the checkpoint says that records stored"):
        DurableEnd(golden.root).find()
    assert DurableEnd(golden.root, skip_corrupt=True).find() == last["physicalOffset"] + last["storeSize"]


def test_records_before_the_confirm_offset_are_missing(golden: GoldenStore) -> None:
    confirm = place(golden, 40)
    (golden.root / "checkpoint").write_bytes(Checkpoint(confirm_physical_offset=confirm).encode())
    (golden.root / "abort").touch()
    assert DurableEnd(golden.root, CONFIRM).find() == confirm
    path, _ = file_of(golden, confirm)
    data = path.read_bytes()
    begin = place(golden, 39) % len(data)
    path.write_bytes(data[:begin] + bytes(len(data) - begin))
    with pytest.raises(CorruptStore, match=f"where the checkpoint says that all before {confirm} is confirmed"):
        DurableEnd(golden.root, CONFIRM).find()
    files = files_of(golden)
    whole = Checkpoint(confirm_physical_offset=files[1][0])  # after the filler of the first file
    (golden.root / "checkpoint").write_bytes(whole.encode())
    for _, later in files[1:]:
        later.write_bytes(bytes(later.stat().st_size))
    restored = golden_store("5.5.0-clean").root / "commitlog" / files[0][1].name
    shutil.copyfile(restored, files[0][1])
    last = max(
        int(entry["physicalOffset"] + entry["storeSize"])
        for entry in golden.log()
        if entry["physicalOffset"] < files[1][0]
    )
    assert DurableEnd(golden.root, CONFIRM).find() == last


def test_a_stopped_store_lacks_the_record_that_its_checkpoint_calls_flushed(golden: GoldenStore) -> None:
    last = golden.log()[-1]
    overwrite(golden, place(golden, -1) + 4, b"x")
    one_queue_names(golden, -2)
    assert DurableEnd(golden.root).find() == place(golden, -1), "as after a recovery of Java"
    (golden.root / "checkpoint").write_bytes(Checkpoint(physic_msg_timestamp=last["storeTimestamp"]).encode())
    with pytest.raises(CorruptStore, match=f"records stored until {last['storeTimestamp']} ms are on disk"):
        DurableEnd(golden.root).find()


def test_the_last_confirmed_record_is_counted_where_its_file_is_cut(
    golden: GoldenStore, caplog: pytest.LogCaptureFixture
) -> None:
    last = golden.log()[-1]
    (golden.root / "abort").touch()
    made = Checkpoint(physic_msg_timestamp=last["storeTimestamp"], confirm_physical_offset=place(golden, -1))
    (golden.root / "checkpoint").write_bytes(made.encode())
    base, newest = files_of(golden)[-1]
    newest.write_bytes(newest.read_bytes()[:31])
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        assert DurableEnd(golden.root, skip_corrupt=True).find() <= base
    assert left_out(caplog)[-1][1] == last["physicalOffset"] + last["storeSize"]
