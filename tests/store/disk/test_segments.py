"""Segments: names, gaps, creation, deletion, readers, and their handles."""

from __future__ import annotations

import contextlib

import pytest

from bolide.store.disk.files import DiskFull
from bolide.store.disk.segments import HandleCache, SegmentList, segment_name, unshare
from bolide.store.errors import StoreDamaged
from bolide.testing.files import SimulatedFiles, Stopped

FOLDER = "/data/log"


def make(files: SimulatedFiles, size: int = 100, limit: int = 64, reserve: bool = True) -> SegmentList:
    files.make_dir("/data")
    return SegmentList(files, FOLDER, size, HandleCache(files, limit), reserve)


def filled(count: int, files: SimulatedFiles | None = None) -> tuple[SimulatedFiles, SegmentList]:
    files = files or SimulatedFiles()
    segments = make(files)
    for index in range(count):
        segments.write(index * 100, [b"%03d" % index])
    return files, segments


def test_files_are_named_after_their_first_byte_and_have_their_length_at_once() -> None:
    files, segments = filled(3)
    assert files.list_dir(FOLDER) == [segment_name(0), segment_name(100), segment_name(200)]
    assert {files.size(f"{FOLDER}/{name}") for name in files.list_dir(FOLDER)} == {100}
    assert (segments.min_offset, segments.end_of_files) == (0, 300)
    assert segments.read(98, 5) == bytes(2) + b"001"
    assert segments.read(290, 50) == bytes(10)
    assert segments.read(400, 1) == b""


def test_a_write_never_crosses_the_end_of_a_file() -> None:
    _, segments = filled(1)
    with pytest.raises(ValueError, match="would cross"):
        segments.write(90, [b"x" * 6, b"y" * 5])


@pytest.mark.parametrize(("name", "size"), [(segment_name(100), 99), (segment_name(300), 100), (segment_name(50), 100)])
def test_a_log_whose_files_do_not_fit_together_is_refused(name: str, size: int) -> None:
    files, _ = filled(1)
    files.open(f"{FOLDER}/{name}", True, size)
    with pytest.raises(StoreDamaged, match=name):
        make(files).load()


def test_derived_files_that_do_not_fit_are_thrown_away_with_those_behind_them() -> None:
    files, _ = filled(2)
    files.open(f"{FOLDER}/{segment_name(300)}", True, 100)
    files.open(f"{FOLDER}/{segment_name(400)}", True, 100)
    again = make(files)
    assert again.load(derived=True) == [f"{FOLDER}/{segment_name(300)}", f"{FOLDER}/{segment_name(400)}"]
    assert files.list_dir(FOLDER) == [segment_name(0), segment_name(100)]


def test_an_empty_newest_file_is_a_creation_cut_short() -> None:
    files, _ = filled(1)
    files.open(f"{FOLDER}/{segment_name(100)}", True)
    again = make(files)
    again.load()
    assert again.segment_starts() == [0]
    assert files.list_dir(FOLDER) == [segment_name(0)]


def test_a_reserved_file_survives_the_power_cut_right_behind_its_creation() -> None:
    files = SimulatedFiles()
    segments = make(files)
    files.make_dir(FOLDER)
    files.sync_dir("/data")
    files.sync_dir("/")
    segments.create_at(0)
    files.power_cut(0)
    assert files.size(f"{FOLDER}/{segment_name(0)}") == 100


def test_the_disk_full_at_creation_leaves_a_list_that_works() -> None:
    files, segments = filled(1)
    files.fail_next("reserve", DiskFull("cannot reserve: simulated"))
    with pytest.raises(DiskFull):
        segments.write(100, [b"x"])
    assert segments.segment_starts() == [0]
    segments.write(100, [b"x"])
    assert segments.segment_starts() == [0, 100]


def test_deletion_goes_oldest_first_and_spares_the_last_file() -> None:
    files, segments = filled(4)
    assert segments.delete_before(200, limit=1) == [f"{FOLDER}/{segment_name(0)}"]
    assert len(segments.delete_before(1000)) == 2
    assert files.list_dir(FOLDER) == [segment_name(300)]
    assert segments.min_offset == 300


def test_truncation_goes_newest_first_so_that_no_cut_leaves_a_gap() -> None:
    for stop in range(8):
        files, segments = filled(5)
        files.sync_dir("/data")
        files.sync_dir("/")
        for name in files.list_dir(FOLDER):
            files.datasync(files.open(f"{FOLDER}/{name}"))
        files.stop_after = files.calls + stop
        with contextlib.suppress(Stopped):
            segments.truncate_to(101)
        for seed in range(6):
            disk = files.clone()
            disk.power_cut(seed)
            make(disk).load()  # raises StoreDamaged on a gap


