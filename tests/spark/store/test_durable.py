"""A log that is just being written is read up to what its checkpoint vouches for, and never further."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from bolide.layout.checkpoint import Checkpoint
from bolide.spark.errors import CorruptStore
from bolide.spark.store.durable import CONTROLLER_FILE, DurableEnd, next_start
from tests.golden.stores import GoldenStore, golden_store


class Writer:
    """A broker that writes a golden store's log again: files of full size that fill up, a checkpoint now and then."""

    def __init__(self, golden: GoldenStore, root: Path) -> None:
        self.root = root
        self.files = golden.commit_log()
        self.log = golden.log()
        self.size = golden.shape.commit_log_segment_size
        (root / "commitlog").mkdir(parents=True)
        (root / "abort").write_text("1")
        self.write(0)
        self.checkpoint()

    def write(self, end: int) -> None:
        """Let the log have its bytes up to a physical offset."""
        for start, data in self.files:
            if start == 0 or start < end:
                part = data[: max(0, end - start)]
                (self.root / "commitlog" / f"{start:020d}").write_bytes(part.ljust(self.size, b"\0"))

    def checkpoint(self, time: int = 0, confirm: int = 0) -> None:
        made = Checkpoint(physic_msg_timestamp=time, confirm_physical_offset=confirm)
        (self.root / "checkpoint").write_bytes(made.encode())

    def end_of(self, number: int) -> int:
        """The end of record `number`, or the next file if the log continues there."""
        entry = self.log[number]
        return int(entry["physicalOffset"] + entry["storeSize"])

    def before(self, number: int) -> set[int]:
        """Where the end may be when record `number` is the first that is not durable."""
        return {int(self.log[number]["physicalOffset"]), self.end_of(number - 1) if number else 0}


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(golden_store("5.5.0-clean"), tmp_path)


def damaged(tmp_path: Path) -> tuple[GoldenStore, int]:
    """A store that was stopped cleanly, whose last 40 records are gone, and where they began."""
    golden = golden_store("5.5.0-clean")
    shutil.copytree(golden.root, tmp_path / "store")
    begin = int(golden.log()[-40]["physicalOffset"])
    size = golden.shape.commit_log_segment_size
    path = tmp_path / "store" / "commitlog" / f"{begin // size * size:020d}"
    data = path.read_bytes()
    path.write_bytes(data[: begin % size] + b"\xa5" * 100_000 + data[begin % size + 100_000 :])
    return GoldenStore(golden.name, tmp_path / "store", golden.manifest, golden.shape), begin


def test_a_stopped_store_that_lacks_what_its_queues_name_has_no_end(tmp_path: Path) -> None:
    golden, begin = damaged(tmp_path)
    last = golden.log()[-1]
    with pytest.raises(
        CorruptStore, match=f"no whole record at physical offset {begin}, where queues or checkpoint name"
    ):
        DurableEnd(golden.root).find()
    skipping = DurableEnd(golden.root, skip_corrupt=True)
    assert [skipping.find(), skipping.find()] == [last["physicalOffset"] + last["storeSize"]] * 2
    (golden.root / "abort").touch()
    with pytest.raises(CorruptStore, match=f"at physical offset {begin}, where the checkpoint says"):
        DurableEnd(golden.root).find()
    before = Checkpoint(physic_msg_timestamp=golden.log()[-41]["storeTimestamp"])
    (golden.root / "checkpoint").write_bytes(before.encode())
    assert DurableEnd(golden.root).find() == begin  # a broker may just be writing there


def test_a_stopped_store_counts_whole(writer: Writer) -> None:
    writer.write(writer.end_of(-1))
    assert DurableEnd(writer.root).find() == 0
    (writer.root / "abort").unlink()
    assert DurableEnd(writer.root).find() == writer.end_of(-1)


@pytest.mark.parametrize("seed", range(8))
def test_the_flushed_time_is_never_passed_and_always_reached(writer: Writer, seed: int) -> None:
    rng = random.Random(seed)
    durable = DurableEnd(writer.root)
    times = [entry["storeTimestamp"] for entry in writer.log]
    flushed = written = 0
    while flushed < len(times) - 1:
        # The log runs ahead of the flush, and ends within a record.
        written = min(len(times) - 1, max(written, flushed + rng.randrange(1, 90)))
        last = written == len(times) - 1
        flushed = written if last else rng.randrange(flushed, max(written - 1, flushed) + 1)
        # What is torn was stored after the flush.
        torn = 0 if last or times[flushed] == times[written] else rng.randrange(1, 60)
        whole = written - 1 if torn else written
        writer.write(writer.end_of(written) - torn)
        writer.checkpoint(times[flushed])
        first_beyond = next((n for n, stored in enumerate(times[: whole + 1]) if stored > times[flushed]), whole + 1)
        expected = writer.before(first_beyond) if first_beyond < len(times) else {writer.end_of(-1)}
        assert durable.find() in expected
        assert DurableEnd(writer.root).find() in expected


