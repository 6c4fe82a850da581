"""A store folder that is no longer the one a stream read: shorter, grown past the old place, or an older copy."""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.layout.record import check_record
from bolide.spark.errors import DataLost
from bolide.spark.spark_versions import ReadAllAvailable
from bolide.spark.store.last_record import ELSEWHERE, NO_RECORD, SHORTER, Before, changed, mark_before, record_before
from bolide.spark.store.store_options import store_options
from bolide.spark.store.store_plan import segment_files
from bolide.spark.store.store_stream import StoreStreamReader
from bolide.testing.broker import Broker
from tests.golden.stores import golden_store
from tests.spark.produce import send

ALL = ReadAllAvailable()


def fill(store: Path, first: int, count: int, width: int = 6) -> None:
    with Broker(store=str(store)) as broker:
        broker.create_topic("T", queues=1)
        send(broker.namesrv_addr, [Message("T", b"%0*d" % (width, n)) for n in range(first, first + count)])


def reader(store: Path, now: bool = False, **more: object) -> StoreStreamReader:
    given = {"path": str(store), "subscribe": "T", **{name: str(value) for name, value in more.items()}}
    stream = StoreStreamReader(store_options(given, streaming=True), ("body",))
    if now:
        stream.prepareForTriggerAvailableNow()
    return stream


