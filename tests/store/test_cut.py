"""The end of the log is cut off: what is derived follows, also when the process or the machine dies meanwhile."""

from __future__ import annotations

import pytest

from bolide.store.cut import COPIES
from bolide.store.disk.files import FileFailed
from bolide.store.errors import NotTheLog, ServiceNotAvailable
from bolide.store.raw_log import RawLog
from bolide.testing.files import SimulatedFiles, Stopped
from tests.store.scenario import ROOT, SHAPE, SYNC, Machine, Sent, missing, units_agree

FILE = SHAPE.commit_log_segment_size
AGES = 1 << 40


def machine(files: SimulatedFiles | None = None, records: int = 70) -> Machine:
    """A store with more than two files of records, of which half went to the files of queues and index."""
    made = Machine(files=files or SimulatedFiles(), options=SYNC)
    for number in range(records):
        made.turn()
        if number == records // 2:
            made.tick(61_000)
    made.run_jobs()
    return made


def log_of(of: Machine) -> bytes:
    return bytes(of.store.log.segments.read(0, int(of.store.written_offset)))


def kept_of(of: Machine, end: int) -> list[Sent]:
    return [sent for sent in of.acknowledged if sent.at.end_offset <= end]


def ends(of: Machine) -> list[int]:
    """Where records begin, in each file and at its edges."""
    starts = [int(sent.at.physical_offset) for sent in of.acknowledged]
    return [starts[0], starts[1], starts[len(starts) // 2], *[at for at in starts if at % FILE == 0][1:], starts[-1]]


def check(of: Machine, end: int, before: bytes, kept: list[Sent]) -> None:
    """The store is what it would be if nothing had ever been beyond `end`."""
    store = of.store
    assert store.end_offset == end
    assert log_of(of) == before[:end]
    rest = FILE - end % FILE
    assert not store.log.segments.read(end, rest).strip(b"\0")
    assert units_agree(store) == []
    assert missing(store, kept) == []
    assert sum(int(store.max_queue_offset("T", queue)) for queue in range(3)) == len(kept)
    assert all(
        offset < end
        for sent in of.acknowledged
        for offset in store.index.query("T", sent.put.properties.uniq_key, 64, 0, AGES * 1024)
    )


def goes_on(of: Machine, end: int, kept: list[Sent]) -> None:
    """New records get the places and numbers of those that are gone, and last."""
    of.acknowledged, of.waiting = list(kept), []
    of.number = 1000
    for _ in range(9):
        of.turn()
    first = int(of.acknowledged[len(kept)].at.physical_offset)
    assert first in (end, end - end % FILE + FILE), "the next file where the record does not fit"
    assert missing(of.store, of.acknowledged) == []
    of.tick(61_000)
    of.crash()
    assert missing(of.store, of.acknowledged) == []
    of.restart()
    assert missing(of.store, of.acknowledged) == []
    assert units_agree(of.store) == []


@pytest.mark.parametrize("which", range(6))
def test_derived_files_follow_a_cut(which: int) -> None:
    made = machine()
    end, before = ends(made)[which % len(ends(made))], log_of(made)
    kept = kept_of(made, end)
    told: list[int] = []
    made.store.on_taken_back.append(told.append)
    RawLog(made.store).cut(end, made.now)
    check(made, end, before, kept)
    assert told == [end]
    goes_on(made, end, kept)


def test_a_cut_at_the_blank_of_a_file_keeps_no_blank() -> None:
    made = machine()
    before = log_of(made)
    last = max(sent.at.end_offset for sent in made.acknowledged if sent.at.end_offset <= FILE)
    assert int.from_bytes(before[int(last) : int(last) + 4]) == FILE - last, "the blank"
    kept = kept_of(made, int(last))
    RawLog(made.store).cut(int(last), made.now)
    check(made, int(last), before, kept)
    goes_on(made, int(last), kept)


@pytest.mark.parametrize("cut_power", [None, 0, 1, 2, 3, 4])
def test_a_death_at_any_call_ends_before_or_after_the_cut(cut_power: int | None) -> None:
    of = machine()
    before, whole = log_of(of), int(of.store.end_offset)
    of.tick(61_000)
    end = ends(of)[2]
    acknowledged, kept = of.acknowledged, kept_of(of, end)
    of.store.close(of.now)
    outcomes = set()
    for stop in range(400):
        made = Machine(files=of.files.clone(), options=SYNC, now=of.now)
        made.acknowledged = list(acknowledged)
        made.files.stop_after = made.files.calls + stop
        try:
            RawLog(made.store).cut(end, made.now)
            done = True
        except Stopped:
            done = False
        made.files.stop_after = None
        if cut_power is None:
            made.crash()
        else:
            made.power_cut(cut_power)
        outcomes.add(int(made.store.end_offset))
        assert {data for name, data in copies_of(made).items() if not name.endswith(".part")} <= {before[end:]}
        if made.store.end_offset == whole:
            assert not done
            assert log_of(made) == before
            assert missing(made.store, acknowledged) == []
        else:
            check(made, end, before, kept)
        if done:
            break
        if stop % 7 == 0 and made.store.end_offset == end:
            goes_on(made, end, kept)
    assert outcomes == {whole, end}
    assert done


def test_a_start_that_dies_while_it_finishes_the_cut_is_finished_by_the_next() -> None:
    of = machine()
    before, end = log_of(of), ends(of)[2]
    kept = kept_of(of, end)
    of.files.stop_after = of.files.calls + 14
    with pytest.raises(Stopped):
        RawLog(of.store).cut(end, of.now)
    of.files.process_crash()
    assert of.files.read_file(f"{ROOT}/cutLog") is not None
    for stop in range(0, 200, 3):
        files = of.files.clone()
        files.stop_after = files.calls + stop
        try:
            Machine(files=files, options=SYNC, now=of.now)
        except Stopped:
            files.power_cut(stop)
        else:
            break
        files.stop_after = None
        made = Machine(files=files, options=SYNC, now=of.now)
        made.acknowledged = list(of.acknowledged)
        check(made, end, before, kept)


@pytest.mark.parametrize("offset", [1, 50, -1, 1 << 40])
def test_only_where_a_record_begins(offset: int) -> None:
    made = machine()
    with pytest.raises(NotTheLog, match=f"no record starts at {offset}: it cannot be truncated"):
        RawLog(made.store).cut(offset, made.now)
    assert missing(made.store, made.acknowledged) == []


def test_not_while_something_is_under_way() -> None:
    made = machine()
    end = ends(made)[2]
    made.append()
    with pytest.raises(ServiceNotAvailable, match="while it writes"):
        RawLog(made.store).cut(end, made.now)
    made.write()
    with pytest.raises(ServiceNotAvailable, match="while it writes"):
        RawLog(made.store).cut(end, made.now)
    made.flush()
    made.now += 61_000
    made.store.tick(made.now)
    jobs = made.store.jobs()
    assert jobs
    with pytest.raises(ServiceNotAvailable, match="while it writes"):
        RawLog(made.store).cut(end, made.now)
    for job in jobs:
        job.run()
        made.store.job_done(job)
    made.run_jobs()
    RawLog(made.store).cut(end, made.now)
    assert made.store.end_offset == end


def test_a_disk_that_fails_stops_the_store_and_a_start_finishes() -> None:
    made = machine()
    before, end = log_of(made), ends(made)[2]
    kept = kept_of(made, end)
    made.files.fail_next("truncate")
    with pytest.raises(FileFailed):
        RawLog(made.store).cut(end, made.now)
    assert not made.store.writable()
    assert f"could not be cut at {end}" in made.store.failure
    made.crash()
    check(made, end, before, kept)


def test_truncated_bytes_are_copied_and_only_the_newest_copies_remain() -> None:
    made = machine()
    before, folder = log_of(made), made.store.log_cut.folder
    cuts = sorted(ends(made)[1:], reverse=True)
    stop = len(before)
    for end in cuts:
        made.now += 1
        RawLog(made.store).cut(end, made.now)
        newest = sorted(made.files.list_dir(folder))[-1]
        assert newest.endswith(f"-{end:020}")
        assert made.files.read_file(f"{folder}/{newest}") == before[end:stop]
        stop = end
    assert len(made.files.list_dir(folder)) == len(cuts)
    for _ in range(COPIES):
        made.turn()
        made.now += 1
        RawLog(made.store).cut(stop, made.now)
    copies = sorted(made.files.list_dir(folder))
    assert len(copies) == COPIES
    assert all(name.endswith(f"-{stop:020}") for name in copies)


def with_copies(of: Machine, count: int, begin: int) -> dict[str, bytes]:
    """Truncate the log to `begin` several times; return the copies by name."""
    for _ in range(count):
        of.turn()
        of.now += 1
        RawLog(of.store).cut(begin, of.now)
    return copies_of(of)


def copies_of(of: Machine) -> dict[str, bytes]:
    folder = of.store.log_cut.folder
    return {name: of.files.read_file(f"{folder}/{name}") or b"" for name in sorted(of.files.list_dir(folder))}


@pytest.mark.parametrize("call", ["datasync", "write_at", "rename"])
def test_failed_copies_are_deleted_and_displace_no_complete_one(call: str) -> None:
    made = machine()
    end = len(log_of(made))
    complete = with_copies(made, COPIES - 1, end)
    made.turn()
    for _ in range(COPIES + 3):
        made.now += 1
        made.files.fail_next(call)
        with pytest.raises(FileFailed):
            RawLog(made.store).cut(end, made.now)
        assert copies_of(made) == complete
    RawLog(made.store).cut(end, made.now)
    assert complete.items() <= copies_of(made).items()
    assert len(copies_of(made)) == COPIES


def test_copy_is_the_newest_one_though_the_clock_was_set_back() -> None:
    made = machine()
    end = len(log_of(made))
    before = with_copies(made, COPIES, end)
    made.turn()
    tail = log_of(made)[end:]
    RawLog(made.store).cut(end, made.now - 3_600_000)
    copies = copies_of(made)
    assert list(copies)[:-1] == list(before)[1:]
    assert copies[list(copies)[-1]] == tail


def test_incomplete_copy_of_a_crash_is_deleted_and_files_of_others_are_kept() -> None:
    made = machine()
    end, folder = len(log_of(made)), made.store.log_cut.folder
    with_copies(made, 1, end)
    for name in (f"20990101000000000-{0:020}.part", "00000-notes"):
        made.files.write_file(f"{folder}/{name}", b"1")
    copies = with_copies(made, COPIES, end)
    assert "00000-notes" in copies
    assert len(copies) == COPIES + 1
    assert not any(name.endswith(".part") for name in copies)


@pytest.mark.parametrize("call", ["datasync", "write_at", "make_dir", "rename"])
def test_log_is_not_truncated_if_the_copy_fails(call: str) -> None:
    made = machine()
    before, end = log_of(made), ends(made)[2]
    made.files.fail_next(call)
    with pytest.raises(FileFailed):
        RawLog(made.store).cut(end, made.now)
    assert made.store.writable()
    assert log_of(made) == before
    RawLog(made.store).cut(end, made.now)
    check(made, end, before, kept_of(made, end))


def test_held_offset_survives_a_truncation_up_to_its_offset() -> None:
    for death in (False, True):
        made = machine()
        whole, end = int(made.store.end_offset), ends(made)[2]
        made.store.maintenance.held = lambda whole=whole: whole
        made.tick(61_000)
        assert made.store.maintenance.checkpoint.held_offset == whole
        made.store.maintenance.held = None
        if death:
            made.files.fail_next("truncate")
            with pytest.raises(FileFailed):
                RawLog(made.store).cut(end, made.now)
        else:
            RawLog(made.store).cut(end, made.now)
        made.crash()
        assert made.store.end_offset == end
        assert made.store.maintenance.checkpoint.held_offset == end


def test_a_file_made_ahead_goes_with_the_end() -> None:
    made = machine(records=20)
    while int(made.store.end_offset) % FILE < FILE // 2 or not any(
        int(name) > made.store.end_offset for name in made.files.list_dir(f"{ROOT}/commitlog")
    ):
        made.turn()
        made.run_jobs()
    end = int(made.acknowledged[1].at.physical_offset)
    RawLog(made.store).cut(end, made.now)
    assert made.files.list_dir(f"{ROOT}/commitlog") == ["0" * 20]
    goes_on(made, end, kept_of(made, end))
