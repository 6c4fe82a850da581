"""`check_files`: a test of the contract of `bolide.store.disk.files.Files`, for authors of implementations."""

from __future__ import annotations

from collections.abc import Callable

from bolide.store.disk.files import FileFailed, FileLocked, Files


def check_files(files: Files, folder: str) -> None:
    """Test an implementation of `Files` in an empty folder. The
    `AssertionError` names the violated part of the contract."""
    _check_bytes(files, folder)
    _check_names(files, folder)
    _check_whole_files(files, folder)
    _check_lock(files, folder)
    assert 0.0 <= files.disk_use(folder) <= 1.0
    assert files.process_id() > 0
    assert files.boot_id(folder) == files.boot_id(folder)
    assert len(files.local_time(1_700_000_000_123)) == 17 and files.local_time(1_700_000_000_123).endswith("123")


def _check_bytes(files: Files, folder: str) -> None:
    path = folder + "/bytes"
    assert _fails(lambda: files.open(path)), "open must not create a missing file"
    handle = files.open(path, True, 10_000)
    assert files.size(path) == 10_000
    files.write_at(handle, [b"one"], 0)
    files.write_at(handle, [bytes([n % 251]) for n in range(2000)], 100)
    assert files.read_at(handle, 5, 0) == b"one\0\0"
    assert files.read_at(handle, 2000, 100) == bytes(n % 251 for n in range(2000)), "many buffers are one run of bytes"
    assert files.read_at(handle, 100, 9_990) == bytes(10), "short at the end of the file"
    assert files.read_at(handle, 10, 20_000) == b""
    files.datasync(handle)
    files.warm(path, 0, 10_000)
    assert files.read_warm(handle, 3, 0) == b"one"
    assert files.read_warm(handle, 100, 9_990) == bytes(10)
    assert files.scan(path, 0, 3) == b"one" and files.scan(path, 9_990, 100) == bytes(10)
    files.reserve(handle, 0, 10_000)
    files.reserve(handle, 4_096, 1_000)
    assert files.size(path) == 10_000 and files.read_at(handle, 3, 0) == b"one", "reserving changes no byte"
    assert files.next_data(handle, 0) == 0 and files.next_data(handle, 10_000) == -1
    assert files.next_data(handle, 9_000) in (-1, 9_000), "after the last byte written: nothing, or unknown"
    again = files.open(path, True, 10_000)
    assert files.read_at(again, 3, 0) == b"one", "opening with `create` keeps what is there"
    files.close(again)
    files.truncate(handle, 2)
    files.truncate(handle, 4)
    assert files.read_at(handle, 10, 0) == b"on\0\0"
    files.remove(path)
    assert files.size(path) == -1
    assert files.read_at(handle, 2, 0) == b"on", "an open file outlives its name"
    files.close(handle)
    files.warm(path, 0, 10)
    assert files.scan(path, 0, 10) == b"", "a missing file has no bytes"


def _check_names(files: Files, folder: str) -> None:
    files.make_dir(folder + "/a/b")
    files.make_dir(folder + "/a/b")
    files.close(files.open(folder + "/a/z", True))
    files.close(files.open(folder + "/a/y", True, 7))
    assert files.list_dir(folder + "/a") == ["b", "y", "z"]
    assert files.list_dir(folder + "/missing") == [] and files.list_dir(folder + "/a/y") == []
    assert files.size(folder + "/a") == -1 and files.size(folder + "/a/y") == 7 and files.size(folder + "/a/z") == 0
    assert files.modified_ms(folder + "/a/y") >= 0 and files.modified_ms(folder + "/a/x") == -1
    files.rename(folder + "/a/y", folder + "/a/z")
    assert files.list_dir(folder + "/a") == ["b", "z"] and files.size(folder + "/a/z") == 7
    assert _fails(lambda: files.rename(folder + "/a/y", folder + "/a/z"))
    assert _fails(lambda: files.remove(folder + "/a")), "a folder that is not empty stays"
    if files.link(folder + "/a/z", folder + "/a/y"):
        assert files.links(folder + "/a/y") == files.links(folder + "/a/z") == 2
        handle = files.open(folder + "/a/y")
        files.write_at(handle, [b"same"], 0)
        files.close(handle)
        assert files.read_file(folder + "/a/z") == b"same\0\0\0", "two names are one file"
        assert _fails(lambda: files.link(folder + "/a/z", folder + "/a/y")), "a link replaces no file"
        assert _fails(lambda: files.link(folder + "/a/x", folder + "/a/w"))
    files.remove(folder + "/a/y")
    assert files.links(folder + "/a/z") == 1
    files.sync_dir(folder + "/a")
    files.sync_dir(folder + "/missing")
    for name in ("a/b", "a/z", "a/z", "a"):
        files.remove(folder + "/" + name)
    assert files.list_dir(folder) == []


def _check_whole_files(files: Files, folder: str) -> None:
    path = folder + "/table.json"
    assert files.read_file(path) is None
    for text in (b"first", b"second", b"third"):
        files.write_file(path, text)
        assert files.read_file(path) == text
    assert files.read_file(path + ".bak") == b"second"
    assert files.list_dir(folder) == ["table.json", "table.json.bak"]
    files.remove(path)
    files.remove(path + ".bak")


def _check_lock(files: Files, folder: str) -> None:
    path = folder + "/lock"
    handle = files.lock(path)
    assert files.read_file(path) == b"lock"
    refusal = ""
    try:
        files.lock(path)
    except FileLocked as error:
        refusal = str(error)
    assert path in refusal, "a lock was granted twice"
    files.unlock(handle)
    files.unlock(files.lock(path))
    files.remove(path)


def _fails(call: Callable[[], object]) -> bool:
    try:
        call()
    except FileFailed:
        return True
    return False
