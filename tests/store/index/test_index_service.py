"""The index: Java's bytes, rolling over, restarts, queries over files and memory, hostile chains."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.dispatch.row import Dispatch
from bolide.layout.hashes import index_hash, java_hash
from bolide.layout.shape import StoreShape
from bolide.store.disk.segments import HandleCache
from bolide.store.index.index_service import IndexService
from bolide.store.index.key_hash import continue_hash, key_hash
from tests.store.parts import SHAPE, OwnFiles

VECTORS = json.loads((Path(__file__).parents[2] / "data/protocol/vectors.json").read_text("utf-8"))
NOW = 1_763_700_000_123
EVER = 1 << 60


def open_index(root: Path, shape: StoreShape = SHAPE) -> IndexService:
    files = OwnFiles()
    return IndexService(files, str(root), shape, HandleCache(files, 4))


def dispatch_of(topic: str, number: int, physical_offset: int, size: int, time: int, **texts: str) -> Dispatch:
    d = Dispatch(
        topic,
        queue_id=0,
        queue_offset=number,
        physical_offset=physical_offset,
        size=size,
        tags_code=0,
        store_timestamp=time,
        sys_flag=0,
    )
    for name, value in texts.items():
        setattr(d, name, value)
    return d


def record(number: int, key: str, time: int = 0, tags: str = "", topic: str = "T", uniq_key: str = "") -> Dispatch:
    return dispatch_of(topic, number, number * 100, 100, time or 1000 + number, uniq_key=uniq_key, keys=key, tags=tags)


def content(path: Path) -> tuple[list[int], list[int], list[tuple[int, ...]]]:
    data = path.read_bytes()
    header = list(struct.unpack(">qqqqii", data[:40]))
    slots = list(struct.unpack(f">{SHAPE.index_slots}i", data[40 : 40 + 4 * SHAPE.index_slots]))
    start = 40 + 4 * SHAPE.index_slots
    entries = [struct.unpack(">iqii", data[start + 20 * i : start + 20 * i + 20]) for i in range(1, header[5])]
    return header, slots, entries


@pytest.mark.parametrize(
    "case", VECTORS["index_files"], ids=lambda case: f"{case['version']}-{case['header']['indexCount']}"
)
def test_javas_files(tmp_path: Path, case: dict[str, Any]) -> None:
    version: Any = "4.9" if case["version"].startswith("4.9") else "5.5"
    rows = case["entries"]["rows"]
    times = VECTORS["search_by_time"][0 if len(rows) > 4 else 1]["store_times"]
    size = 125 if version == "5.5" else 124
    shape = replace(SHAPE, index_slots=1000, index_entries=5000, store_version=version)
    index = open_index(tmp_path, shape)
    for number, time in enumerate(times):
        index.put(
            dispatch_of("T", number, number * size, size, time, uniq_key=f"U{number}", keys=f"k{number} kk", tags="tg"),
            NOW,
        )
    index.close()
    (path,) = (tmp_path / "index").iterdir()
    data = path.read_bytes()
    header = dict(
        zip(
            ("beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset", "usedSlots", "indexCount"),
            struct.unpack(">qqqqii", data[:40]),
            strict=True,
        )
    )
    assert header == case["header"]
    start = 40 + 4 * 1000 + 20
    assert [list(row) for row in struct.iter_unpack(">iqii", data[start : start + 20 * len(rows)])] == rows
    assert not any(data[start + 20 * len(rows) :])
    for row in rows:
        assert struct.unpack(">i", data[40 + row[0] % 1000 * 4 :][:4])[0] > 0


@pytest.mark.parametrize(
    "case", [case for case in VECTORS["index_keys"] if "topic" in case], ids=lambda case: case["text"]
)
def test_javas_key_hashes(case: dict[str, object]) -> None:
    topic = continue_hash(0, f"{case['topic']}#")
    key = str(case["key"]) if "key" in case else f"T#{case['tag']}"
    assert key_hash(continue_hash(topic, key)) == case["hash"]


def test_the_hash_that_has_no_absolute_value() -> None:
    assert key_hash(continue_hash(0, "polygenelubricants")) == 0


@given(st.text(), st.text())
def test_a_continued_hash_is_the_hash_of_the_whole(prefix: str, text: str) -> None:
    hashed = continue_hash(continue_hash(0, prefix), text)
    assert hashed == java_hash(prefix + text) & 0xFFFFFFFF
    assert key_hash(hashed) == index_hash(prefix + text)


def test_the_file_is_sparse_and_named_by_local_time(tmp_path: Path) -> None:
    index = open_index(tmp_path, replace(SHAPE, index_slots=5_000_000, index_entries=20_000_000))
    index.put(record(0, "k"), NOW)
    index.close()
    (path,) = (tmp_path / "index").iterdir()
    assert path.name == index.files.local_time(NOW)
    assert path.stat().st_size == 420_000_040
    assert path.stat().st_blocks * 512 < 3_000_000


def test_entries_are_found_before_and_after_they_are_written(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(5):
        index.put(record(number, "same other" if number % 2 else "same", uniq_key=f"u{number}"), NOW)
        assert index.query("T", "same", 10, 0, EVER) == [at * 100 for at in range(number + 1)]
    index.flush()
    assert index.query("T", "other", 10, 0, EVER) == [100, 300]
    assert index.query("T", "u4", 10, 0, EVER) == [400]
    assert index.query("T", "u5", 10, 0, EVER) == []
    assert index.query("U", "same", 10, 0, EVER) == []
    assert index.query("T", "same", 2, 0, EVER) == [300, 400], "the newest"
    assert (index.last_update_timestamp, index.last_update_physical_offset) == (1004, 400)


def test_a_query_gives_64_and_no_more(tmp_path: Path) -> None:
    index = open_index(tmp_path, replace(SHAPE, index_entries=500))
    for number in range(70):
        index.put(record(number, "same", uniq_key=f"u{number}"), NOW)
    assert index.query("T", "same", 100, 0, EVER) == [at * 100 for at in range(6, 70)]


def test_tags_are_keys_of_their_own_kind(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    index.put(record(1, "", tags="x || y"), NOW)
    assert index.query("T", "x || y", 10, 0, EVER, "T") == [100]
    assert index.query("T", "x || y", 10, 0, EVER) == []
    older = open_index(tmp_path / "4", replace(SHAPE, store_version="4.9"))
    older.put(record(1, "", tags="x"), NOW)
    assert older.query("T", "x", 10, 0, EVER, "T") == []


def fill(index: IndexService, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        index.put(record(number, f"k{number} all", time=1_000_000 + number * 1000), NOW)


def test_full_files_are_followed_by_new_ones(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    fill(index, 30)
    index.flush()
    names = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert [int(name) for name in names] == [int(names[0]) + step for step in range(4)], (
        "same millisecond, yet in order"
    )
    first, _, entries = content(tmp_path / "index" / names[0])
    assert (first[5], len(entries)) == (20, 19)
    second, _, entries = content(tmp_path / "index" / names[1])
    assert second[:1] == [1_009_000]
    assert second[2] == 900
    assert entries[0][2] == 0
    assert index.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(30)]
    assert index.query("T", "k3", 64, 0, EVER) == [300]
    assert index.index_msg_timestamp == content(tmp_path / "index" / names[2])[0][1]
    assert index.query("T", "all", 64, 1_005_000, 1_008_000) == [500, 600, 700, 800]
    assert index.query("T", "all", 3, 0, EVER) == [2700, 2800, 2900]
    index.close()
    again = open_index(tmp_path)
    assert again.load(False, 0) == []
    assert again.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(30)]
    fill(again, 5, 30)
    assert again.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(35)]


def test_the_range_of_a_query_is_exact_by_the_store_times_of_records(tmp_path: Path) -> None:
    """The index contains whole seconds since the first time of its file."""
    index = open_index(tmp_path, replace(SHAPE, index_entries=500))
    times = {number * 100: 1_000_137 + number * 137 for number in range(40)}
    for number, time in enumerate(times.values()):
        index.put(record(number, "all", time=time), NOW)

    def found(begin: int, end: int, most: int = 64) -> list[int]:
        return index.query("T", "all", most, begin, end, stored=times.__getitem__)

    for begin in range(1_000_100, 1_006_000, 69):
        for end in range(begin, 1_006_000, 411):
            assert found(begin, end) == [offset for offset, time in times.items() if begin <= time <= end]
    assert found(0, times[3000], 2) == [2900, 3000], "the newest of those in the range"
    assert index.query("T", "all", 64, 0, EVER, stored=None) == list(times), "without reading a record"


def test_a_query_reads_a_limited_number_of_records(tmp_path: Path) -> None:
    reads: list[int] = []

    def stored(offset: int) -> int:
        reads.append(offset)
        return 0

    index = open_index(tmp_path, replace(SHAPE, index_slots=10, index_entries=6_000))
    for number in range(5_000):
        index.put(record(number, "all", time=1_000_500), NOW)
    index.put(record(5_000, "last", time=1_000_900), NOW)
    assert index.query("T", "all", 64, 1_000_600, 1_000_700, stored=stored) == []
    assert len(reads) == 4_081  # 2**20 entries, each of these as 257


def test_records_older_than_the_newest_are_skipped(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    fill(index, 3)
    index.put(record(1, "late"), NOW)
    assert index.query("T", "late", 10, 0, EVER) == []
    assert index.skipped == 1
    index.put(record(2, "again"), NOW)
    assert index.query("T", "again", 10, 0, EVER) == [200], "an equal offset is taken, as in Java"


def test_index_can_be_switched_off(tmp_path: Path) -> None:
    index = open_index(tmp_path, replace(SHAPE, index_enabled=False))
    fill(index, 3)
    index.close()
    assert not (tmp_path / "index").exists()


def test_files_below_the_log_are_deleted_but_the_last(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    fill(index, 30)
    assert len(index.delete_before(1000)) == 1
    assert len(index.delete_before(1 << 40)) == 2
    assert len(list((tmp_path / "index").iterdir())) == 1
    assert index.query("T", "all", 64, 0, EVER)[-1] == 2900


def test_files_of_another_shape_are_thrown_away(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    fill(index, 3)
    index.close()
    again = open_index(tmp_path, replace(SHAPE, index_entries=50))
    assert len(again.load(False, 0)) == 1
    assert list((tmp_path / "index").iterdir()) == []


@pytest.mark.parametrize("previous", [1, 2, 3, 4, 5, 1000, -1, 0x7FFFFFFF])
def test_a_hostile_chain_ends(tmp_path: Path, previous: int) -> None:
    index = open_index(tmp_path)
    for number in range(4):
        index.put(record(number, "same"), NOW)
    index.close()
    (path,) = (tmp_path / "index").iterdir()
    data = bytearray(path.read_bytes())
    start = 40 + 4 * SHAPE.index_slots
    for entry in range(1, 5):
        struct.pack_into(">i", data, start + 20 * entry + 16, previous)
    path.write_bytes(data)
    again = open_index(tmp_path)
    again.load(False, 0)
    found = again.query("T", "same", 64, 0, EVER)
    assert found == sorted(found)
    assert len(found) <= 4


@pytest.mark.parametrize("header", [(0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, -7), (1, EVER, 0, 1 << 45, 9, 0x7FFFFFFF)])
def test_a_hostile_header_is_survived(tmp_path: Path, header: tuple[int, ...]) -> None:
    index = open_index(tmp_path)
    fill(index, 5)
    index.close()
    (path,) = (tmp_path / "index").iterdir()
    data = bytearray(path.read_bytes())
    data[:40] = struct.pack(">qqqqii", *header)
    data[40 : 40 + 4 * SHAPE.index_slots] = b"\x7f" * (4 * SHAPE.index_slots)
    path.write_bytes(data)
    again = open_index(tmp_path)
    again.load(False, 0)
    again.query("T", "all", 64, 0, EVER)
    again.put(record(1 << 40, "new"), NOW)
    assert again.query("T", "new", 64, 0, EVER) == [100 << 40]


def killed(index: IndexService, root: Path) -> IndexService:
    """What a start finds after the process was killed: no slots, maybe not even a fresh header."""
    index.handles.close()
    return open_index(root)


@pytest.mark.parametrize("flushed_at", [0, 3, 10, 25, 40])
def test_after_a_kill_the_index_is_made_good_from_its_entries(tmp_path: Path, flushed_at: int) -> None:
    index = open_index(tmp_path)
    fill(index, flushed_at)
    index.flush()
    fill(index, 40 - flushed_at, flushed_at)
    again = killed(index, tmp_path)
    again.load(True, 0)
    known = again.last_update_physical_offset
    assert known <= 3900
    if flushed_at > 1:
        assert known >= (flushed_at - 2) * 100
    fill(again, 41)  # recovery reads more than it must
    assert again.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(41)]
    fresh = open_index(tmp_path / "fresh")
    fill(fresh, 41)
    again.close()
    fresh.close()
    mine = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    assert mine == [path.read_bytes() for path in sorted((tmp_path / "fresh" / "index").iterdir())]


@pytest.mark.parametrize("count", [9, 10, 11, 19, 20, 29, 30])
def test_a_record_that_a_certain_file_holds_in_part_is_put_only_in_part_again(tmp_path: Path, count: int) -> None:
    index = open_index(tmp_path)
    fill(index, count)
    index.flush()
    again = killed(index, tmp_path)
    again.load(True, index.index_msg_timestamp)
    fill(again, 40)
    fresh = open_index(tmp_path / "fresh")
    fill(fresh, 40)
    again.close()
    fresh.close()
    mine = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    assert mine == [path.read_bytes() for path in sorted((tmp_path / "fresh" / "index").iterdir())]


@pytest.mark.parametrize(("field", "value"), [(0, 12345), (16, 1), (16, 77), (4, 5), (12, -1)])
def test_an_entry_that_does_not_fit_ends_what_is_kept(tmp_path: Path, field: int, value: int) -> None:
    index = open_index(tmp_path)
    for number in range(15):
        index.put(record(number, f"k{number}"), NOW)
    index.flush()
    (path,) = (tmp_path / "index").iterdir()
    index.handles.close()
    data = bytearray(path.read_bytes())
    at = 40 + 4 * SHAPE.index_slots + 20 * 10 + field
    data[at : at + (8 if field == 4 else 4)] = struct.pack(">q" if field == 4 else ">i", value)
    path.write_bytes(data)
    again = open_index(tmp_path)
    again.load(True, 0)
    kept = [number for number in range(15) if again.query("T", f"k{number}", 9, 0, EVER)]
    assert kept in (list(range(8)), list(range(9))), "and the last record before it goes, too"


def test_a_torn_page_ends_what_is_kept(tmp_path: Path) -> None:
    index = open_index(tmp_path, replace(SHAPE, index_entries=500))
    fill(index, 100)
    index.flush()
    (path,) = (tmp_path / "index").iterdir()
    index.handles.close()
    data = bytearray(path.read_bytes())
    start = 40 + 4 * SHAPE.index_slots
    data[start + 20 * 81 : start + 20 * 121] = bytes(800)
    path.write_bytes(data)
    again = open_index(tmp_path, replace(SHAPE, index_entries=500))
    again.load(True, 0)
    assert again.query("T", "all", 64, 0, EVER)[-1] == 3800
    assert not any(path.read_bytes()[start + 20 * 79 :]), "old entries behind must not be taken for new ones later"


def test_full_files_that_the_checkpoint_knows_are_left_alone(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    fill(index, 30)
    index.flush()
    again = killed(index, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "index").iterdir())}
    again.load(True, index.index_msg_timestamp)
    assert [path for path in before if path.stat().st_mtime_ns != before[path]] == sorted(before)[-1:]
    assert again.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(29)]


@pytest.mark.parametrize(("end", "left"), [(0, 0), (1, 1), (150, 2), (900, 9), (1700, 17), (1701, 18), (1 << 40, 30)])
def test_truncate_drops_entries_of_lost_records(tmp_path: Path, end: int, left: int) -> None:
    index = open_index(tmp_path)
    fill(index, 30)
    index.truncate(end)
    assert index.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(left)]
    fill(index, 31 - left, left)
    assert index.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(31)]
    assert index.query("T", "k30", 64, 0, EVER) == [3000]


@pytest.mark.parametrize(("count", "end"), [(9, 3), (10, 3), (10, 9), (11, 9), (11, 10), (30, 9), (30, 18), (30, 28)])
def test_records_before_the_ones_that_were_dropped_are_not_put_twice(tmp_path: Path, count: int, end: int) -> None:
    index = open_index(tmp_path)
    fill(index, count)
    index.flush()
    again = killed(index, tmp_path)
    again.load(True, index.index_msg_timestamp)
    again.truncate((end - 1) * 100 + 1)
    fill(again, 40)  # recovery reads more than it must
    assert again.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(40)]


@pytest.mark.parametrize("count", [10, 20, 29])
def test_a_record_takes_the_place_of_one_that_was_put_in_part(tmp_path: Path, count: int) -> None:
    index = open_index(tmp_path)
    fill(index, count)
    index.flush()
    again = killed(index, tmp_path)
    again.load(True, index.index_msg_timestamp)
    last = int(again.last_update_physical_offset)
    again.truncate(last)
    fill(again, 40 - last // 100, last // 100)
    assert again.query("T", f"k{last // 100}", 64, 0, EVER) == [last // 100 * 100]
    assert again.query("T", "all", 64, 0, EVER) == [number * 100 for number in range(40)]