class TestHandles:
    def test_the_least_recently_used_is_closed_and_opened_again(self) -> None:
        files = SimulatedFiles()
        segments = make(files, limit=2, reserve=False)
        for index in range(5):
            segments.write(index * 100, [b"%03d" % index])
        assert len(files._handles) == 2
        assert [segments.read(index * 100, 3) for index in range(5)] == [b"%03d" % index for index in range(5)]

    def test_a_pinned_handle_stays_open(self) -> None:
        files = SimulatedFiles()
        segments = make(files, limit=1, reserve=False)
        segments.write(0, [b"x"])
        handle = segments.handles.pin(segments.path_at(0))
        for index in range(1, 4):
            segments.write(index * 100, [b"y"])
        files.datasync(handle)
        segments.handles.unpin(handle)
        assert len(files._handles) == 2
        segments.write(400, [b"y"])
        assert len(files._handles) == 1, "not pinned any more, and the least recently used"

    def test_a_file_deleted_while_another_thread_syncs_it_is_closed_when_that_is_done(self) -> None:
        """Its number could be given to another file, and that one be synced, or closed, in its place."""
        files = SimulatedFiles()
        segments = make(files, reserve=False)
        for index in range(3):
            segments.write(index * 100, [b"x"])
        path = segments.path_at(0)
        first, second = segments.handles.pin(path), segments.handles.pin(path)
        assert first == second
        assert segments.delete_before(200) == [path, segments.path_at(100) or f"{FOLDER}/{segment_name(100)}"]
        files.datasync(first)
        segments.handles.unpin(first)
        again = segments.handles.pin(segments.path_at(200))
        files.datasync(second)
        segments.handles.unpin(second)
        assert again != first and set(files._handles) == {again}
        segments.handles.drop_handle(segments.path_at(200))
        files.datasync(again)
        segments.handles.close()
        assert not files._handles

    def test_written_file_is_returned_once_for_syncing(self) -> None:
        files = SimulatedFiles()
        segments = make(files, reserve=False)
        segments.write(0, [b"x"])
        paths, folders = segments.handles.take_unsynced()
        assert paths == [segments.path_at(0)]
        assert set(folders) == {FOLDER, "/data", "/"}
        assert segments.handles.take_unsynced() == ([], [])


def shared(count: int) -> tuple[SimulatedFiles, SegmentList]:
    """Files that another folder has as hard links."""
    files, segments = filled(count)
    files.make_dir("/data/other")
    for name in files.list_dir(FOLDER):
        files.link(f"{FOLDER}/{name}", f"/data/other/{name}")
    return files, segments


def test_files_at_the_end_are_separated_from_other_names() -> None:
    files, segments = shared(4)
    segments.read(200, 3)
    unshare(segments, 200)
    assert [files.links(segments.path_at(at)) for at in (0, 100, 200, 300)] == [2, 1, 1, 2]
    segments.write(200, [b"new"])
    segments.write(150, [b"new"])
    assert segments.read(100, 3) == b"001" and segments.read(200, 3) == b"new"
    for at in (100, 200):
        assert files.read_file(f"/data/other/{segment_name(at)}") == b"%03d" % (at // 100) + bytes(97)


def test_files_with_one_name_are_not_copied() -> None:
    files, segments = filled(2)
    before = files.calls
    for end in (0, 50, 100, 200, 1000):
        unshare(segments, end)
    assert files.calls == before


@pytest.mark.parametrize("seed", range(4))
def test_stop_at_any_call_leaves_the_shared_or_the_separate_file(seed: int) -> None:
    of, _ = shared(2)
    for name in of.list_dir(FOLDER):
        handle = of.open(f"{FOLDER}/{name}")
        of.datasync(handle)
        of.close(handle)
    for folder in (FOLDER, "/data/other", "/data", "/"):
        of.sync_dir(folder)
    for stop in range(20):
        files = of.clone()
        segments = make(files)
        segments.load()
        files.stop_after = files.calls + stop
        with contextlib.suppress(Stopped):
            unshare(segments, 150)
        files.power_cut(seed)
        again = make(files)
        again.load()
        assert again.read(100, 3) == b"001"
        assert files.read_file(f"/data/other/{segment_name(100)}") == b"001" + bytes(97)
        unshare(again, 150)
        assert files.links(again.path_at(100)) == 1
        assert files.list_dir(FOLDER) == [segment_name(0), segment_name(100)]


def test_full_disk_leaves_the_shared_file() -> None:
    files, segments = shared(2)
    files.capacity = files.used() + 50
    with pytest.raises(DiskFull):
        unshare(segments, 150)
    assert files.links(segments.path_at(100)) == 2 and segments.read(100, 3) == b"001"
    assert files.list_dir(FOLDER) == [segment_name(0), segment_name(100)]
