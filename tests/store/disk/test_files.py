"""Both disks keep the contract of `Files`; what only one of them can show is here too."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from bolide.store.disk.file_contract import call_failed
from bolide.store.disk.files import BytesUnreadable, DiskFull, FileFailed, FileLocked, RealFiles
from bolide.store.disk.jobs import MANY, sync_files
from bolide.store.disk.segments import HandleCache, make_segment
from bolide.testing.files import SimulatedFiles, Stopped, check_files


def test_real_files_keep_the_contract(tmp_path: Path) -> None:
    check_files(RealFiles(), str(tmp_path))


def test_a_folder_on_another_device_did_not_share_the_page_cache(tmp_path: Path) -> None:
    files = RealFiles()
    assert files.boot_id(str(tmp_path)) == files.boot_id(str(tmp_path / ".."))
    assert files.boot_id(str(tmp_path)) != files.boot_id("/dev")
    assert " " not in files.boot_id(str(tmp_path))


def test_scan_returns_the_bytes_and_leaves_cached_pages_in_memory(tmp_path: Path) -> None:
    files = RealFiles()
    path = str(tmp_path / "file")
    data = os.urandom(300_000)
    handle = files.open(path, create=True)
    files.write_at(handle, [data], 0)
    files.datasync(handle)
    for offset, size in ((0, 16384), (299_000, 5000), (300_000, 1), (123, 200_000)):
        assert files.scan(path, offset, size) == data[offset : offset + size]
    if hasattr(os, "posix_fadvise"):
        assert files.read_warm(handle, 300_000, 0) == data, "pages that a reader or writer brought stay"
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        cold = files.read_warm(handle, 300_000, 0) is None
        assert files.scan(path, 0, 300_000) == data
        if cold:  # not on a file system that lives in memory
            assert files.read_warm(handle, 300_000, 0) is None, "pages that only the scan brought do not stay"
    files.close(handle)
    assert files.scan(str(tmp_path / "missing"), 0, 10) == b""


@pytest.mark.parametrize("number", [errno.EIO, errno.EBADMSG])
def test_failed_read_of_the_disk_is_told_from_other_failures(number: int) -> None:
    assert isinstance(call_failed("read", "/f", OSError(number, "bad")), BytesUnreadable)
    assert not isinstance(call_failed("read", "/f", OSError(errno.EMFILE, "many")), BytesUnreadable)
    assert not isinstance(call_failed("write", "/f", OSError(number, "bad")), BytesUnreadable)


def test_simulated_files_keep_the_contract() -> None:
    files = SimulatedFiles()
    files.make_dir("/data")
    check_files(files, "/data")


def test_a_file_without_a_name_gets_one_that_is_free(tmp_path: Path) -> None:
    files = RealFiles()
    handle = files.open_unnamed(str(tmp_path))
    if handle < 0:  # a file system that has no such files
        assert files.list_dir(str(tmp_path)) == []
        return
    files.reserve_new(handle, 8_192)
    files.truncate(handle, 20_000)
    files.write_at(handle, [b"ours"], 0)
    assert files.list_dir(str(tmp_path)) == []
    (tmp_path / "taken").write_bytes(b"theirs")
    assert not files.link_unnamed(handle, str(tmp_path / "taken"))
    assert (tmp_path / "taken").read_bytes() == b"theirs"
    assert files.link_unnamed(handle, str(tmp_path / "free"))
    files.close(handle)
    found = tmp_path / "free"
    assert (found.stat().st_size, found.stat().st_mode & 0o027) == (20_000, 0)
    assert found.stat().st_blocks * 512 >= 8_192
    assert found.read_bytes()[:5] == b"ours\0"


def test_file_of_the_pool_is_unnamed_until_complete(tmp_path: Path) -> None:
    class Late(RealFiles):
        """The writer makes the file, and writes to it, while the pool still reserves the blocks of its own."""

        def reserve_new(self, handle: int, size: int) -> None:
            if not os.path.exists(path):
                make_segment(RealFiles(), HandleCache(RealFiles(), 4), path, 65_536, 65_536)
                Path(path).write_bytes(b"\xff" * 65_536)
            assert os.fstat(handle).st_nlink == 0
            super().reserve_new(handle, size)

    path = str(tmp_path / "00000000000000065536")
    make_segment(Late(), None, path, 65_536, 65_536)
    assert Path(path).read_bytes() == b"\xff" * 65_536
    assert os.listdir(tmp_path) == [os.path.basename(path)]


def test_more_buffers_than_one_call_takes(tmp_path: Path) -> None:
    files = RealFiles()
    handle = files.open(str(tmp_path / "f"), True)
    buffers = [b"%07d" % number for number in range(3000)]
    files.write_at(handle, buffers, 5)
    assert files.read_at(handle, 1 << 20, 5) == b"".join(buffers)
    files.close(handle)


def test_warm_read_copies_once(tmp_path: Path) -> None:
    files, size = RealFiles(), 4 << 20
    handle = files.open(str(tmp_path / "f"), True)
    files.write_at(handle, [bytes(range(256)) * (size // 256)], 0)
    tracemalloc.start()
    try:
        data = files.read_warm(handle, size, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data is not None and data[:: size - 1] == b"\0\xff"
    assert peak < 1.1 * size
    assert files.read_warm(handle, size, 100) == data[100:]
    assert files.read_warm(handle, 10, size) == files.read_warm(handle, 0, 0) == b""
    files.close(handle)


HOLDER = """
import sys
from bolide.store.disk.files import RealFiles
RealFiles().lock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_held_by_another_process_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert holder.stdin is not None and holder.stdout is not None
    with holder.stdin, holder.stdout:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(FileLocked, match="locked by another process; stop the broker"):
            RealFiles().lock(path)
        holder.kill()
        holder.wait()
        files = RealFiles()
        files.unlock(files.lock(path))  # the system gave it back with the process


