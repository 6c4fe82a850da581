"""The simulated disk: the contract of `Files`, and each of its faults."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bolide.store.disk.file_contract import DiskFull, FileFailed, SyncFailed
from bolide.testing.files import check_files
from proof.simulation.disk import Disk, PowerFails


def disk_with(text: bytes = b"synced", synced: bool = True) -> tuple[Disk, int]:
    """A disk with one file of two sectors."""
    disk = Disk(1)
    disk.make_dir("/d")
    disk.sync_dir("/")
    handle = disk.open("/d/f", True, 1024)
    disk.write_at(handle, [text], 0)
    if synced:
        disk.datasync(handle)
        disk.sync_dir("/d")
    return disk, handle


def failing(disk: Disk, call: Callable[[], object]) -> FileFailed:
    with pytest.raises(FileFailed) as raised:
        call()
    return raised.value


@pytest.mark.parametrize("unnamed", [False, True])
@pytest.mark.parametrize("journaled", [False, True])
def test_simulated_disk_keeps_the_contract(unnamed: bool, journaled: bool) -> None:
    disk = Disk(1)
    disk.unnamed, disk.journaled_names = unnamed, journaled
    disk.make_dir("/folder")
    check_files(disk, "/folder")


def test_calls_fail_from_the_nth_on_for_so_many_times() -> None:
    disk, handle = disk_with()
    disk.fail("EIO", "read_at", after=1, times=2)
    assert disk.read_at(handle, 3, 0) == b"syn"
    for _ in range(2):
        assert "Input/output error" in str(failing(disk, lambda: disk.read_at(handle, 3, 0)))
    assert disk.read_at(handle, 3, 0) == b"syn"


@pytest.mark.parametrize("error", ["ENOSPC", "EDQUOT"])
def test_no_room_is_a_full_disk(error: str) -> None:
    disk, handle = disk_with()
    disk.fail(error, times=-1)
    assert isinstance(failing(disk, lambda: disk.write_at(handle, [b"x"], 0)), DiskFull)
    assert disk.read_at(handle, 1, 0) == b"s", "reading needs no room"
    disk.faults_over()
    disk.write_at(handle, [b"x"], 0)


def test_only_calls_that_open_need_a_descriptor() -> None:
    disk, handle = disk_with()
    disk.fail("EMFILE", times=-1)
    disk.write_at(handle, [b"x"], 0)
    disk.datasync(handle)
    failing(disk, lambda: disk.open("/d/f"))
    failing(disk, lambda: disk.write_file("/d/t", b""))


def test_a_failed_sync_drops_what_it_did_not_write() -> None:
    lost = 0
    for seed in range(20):
        disk, handle = disk_with()
        disk.random.seed(seed)
        disk.write_at(handle, [b"new"], 0)
        disk.fail("EIO", "datasync")
        assert isinstance(failing(disk, lambda disk=disk, handle=handle: disk.datasync(handle)), SyncFailed)  # type: ignore[misc]  # bound at once
        assert disk.read_at(handle, 3, 0) == b"new", "the page cache still has it"
        disk.datasync(handle)
        disk.power_cut(1)
        lost += (disk.read_file("/d/f") or b"")[:3] == b"syn"
    assert 0 < lost < 20


def test_a_sync_that_lies_keeps_nothing() -> None:
    disk, handle = disk_with()
    disk.lie()
    disk.write_at(handle, [b"new"], 0)
    disk.datasync(handle)
    disk.power_cut(0)
    assert (disk.read_file("/d/f") or b"")[:6] == b"synced"


def test_names_are_journaled_in_order() -> None:
    kept = set()
    for seed in range(2, 60):
        disk, _ = disk_with()
        disk.journaled_names = True
        for name in "abc":
            disk.close(disk.open(f"/d/{name}", True, 1))
        disk.rename("/d/a", "/d/z")
        disk.power_cut(seed)
        kept.add("".join(disk.list_dir("/d")).replace("f", ""))
    assert kept == {"", "a", "ab", "abc", "bcz"}


def test_strict_names_survive_one_by_one() -> None:
    kept = set()
    for seed in range(2, 80):
        disk, _ = disk_with()
        disk.rename("/d/f", "/d/z")
        disk.power_cut(seed)
        kept.add("".join(disk.list_dir("/d")))
    assert kept == {"", "f", "z", "fz"}


def test_a_cut_in_write_file_leaves_the_old_or_the_new() -> None:
    for journaled in (False, True):
        for call in range(12):
            disk, _ = disk_with()
            disk.journaled_names = journaled
            disk.write_file("/d/t", b"old")
            disk.cut_at = disk.calls + call
            try:
                disk.write_file("/d/t", b"new")
            except PowerFails:
                with pytest.raises(PowerFails):
                    disk.size("/d/t")
                disk.power_cut(call * 7)
            assert disk.content("/d/t") in (b"old", b"new")


def test_bits_rot_where_they_are_told_to() -> None:
    disk, handle = disk_with(b"synced", False)
    at = disk.rot("/d/f", 2, 6)
    assert 2 <= at < 6 and disk.read_at(handle, 6, 0) != b"synced"
    disk.flip("/d/f", at, 0)
    disk.flip("/d/f", at, 0)
    assert sum(a != b for a, b in zip(disk.read_at(handle, 6, 0), b"synced", strict=True)) == 1


def test_calls_take_time() -> None:
    disk, handle = disk_with()
    disk.chances.slow, disk.chances.slowest = 1.0, 2.0
    disk.read_at(handle, 1, 0)
    assert 0 < disk.take_seconds() <= 2.0 and disk.take_seconds() == 0


def test_the_same_seed_gives_the_same_faults() -> None:
    told = []
    for _ in range(2):
        disk, handle = disk_with()
        disk.chances.errors = {"EIO": 0.3, "ENOSPC": 0.2}
        for _ in range(40):
            try:
                disk.write_at(handle, [b"x" * 700], 0)
            except FileFailed as error:
                disk.told.append(str(error))
        told.append((disk.told, disk.content("/d/f")))
    assert told[0] == told[1] and len(told[0][0]) > 10