def test_the_confirm_offset_rules_in_controller_mode_alone(writer: Writer) -> None:
    log = writer.log
    writer.write(writer.end_of(-1))
    writer.checkpoint(log[200]["storeTimestamp"], log[300]["physicalOffset"])
    later = max(300, next(n for n, entry in enumerate(log) if entry["storeTimestamp"] > log[200]["storeTimestamp"]))
    assert DurableEnd(writer.root).find() in writer.before(later)
    (writer.root / CONTROLLER_FILE).write_text("")
    writer.checkpoint(log[-1]["storeTimestamp"], log[300]["physicalOffset"])
    assert DurableEnd(writer.root).find() in writer.before(300)
    assert DurableEnd(writer.root, "confirm").find() in writer.before(300)
    assert DurableEnd(writer.root, "flushed").find() == writer.end_of(-1)


def test_deleted_files_move_the_end_on(writer: Writer) -> None:
    durable = DurableEnd(writer.root)
    assert durable.find() == 0
    writer.write(writer.end_of(-1))
    writer.checkpoint(writer.log[-1]["storeTimestamp"])
    (writer.root / "commitlog" / f"{0:020d}").unlink()
    assert durable.find() == writer.end_of(-1)


def test_the_millisecond_that_is_not_over_does_not_count(writer: Writer) -> None:
    writer.write(writer.end_of(10))
    path = writer.root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    now = int(time.time() * 1000) + 3_600_000
    first, second = (writer.log[n]["physicalOffset"] for n in (0, 1))
    data[first + 56 : first + 64] = (now - 1).to_bytes(8, "big")
    data[second + 56 : second + 64] = now.to_bytes(8, "big")
    path.write_bytes(data)
    writer.checkpoint(now)
    assert DurableEnd(writer.root).find() == second


def test_records_after_a_clock_that_was_set_back_are_no_loss(writer: Writer) -> None:
    writer.write(writer.end_of(10))
    path = writer.root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    flushed = writer.log[10]["storeTimestamp"]
    for number in range(11):
        at = writer.log[number]["physicalOffset"]
        data[at + 56 : at + 64] = (flushed - 1000 * (number > 8)).to_bytes(8, "big")
    path.write_bytes(data)
    writer.checkpoint(flushed)
    assert DurableEnd(writer.root).find() == writer.end_of(10)
    writer.checkpoint(flushed + 1)
    with pytest.raises(CorruptStore, match=f"records stored until {flushed + 1} ms are on disk"):
        DurableEnd(writer.root).find()


def test_without_a_checkpoint_nothing_counts(writer: Writer) -> None:
    writer.write(writer.end_of(-1))
    (writer.root / "checkpoint").unlink()
    assert DurableEnd(writer.root).find() == 0


def test_the_next_record_is_found_from_any_byte() -> None:
    golden = golden_store("5.5.0-clean")
    path = golden.root / "commitlog" / f"{0:020d}"
    size = path.stat().st_size
    offsets = [entry["physicalOffset"] for entry in golden.log() if entry["physicalOffset"] < size]
    for at in (0, 1, offsets[5], offsets[5] + 1, offsets[-1], offsets[-1] + 1):
        wanted = next((offset for offset in offsets if offset >= at), size)
        assert next_start(str(path), 0, size, at) == wanted


@pytest.mark.timeout(200)  # a terabyte is not read in this time
@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="holes are not reported")
def test_reserved_blocks_are_not_read(writer: Writer) -> None:
    writer.write(writer.end_of(10))
    path = writer.root / "commitlog" / f"{0:020d}"
    size = 1 << 40
    os.truncate(path, size)
    begin, end = writer.log[3]["physicalOffset"], writer.end_of(10)
    assert next_start(str(path), 0, size, begin) == begin
    assert next_start(str(path), 0, size, end) == size
