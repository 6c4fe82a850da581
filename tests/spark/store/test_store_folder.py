"""A log's own files prove what it should hold: what lacks is found wherever it lies, and costs no other record."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bolide.layout.checkpoint import CHECKPOINT_SIZE, Checkpoint
from bolide.spark.errors import OptionError
from bolide.spark.store.log_scan import BadRange, FoundRecords, scan
from bolide.spark.store.store_folder import RecordedEnd, last_unit, log_end, queue_offsets
from bolide.spark.store.store_plan import plan_stretches, store_root, with_topics
from tests.golden.stores import GoldenStore, golden_store

SPLITS = [1 << 30, 4096]


@pytest.fixture
def copy(tmp_path: Path) -> GoldenStore:
    """A store that was stopped cleanly, to be damaged."""
    golden = golden_store("5.5.0-clean")
    shutil.copytree(golden.root, tmp_path / "store")
    return GoldenStore(golden.name, tmp_path / "store", golden.manifest, golden.shape)


def read(root: Path, split: int, *topics: str) -> tuple[list[int], list[BadRange]]:
    parts = plan_stretches(root, split)
    steps = [step for part in (with_topics(root, parts, topics) if topics else parts) for step in scan(part)]
    starts = [step.base + at for step in steps if isinstance(step, FoundRecords) for at in step.starts.tolist()]
    return starts, [step for step in steps if isinstance(step, BadRange)]


def log_file(copy: GoldenStore, at: int) -> tuple[Path, int]:
    """The file that holds this byte of the log, and where in it."""
    start = at // copy.shape.commit_log_segment_size * copy.shape.commit_log_segment_size
    return copy.root / "commitlog" / f"{start:020d}", at - start


def put(copy: GoldenStore, at: int, data: bytes) -> None:
    path, begin = log_file(copy, at)
    old = path.read_bytes()
    path.write_bytes(old[:begin] + data + old[begin + len(data) :])


def offsets(copy: GoldenStore) -> list[int]:
    return [entry["physicalOffset"] for entry in copy.log()]


@pytest.mark.parametrize("split", SPLITS)
def test_a_file_that_is_gone_is_a_hole(copy: GoldenStore, split: int) -> None:
    size = copy.shape.commit_log_segment_size
    (copy.root / "commitlog" / f"{size:020d}").unlink()
    starts, (bad,) = read(copy.root, split)
    assert (bad.path, bad.physical_offset, bad.size) == (str(copy.root / "commitlog" / f"{0:020d}"), size, size)
    assert (bad.torn, "a file is missing or truncated" in bad.reason) == (False, True)
    assert starts == [at for at in offsets(copy) if not size <= at < 2 * size]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("behind", [0, 5])
def test_a_file_cut_between_two_records_is_a_hole(copy: GoldenStore, split: int, behind: int) -> None:
    size, cut = copy.shape.commit_log_segment_size, offsets(copy)[100] + behind
    path, _ = log_file(copy, 0)
    path.write_bytes(path.read_bytes()[:cut])
    starts, bad = read(copy.root, split)
    assert [(one.physical_offset, one.size, one.torn) for one in bad[-1:]] == [(cut, size - cut, False)]
    assert sum(one.size for one in bad) == size - cut + behind
    assert starts == [at for at in offsets(copy) if at < cut - behind or at >= size]


def test_a_file_cut_to_nothing_and_one_too_long_are_found(copy: GoldenStore) -> None:
    size = copy.shape.commit_log_segment_size
    (copy.root / "commitlog" / f"{size:020d}").write_bytes(b"")
    first, _ = log_file(copy, 0)
    first.write_bytes(first.read_bytes() + b"more")
    starts, bad = read(copy.root, 1 << 30)
    assert [(one.physical_offset, one.size) for one in bad] == [(size, 4), (size, size)]
    assert len(starts) == sum(not size <= at < 2 * size for at in offsets(copy))


def test_a_newest_file_that_is_gone_is_missed_by_queues_and_checkpoint(copy: GoldenStore) -> None:
    size = copy.shape.commit_log_segment_size
    (copy.root / "commitlog" / f"{2 * size:020d}").unlink()
    named = copy.log()[-1]["physicalOffset"] + copy.log()[-1]["storeSize"]
    assert log_end(copy.root) == RecordedEnd(named, True)
    _, (bad,) = read(copy.root, 1 << 30)
    assert (bad.physical_offset, bad.size, bad.torn) == (2 * size, named - 2 * size, False)
    shutil.rmtree(copy.root / "consumequeue")
    _, (bad,) = read(copy.root, 1 << 30)
    assert 0 < bad.size < named - 2 * size


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("kind", ["noise", "zeros"])
@pytest.mark.parametrize("stopped", [True, False])
def test_a_record_that_a_queue_names_is_no_torn_end(copy: GoldenStore, split: int, kind: str, stopped: bool) -> None:
    begin = offsets(copy)[-40]
    end = copy.log()[-1]["physicalOffset"] + copy.log()[-1]["storeSize"]
    put(copy, begin, b"\xa5" * (end - begin) if kind == "noise" else bytes(end - begin))
    if not stopped:
        (copy.root / "abort").touch()
    starts, (bad,) = read(copy.root, split)
    assert starts == offsets(copy)[:-40]
    assert (bad.physical_offset, bad.torn) == (begin, False)
    assert kind == "noise" or bad.size == end - begin
    assert "name records up to" in bad.reason


@pytest.mark.parametrize("stopped", [True, False])
def test_an_end_is_torn_where_a_broker_was_killed_only(copy: GoldenStore, stopped: bool) -> None:
    end = copy.log()[-1]["physicalOffset"] + copy.log()[-1]["storeSize"]
    put(copy, end, b"\x00\x00\x01\x00\xda\xa3\x20\xa7 a record that was not written to its end")
    if not stopped:
        (copy.root / "abort").touch()
    starts, (bad,) = read(copy.root, 1 << 30)
    assert starts == offsets(copy)
    assert (bad.physical_offset, bad.torn) == (end, not stopped)


def test_a_filler_that_ends_before_its_file_hides_nothing(copy: GoldenStore) -> None:
    lost = copy.log()[100]
    put(copy, lost["physicalOffset"], lost["storeSize"].to_bytes(4, "big") + bytes.fromhex("cbd43194"))
    starts, (bad,) = read(copy.root, 1 << 30)
    assert (bad.physical_offset, bad.size) == (lost["physicalOffset"], lost["storeSize"])
    assert len(starts) == len(offsets(copy)) - 1


def test_a_spoilt_queue_does_not_say_where_the_log_ends(copy: GoldenStore) -> None:
    named = log_end(copy.root).named
    queue = copy.root / "consumequeue" / "golden_one" / "0"
    for content in (b"x" * 2000, b"\x7f" * 2000, b"\xff" * 2000, bytes(2000), b"\1"):
        (queue / f"{0:020d}").write_bytes(content)
        assert last_unit(queue) == (-1, 0)
        assert log_end(copy.root).named == named
    shutil.rmtree(copy.root / "consumequeue")
    for content, end in ((b"", 0), (Checkpoint(confirm_physical_offset=7).encode(), 7), (bytes(CHECKPOINT_SIZE), 0)):
        (copy.root / "checkpoint").write_bytes(content)
        assert log_end(copy.root).named == end


def first_file(folder: Path) -> Path:
    return sorted(folder.iterdir())[0]


def zeroed(queue: Path) -> None:
    for path in queue.iterdir():
        path.write_bytes(bytes(path.stat().st_size))


def hole(queue: Path) -> None:
    data = first_file(queue).read_bytes()
    first_file(queue).write_bytes(data[:40] + bytes(20) + data[60:])


def backwards(queue: Path) -> None:
    data = first_file(queue).read_bytes()
    first_file(queue).write_bytes(data[20:40] + data[:20] + data[40:])


def cut_short(queue: Path) -> None:
    first_file(queue).write_bytes(first_file(queue).read_bytes()[:70])


def file_gone(queue: Path) -> None:
    first_file(queue).unlink()


def noted_more(queue: Path) -> None:
    (queue.parents[2] / "derived.json").write_text('{"queues": {"golden_retry": {"0": [0, 1000]}}, "index": []}')


def noted_another(queue: Path) -> None:
    (queue.parents[2] / "derived.json").write_text('{"queues": {"golden_retry": {"7": [0, 1]}}, "index": []}')


def test_a_queue_with_a_hole_leaves_nothing_out(copy: GoldenStore, tmp_path: Path) -> None:
    wanted = [entry["physicalOffset"] for entry in copy.log() if entry["topic"] == "golden_retry"]
    whole = plan_stretches(copy.root, 4096)
    assert len(with_topics(copy.root, whole, ("golden_retry",))) < len(whole) // 2
    for number, spoil in enumerate((zeroed, hole, backwards, cut_short, file_gone, noted_more, noted_another)):
        root = tmp_path / str(number)
        shutil.copytree(copy.root, root)
        spoil(root / "consumequeue" / "golden_retry" / "0")
        parts = plan_stretches(root, 4096)
        assert with_topics(root, parts, ("golden_retry",)) == parts, spoil.__name__
        assert set(wanted) <= set(read(root, 4096, "golden_retry")[0])


def test_a_queue_without_a_hole_says_where_its_records_are(copy: GoldenStore) -> None:
    queue = queue_offsets(copy.root / "consumequeue" / "golden_retry" / "0")
    assert queue is not None
    assert queue.offsets.tolist() == [
        entry["physicalOffset"] for entry in copy.log() if entry["topic"] == "golden_retry"
    ]
    assert queue.end == len(queue.offsets)


def test_a_hole_that_reaches_into_a_stretch_shows_though_the_one_before_is_left_out(copy: GoldenStore) -> None:
    split = 4096
    log = copy.log()
    # A record of the topic that begins behind a cut, and others before it on both sides of that cut.
    chosen = next(
        at
        for at in range(20, len(log))
        if log[at]["topic"] == "golden_one"
        and log[at]["physicalOffset"] // split > log[at - 1]["physicalOffset"] // split
        and log[at]["physicalOffset"] // (1 << 20) == log[at - 1]["physicalOffset"] // (1 << 20)
        and log[at - 1]["topic"] != "golden_one"
    )
    begin = log[chosen - 1]["physicalOffset"]
    end = log[chosen]["physicalOffset"] + log[chosen]["storeSize"]
    put(copy, begin, bytes(end - begin))
    starts, bad = read(copy.root, split, "golden_one")
    assert log[chosen]["physicalOffset"] not in starts
    assert any(one.physical_offset <= log[chosen]["physicalOffset"] < one.physical_offset + one.size for one in bad)


def test_a_gap_of_the_log_is_kept_whatever_is_asked_for(copy: GoldenStore) -> None:
    size = copy.shape.commit_log_segment_size
    (copy.root / "commitlog" / f"{size:020d}").unlink()
    _, bad = read(copy.root, 4096, "golden_retry")
    assert [one.physical_offset for one in bad] == [size]


def test_store_of_a_newer_format_is_refused(copy: GoldenStore) -> None:
    assert store_root(str(copy.root)) == copy.root
    (copy.root / "store-format").write_bytes(b'{"format": 99, "since": "9.0.0"}')
    for path in (copy.root, copy.root / "commitlog"):
        with pytest.raises(OptionError, match="has store format 99"):
            store_root(str(path))