def test_a_refused_lock_does_not_give_the_held_one_back(tmp_path: Path) -> None:
    # POSIX locks of a process go with the first close of any descriptor of the file.
    path = str(tmp_path / "lock")
    files = RealFiles()
    handle = files.lock(path)
    with pytest.raises(FileLocked):
        RealFiles().lock(path)
    probe = "import fcntl,sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"
    other = subprocess.run([sys.executable, "-c", probe, path], stderr=subprocess.PIPE, check=False)
    assert other.returncode != 0, "another process could take the lock"
    files.unlock(handle)


def test_a_full_disk_is_told_from_other_failures() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    files = RealFiles()
    handle = files.open("/dev/full")
    with pytest.raises(DiskFull, match="free space"):
        files.write_at(handle, [b"x"], 0)
    files.close(handle)


def test_reserving_writes_nothing_where_the_system_cannot_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the C library does in place of a call that a file system lacks, with a record written in the middle."""
    files = RealFiles()
    writer = files.open(str(tmp_path / "f"), True, 8192)
    handle = files.open(str(tmp_path / "f"))

    def emulated(fd: int, offset: int, size: int) -> None:
        for at in range(offset, offset + size, 4096):
            if os.pread(fd, 1, at) == b"\0":
                files.write_at(writer, [b"record"], at)
                os.pwrite(fd, b"\0", at)

    monkeypatch.setattr(os, "posix_fallocate", emulated)
    files.write_at(writer, [b"record"], 0)
    files.reserve(handle, 0, 8192)
    assert files.read_at(writer, 6, 4096) in (bytes(6), b"record")
    files.write_at(writer, [b"record"], 4096)
    files.reserve(handle, 4096, 4096)
    assert files.read_at(writer, 6, 0) == files.read_at(writer, 6, 4096) == b"record"
    assert files.size(str(tmp_path / "f")) == 8192
    nothing = files.open("/dev/null")
    files.reserve(nothing, 0, 4096)  # cannot be reserved, which is not an error
    for opened in (writer, handle, nothing):
        files.close(opened)


def test_failures_name_the_call_and_the_path(tmp_path: Path) -> None:
    files = RealFiles()
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FileFailed, match=r"cannot make the folder .*file/sub"):
        files.make_dir(str(tmp_path / "file" / "sub"))
    with pytest.raises(FileFailed, match=r"cannot open .*missing: " + os.strerror(errno.ENOENT)):
        files.open(str(tmp_path / "missing"))


def test_new_files_are_private(tmp_path: Path) -> None:
    files = RealFiles()
    before = os.umask(0)
    try:
        files.make_dir(f"{tmp_path}/a/b/c/")
        files.make_dir(f"{tmp_path}/a/b/c")
        files.close(files.open(f"{tmp_path}/a/file", True, 10))
        files.write_file(f"{tmp_path}/a/table", b"x")
        files.unlock(files.lock(f"{tmp_path}/a/lock"))
        os.umask(0o077)
        files.make_dir(f"{tmp_path}/own/b")
        files.close(files.open(f"{tmp_path}/own/file", True, 10))
    finally:
        os.umask(before)
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {
        **dict.fromkeys(("a", "a/b", "a/b/c"), 0o750),
        **dict.fromkeys(("a/file", "a/lock"), 0o640),
        "a/table": 0o600,
        **dict.fromkeys(("own", "own/b"), 0o700),
        "own/file": 0o600,
    }
    (tmp_path / "open").mkdir(mode=0o755)
    files.make_dir(f"{tmp_path}/open")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o755, "what is there keeps its mode"
    with pytest.raises(FileFailed, match="a/file"):
        files.make_dir(f"{tmp_path}/a/file")


class TestPowerCut:
    def test_only_what_was_synced_is_certain(self) -> None:
        files = SimulatedFiles()
        files.make_dir("/d")
        files.sync_dir("/")
        handle = files.open("/d/f", True, 2048)
        files.sync_dir("/d")
        files.write_at(handle, [b"a" * 1024], 0)
        files.datasync(handle)
        files.write_at(handle, [b"b" * 1024], 512)
        nothing, everything, part = files.clone(), files.clone(), files.clone()
        nothing.power_cut(0)
        assert nothing.read_file("/d/f") == b"a" * 1024 + bytes(1024)
        everything.power_cut(1)
        assert everything.read_file("/d/f") == b"a" * 512 + b"b" * 1024 + bytes(512)
        seen = set()
        for seed in range(2, 40):
            part = files.clone()
            part.power_cut(seed)
            seen.add(part.read_file("/d/f"))
        assert b"a" * 1024 + b"b" * 512 + bytes(512) in seen, "a later sector without the one before it"

    def test_a_name_that_was_not_synced_takes_the_file_with_it(self) -> None:
        files = SimulatedFiles()
        files.make_dir("/d")
        files.sync_dir("/")
        handle = files.open("/d/f", True, 100)
        files.write_at(handle, [b"x"], 0)
        files.datasync(handle)
        files.power_cut(0)
        assert files.list_dir("/d") == []

    def test_a_removal_that_was_not_synced_comes_back(self) -> None:
        files = SimulatedFiles()
        files.make_dir("/d")
        files.write_file("/d/f", b"whole")
        files.sync_dir("/")
        files.remove("/d/f")
        kept = files.clone()
        files.power_cut(0)
        assert files.read_file("/d/f") == b"whole"
        kept.sync_dir("/d")
        kept.power_cut(0)
        assert kept.list_dir("/d") == []

    def test_a_process_crash_keeps_everything_and_frees_the_lock(self) -> None:
        files = SimulatedFiles()
        files.make_dir("/d")
        files.lock("/d/lock")
        handle = files.open("/d/f", True, 10)
        files.write_at(handle, [b"x"], 0)
        files.process_crash()
        assert files.read_file("/d/f") == b"x" + bytes(9)
        files.unlock(files.lock("/d/lock"))

    def test_simulated_files_stop_after_the_given_call(self) -> None:
        files = SimulatedFiles()
        files.make_dir("/d")
        files.stop_after = files.calls + 1
        handle = files.open("/d/f", True, 10)
        with pytest.raises(Stopped):
            files.write_at(handle, [b"x"], 0)
        assert files.read_file("/d/f") == bytes(10)


def test_many_files_are_synced_by_their_file_systems(tmp_path: Path) -> None:
    class Counting(RealFiles):
        """Counts what is synced one by one."""

        singles = 0

        def datasync(self, handle: int) -> None:
            self.singles += 1
            super().datasync(handle)

    files = Counting()
    paths = [f"{tmp_path}/{number}" for number in range(MANY)]
    for path in paths:
        files.close(files.open(path, True, 20))
    sync_files(files, paths[:3], [str(tmp_path)])
    assert files.singles == 3
    sync_files(files, [*paths, f"{tmp_path}/gone/file"], [str(tmp_path)])
    whole = files.sync_file_systems({str(tmp_path), f"{tmp_path}/gone"})
    assert whole or sys.platform != "linux"
    assert files.singles == (3 if whole else 3 + len(paths))


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_tables_are_written_where_there_are_no_hard_links(tmp_path: Path, error: int, monkeypatch: Any) -> None:
    def no_links(source: str, target: str) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", no_links)
    check_files(RealFiles(), str(tmp_path))


def test_another_failure_of_the_copy_before_leaves_the_table(tmp_path: Path, monkeypatch: Any) -> None:
    def failing(source: str, target: str) -> None:
        raise OSError(errno.EIO, "broken")

    path = str(tmp_path / "table")
    RealFiles().write_file(path, b"one")
    monkeypatch.setattr(os, "link", failing)
    with pytest.raises(FileFailed):
        RealFiles().write_file(path, b"two")
    assert RealFiles().read_file(path) == b"one"