def bodies(stream: StoreStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    parts = stream.partitions(stored(start), stored(end))
    return [int(body or b"") for part in parts for batch in stream.read(part) for body in batch.column(0).to_pylist()]


def stored(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as it comes back from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def read_all(store: Path) -> dict[str, Any]:
    """The checkpoint of a query that has read the store."""
    stream = reader(store)
    start = stream.initialOffset()
    end = stored(stream.latestOffset(start, ALL))
    assert bodies(stream, start, end) == list(range(40))
    assert stream.latestOffset(end, ALL) is end
    return end


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize(("count", "width", "seen"), [(10, 6, SHORTER), (90, 6, ELSEWHERE), (90, 11, ELSEWHERE)])
def test_a_store_that_was_replaced(
    tmp_path: Path, now: bool, count: int, width: int, seen: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    fill(store, 0, 40)
    end = read_all(store)
    shutil.rmtree(store)
    fill(store, 1000, count, width)
    said = f"store was read up to physical offset {end['offset']} and {seen}: the folder was replaced by another store"
    with pytest.raises(DataLost, match=said):
        reader(store, now).latestOffset(end, ALL)
    tolerant = reader(store, now, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        following = stored(tolerant.latestOffset(end, ALL))
    assert "failOnDataLoss is false: the read continues" in caplog.text
    assert bodies(tolerant, end, following) == list(range(1000, 1000 + count))
    assert tolerant.latestOffset(following, ALL) is following
    assert reader(store, now).latestOffset(following, ALL) is following
    fill(store, 2000, 5)
    after = reader(store, now)
    assert bodies(after, following, after.latestOffset(following, ALL)) == list(range(2000, 2005))


def test_a_store_that_is_replaced_under_a_running_query(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, 0, 40)
    strict, tolerant = reader(store), reader(store, failOnDataLoss="false")
    start = strict.initialOffset()
    end = stored(strict.latestOffset(start, ALL))
    assert stored(tolerant.latestOffset(start, ALL)) == end
    shutil.rmtree(store)
    fill(store, 1000, 10)
    with pytest.raises(DataLost, match=SHORTER):
        strict.latestOffset(end, ALL)
    following = tolerant.latestOffset(end, ALL)
    assert bodies(tolerant, end, following) == list(range(1000, 1010))


def test_an_older_copy_that_has_gone_its_own_way(tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    fill(store, 0, 20)
    shutil.copytree(store, copy)
    fill(store, 20, 20)
    end = read_all(store)
    shutil.rmtree(store)
    copy.rename(store)
    fill(store, 1000, 60)
    with pytest.raises(DataLost, match=f"{ELSEWHERE}: the folder was replaced"):
        reader(store).latestOffset(end, ALL)


def test_a_batch_that_was_planned_before_the_store_was_replaced(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, 0, 40)
    end = read_all(store)
    fill(store, 40, 10)
    planned = stored(reader(store).latestOffset(end, ALL))
    shutil.rmtree(store)
    fill(store, 1000, 90)
    with pytest.raises(DataLost, match=f"read up to physical offset {planned['offset']} and now has another record"):
        reader(store).partitions(end, planned)
    tolerant = reader(store, failOnDataLoss="false")
    assert bodies(tolerant, end, planned) == []
    following = tolerant.latestOffset(planned, ALL)
    assert bodies(tolerant, planned, following) == list(range(1000, 1090))


def test_a_checkpoint_of_an_earlier_version_goes_on_and_notices_a_shorter_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, 0, 40)
    end = read_all(store)
    assert len(end.pop("last")) == 3
    fill(store, 40, 3)
    again = reader(store)
    following = stored(again.latestOffset(end, ALL))
    assert bodies(again, end, following) == [40, 41, 42]
    assert "last" in following
    shutil.rmtree(store)
    fill(store, 1000, 10)
    with pytest.raises(DataLost, match=SHORTER):
        reader(store).latestOffset(end, ALL)
    beyond = reader(store, startingOffsets=10_000_000)
    start = stored(beyond.initialOffset())
    assert reader(store).latestOffset(start, ALL) is start, "a start of the user's that is not reached yet"


def test_the_record_before_every_place_of_a_log() -> None:
    golden = golden_store("5.5.0-clean")
    files = segment_files(golden.root / "commitlog")
    log = golden.log()
    end, found = 0, None
    for entry, following in zip(log, [*log[1:], None], strict=True):
        end = entry["physicalOffset"] + entry["storeSize"]
        found = record_before(files, end)
        assert found is not None
        assert found[:2] == (entry["physicalOffset"], entry["storeTimestamp"])
        assert changed(files, end, found) == ""
        assert changed(files, end, None) == ""
        assert changed(files, end, Before(*found[:2], found.body_crc ^ 1)) == ELSEWHERE
        if following is not None:  # a file's filler may lie in between
            assert record_before(files, following["physicalOffset"]) == found
    assert changed(files[1:], files[1][0], found) == "", "what was before has expired"
    assert changed(files, end + 10_000, None) == SHORTER
    odd = Before(log[5]["physicalOffset"] + 1, 0, 0)
    assert changed(files, end, odd) == ELSEWHERE
    assert changed(files, end, odd, read_again=True) == "", "who reads that place says what is wrong with it"
    assert changed(files, files[-1][0] + files[-1][2] + 1, None) == SHORTER


def test_a_file_that_is_too_long_does_not_reach_into_the_next(tmp_path: Path) -> None:
    source = max((golden_store("5.5.0-clean").root / "commitlog").iterdir())
    data, start = source.read_bytes(), int(source.name)
    first = check_record(data, 0, len(data), True)
    second = check_record(data, first.size, len(data), True)
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(data[: first.size] + b"x" * 40)
    other.write_bytes(data[first.size :])
    middle = start + int(first.size)
    files = [(start, one, int(first.size) + 40), (middle, other, len(data) - int(first.size))]
    known = record_before(files, middle + int(second.size))
    assert known is not None and known.physical_offset == middle
    assert changed(files, middle + int(second.size), known) == ""
    before = record_before(files, middle)
    assert before is not None and before.physical_offset == start and changed(files, middle, before) == ""


def test_bytes_that_were_left_out_tell_another_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 300 + bytes(700))
    files = [(1000, log, 1000)]
    known = mark_before(files, 1300)
    assert known == Before(1236, NO_RECORD, zlib.crc32(b"x" * 64))
    assert changed(files, 1300, known) == ""
    log.write_bytes(b"x" * 250 + b"y" * 200 + bytes(550))
    assert changed(files, 1300, known) == ELSEWHERE
    log.write_bytes(b"x" * 200 + bytes(800))
    assert changed(files, 1300, known) == SHORTER
    assert changed([(2000, log, 1000)], 1300, known) == ""  # that file has expired
    assert mark_before(files, 1900) is None  # nothing was ever written there


def test_the_bytes_of_a_mark_are_of_one_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 1000)
    assert mark_before([(1000, log, 1000)], 1010) == Before(1000, NO_RECORD, zlib.crc32(b"x" * 10))
