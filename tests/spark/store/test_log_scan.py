"""Every record of a log has one owner, however the log is split; so has every other byte."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from bolide.layout.record import check_record
from bolide.spark.store.log_scan import FoundRecords, Stretch, first_store_timestamp, scan
from bolide.spark.store.store_plan import plan_stretches, with_topics
from tests.golden.stores import GOLDEN_NAMES, golden_store

Read = tuple[list[int], list[tuple[int, int, bool]]]


@pytest.fixture(params=["5.5.0-clean", "4.9.7-killed"])
def segment(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the last CommitLog file of a golden store, which ends in zeros."""
    files = sorted((golden_store(request.param).root / "commitlog").iterdir())
    source = [path for path in files if first_store_timestamp(str(path), int(path.name)) >= 0][-1]
    path = tmp_path / source.name
    path.write_bytes(source.read_bytes())
    return path


def read(path: Path, cuts: list[int], last: bool = True, check_crc: bool = False, chunk: int = 1 << 16) -> Read:
    size = path.stat().st_size
    starts: list[int] = []
    bad = []
    for begin, end in itertools.pairwise([0, *cuts, size]):
        part = Stretch(str(path), int(path.name), size, begin, end, last)
        for step in scan(part, check_crc, chunk):
            if isinstance(step, FoundRecords):
                starts += [step.base + at for at in step.starts.tolist()]
            else:
                bad.append((step.physical_offset - int(path.name), step.size, step.torn))
    return starts, bad


def spans(path: Path) -> list[tuple[int, int]]:
    data = path.read_bytes()
    found = []
    at = 0
    while (checked := check_record(data, at, len(data), True)).status == 0:
        found.append((at, int(checked.size)))
        at += int(checked.size)
    return found


CUTS = [[], [1], [300_000, 700_001], list(range(5_000, 1 << 20, 40_007)), [1 << 19, (1 << 19) + 1, (1 << 19) + 9]]


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_whole_log_has_no_bad_byte(name: str) -> None:
    golden = golden_store(name)
    starts = []
    for part in plan_stretches(golden.root, 150_000):
        for step in scan(part, check_crc=True):
            assert isinstance(step, FoundRecords)
            starts += [step.base + at for at in step.starts.tolist()]
    assert starts == [entry["physicalOffset"] for entry in golden.log()]


@pytest.mark.parametrize("cuts", CUTS, ids=len)
@pytest.mark.parametrize("chunk", [1 << 12, 1 << 23])
def test_a_hole_is_reported_once_by_whoever_is_before_it(segment: Path, cuts: list[int], chunk: int) -> None:
    records = spans(segment)
    lost = records[10:13]
    data = bytearray(segment.read_bytes())
    begin, end = lost[0][0], lost[-1][0] + lost[-1][1]
    data[begin : begin + 30] = bytes(30)
    data[lost[1][0] + 4] ^= 1
    data[lost[2][0] + 30] ^= 1
    segment.write_bytes(data)
    start = int(segment.name)
    kept = [start + at for at, _ in records if at not in {at for at, _ in lost}]
    assert read(segment, cuts, chunk=chunk) == (kept, [(begin, end - begin, False)])


@pytest.mark.parametrize("more", [1 << 24, 8, -8], ids=["beyond the file", "longer", "shorter"])
@pytest.mark.parametrize("early", [0, 30])
@pytest.mark.parametrize("chunk", [1 << 12, 1 << 23])
def test_a_wrong_size_at_a_cut_is_reported_by_whoever_is_before_it(
    segment: Path, more: int, early: int, chunk: int
) -> None:
    records = spans(segment)
    at, size = records[10]
    data = bytearray(segment.read_bytes())
    data[at : at + 4] = (size + more).to_bytes(4, "big")
    segment.write_bytes(data)
    base = int(segment.name)
    starts, bad = read(segment, [at - early], chunk=chunk)
    assert starts == [base + begin for begin, _ in records if begin != at]
    assert bad == [(at, size, False)]


@pytest.mark.parametrize("cuts", CUTS, ids=len)
def test_the_end_of_a_log_may_be_torn_and_the_middle_may_not(segment: Path, cuts: list[int]) -> None:
    records = spans(segment)
    at, _ = records[-1]
    data = bytearray(segment.read_bytes())
    data[at + 90 :] = bytes(len(data) - at - 90)
    segment.write_bytes(data)
    start = int(segment.name)
    kept = [start + first for first, _ in records[:-1]]
    assert read(segment, cuts) == (kept, [(at, len(data) - at, True)])
    assert read(segment, cuts, last=False) == (kept, [(at, len(data) - at, False)])


def test_a_body_that_changed_is_found_by_its_crc_only(segment: Path) -> None:
    records = spans(segment)
    at, size = next((at, size) for at, size in records[5:] if size > 200)
    data = bytearray(segment.read_bytes())
    data[at + 88] ^= 1
    segment.write_bytes(data)
    assert len(read(segment, [])[0]) == len(records)
    starts, bad = read(segment, [], check_crc=True)
    assert bad == [(at, size, False)]
    assert len(starts) == len(records) - 1


def test_old_records_behind_the_filler_are_not_read(segment: Path) -> None:
    records = spans(segment)
    blank, _ = records[-3]
    data = bytearray(segment.read_bytes())
    data[blank : blank + 8] = (len(data) - blank).to_bytes(4, "big") + bytes.fromhex("cbd43194")
    segment.write_bytes(data)
    kept = [int(segment.name) + at for at, _ in records[:-3]]
    assert read(segment, [], last=False) == (kept, [])
    assert read(segment, [], chunk=1 << 12) == (kept, [])


def test_stretches_are_left_out_by_time_and_by_topic() -> None:
    golden = golden_store("5.5.0-clean")
    files = [(str(path), int(path.name)) for path in sorted((golden.root / "commitlog").iterdir())]
    times = [first_store_timestamp(*file) for file in files]
    firsts = [
        next(e["storeTimestamp"] for e in golden.log() if e["physicalOffset"] == start)
        for (_, start), time in zip(files, times, strict=True)
        if time >= 0
    ]
    assert [time for time in times if time >= 0] == firsts
    parts = plan_stretches(golden.root, 1 << 20, firsts[1] + 1)
    assert [part.start for part in parts] == [start for _, start in files[1:]]
    assert [part.start for part in plan_stretches(golden.root, 1 << 20, 0, firsts[1])] == [0]
    fine = plan_stretches(golden.root, 1 << 16)
    assert len(fine) == len(files) * 16
    some = with_topics(golden.root, fine, ("golden_one",))
    begins = {entry["physicalOffset"] for entry in golden.log() if entry["topic"] == "golden_one"}
    assert all(any(p.start + p.begin <= at < p.start + p.end for p in some) for at in begins)
    assert len(some) < len(fine) // 2
    assert with_topics(golden.root, fine, ("never_heard_of",)) == fine
