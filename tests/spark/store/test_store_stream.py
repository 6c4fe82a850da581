"""The stream of a store's log: every record once, whatever the batches, and a word when the log is gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bolide.spark.errors import DataLost, OptionError
from bolide.spark.spark_versions import ReadAllAvailable, ReadMaxBytes
from bolide.spark.store.store_options import EARLIEST, STORE_OPTIONS, store_options
from bolide.spark.store.store_schema import MESSAGES, TABLES
from bolide.spark.store.store_stream import StoreStreamReader
from tests.golden.stores import GoldenStore, golden_store


@pytest.fixture
def golden() -> GoldenStore:
    return golden_store("5.5.0-clean")


def reader(root: Path, **options: object) -> StoreStreamReader:
    given = {"path": str(root), "splitSize": "70000", **{name: str(value) for name, value in options.items()}}
    return StoreStreamReader(store_options(given, streaming=True), ("physical_offset", "topic"))


def rows(stream: StoreStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    found: list[int] = []
    for partition in stream.partitions(start, end):
        for batch in stream.read(partition):
            found += batch.column(0).to_pylist()
    return found


def offsets(golden: GoldenStore) -> list[int]:
    return [entry["physicalOffset"] for entry in golden.log()]


@pytest.mark.parametrize("most", [0, 1, 5_000, 333_333])
def test_batches_have_every_record_once(golden: GoldenStore, most: int) -> None:
    stream = reader(golden.root, maxBytesPerTrigger=most)
    limit = stream.getDefaultReadLimit()
    assert limit == (ReadMaxBytes(most) if most else ReadAllAvailable())
    start = stream.initialOffset()
    found: list[int] = []
    batches = 0
    while batches < 40 and (end := stream.latestOffset(start, limit)) != start:
        got = rows(stream, start, end)
        # A replay after a restart, when Spark may name another start for the first batch.
        again = {"offset": 77} if "from" in end else start
        assert rows(reader(golden.root), again, end) == got
        found += got
        start, batches = end, batches + 1
    expected = offsets(golden)
    assert found == expected[: len(found)]
    assert batches == 40 or found == expected
    assert batches >= (2 if most else 1)
    assert stream.reportLatestOffset() == {"offset": golden.log()[-1]["physicalOffset"] + golden.log()[-1]["storeSize"]}


def test_a_checkpoint_of_another_source_is_reported(golden: GoldenStore) -> None:
    kafka: dict[str, Any] = {"T": {"0": 5}}
    for ask in (
        lambda: reader(golden.root).latestOffset(kafka, ReadAllAvailable()),
        lambda: reader(golden.root).partitions(kafka, kafka),
    ):
        with pytest.raises(OptionError, match="the checkpoint contains offsets of another source"):
            ask()


def test_starting_offsets_decide_the_first_record(golden: GoldenStore) -> None:
    log = golden.log()
    end = log[-1]["physicalOffset"] + log[-1]["storeSize"]
    assert reader(golden.root, startingOffsets="latest").initialOffset()["offset"] == end
    some = reader(golden.root, startingOffsets=log[100]["physicalOffset"] + 1)
    assert some.initialOffset()["offset"] == log[101]["physicalOffset"]
    assert reader(golden.root, startingOffsets=end).initialOffset()["offset"] == end
    size = golden.shape.commit_log_segment_size
    later = next(entry for entry in log if entry["physicalOffset"] >= size)
    timed = reader(golden.root, startingTimestamp=later["storeTimestamp"] + 1)
    start = timed.initialOffset()
    assert start["offset"] % size == 0
    assert start["offset"] > 0
    found = rows(timed, start, timed.latestOffset(start, ReadAllAvailable()))
    assert found == [e["physicalOffset"] for e in log if e["storeTimestamp"] > later["storeTimestamp"]]


def test_a_deleted_file_fails_the_query_or_is_passed_over(golden: GoldenStore, tmp_path: Path) -> None:
    shutil.copytree(golden.root, tmp_path / "store")
    stream = reader(tmp_path / "store")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    planned = stream.partitions(start, end)
    (tmp_path / "store" / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(DataLost, match="no longer has its log from physical offset 0 to"):
        stream.partitions(start, end)
    with pytest.raises(DataLost, match="was deleted by the broker before the read"):
        list(stream.read(planned[0]))
    forgiving = reader(tmp_path / "store", failOnDataLoss="false")
    assert list(forgiving.read(planned[0])) == []
    size = golden.shape.commit_log_segment_size
    assert rows(forgiving, start, end) == [at for at in offsets(golden) if at >= size]


def test_a_bad_place_below_the_durable_end_is_no_torn_end(golden: GoldenStore, tmp_path: Path) -> None:
    shutil.copytree(golden.root, tmp_path / "store")
    stream = reader(tmp_path / "store", corruptRecords="skip")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    last = golden.log()[-1]
    size = golden.shape.commit_log_segment_size
    path = tmp_path / "store" / "commitlog" / f"{last['physicalOffset'] // size * size:020d}"
    data = bytearray(path.read_bytes())
    data[last["physicalOffset"] % size + 4] ^= 0xFF
    path.write_bytes(data)
    assert rows(stream, start, end) == offsets(golden)[:-1]
    with pytest.raises(Exception, match=f"at physical offset {last['physicalOffset']}"):
        rows(reader(tmp_path / "store"), start, end)


def test_options_are_declared_once_with_their_defaults() -> None:
    names = [one.name for one in STORE_OPTIONS]
    assert len(set(names)) == len(names)
    plain = store_options({"path": "x"})
    assert (plain.topics, plain.starting, plain.bad_records.mode) == ((), EARLIEST, "fail")
    for one in STORE_OPTIONS:
        if one.is_value and one.name != "deadLetterPath":
            assert store_options({"path": "x", one.name: one.default}) == plain, one.name
    assert store_options({"path": "x", "topic": "a,b"}).topics == ("a", "b")


def test_options_of_batch_and_stream_are_told_apart() -> None:
    assert set(TABLES) > {MESSAGES}
    with pytest.raises(
        OptionError, match="endingTimestamp is unknown to a stream of format rocketmq-store: it is for a batch read"
    ):
        store_options({"path": "x", "endingTimestamp": "5"}, streaming=True)
    with pytest.raises(OptionError, match="maxBytesPerTrigger is unknown to format rocketmq-store: it is for a stream"):
        store_options({"path": "x", "maxBytesPerTrigger": "5"}, streaming=False)
    with pytest.raises(OptionError, match="durable must be auto, confirm or flushed, not 'yes'"):
        store_options({"path": "x", "durable": "yes"})
    with pytest.raises(OptionError, match="untilNow must be true or false"):
        store_options({"path": "x", "untilNow": "soon"})
    with pytest.raises(OptionError, match="startingOffsets must be earliest, latest or a physical offset"):
        store_options({"path": "x", "startingOffsets": "soon"})
