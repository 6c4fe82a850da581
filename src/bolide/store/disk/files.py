"""`RealFiles`: the `Files` of a real host. Only this package of the store calls the operating system.

It uses pwritev, preadv (with RWF_NOWAIT on Linux), maps, fdatasync, lockf and fallocate. See `file_contract`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable
from io import BytesIO
from typing import Final

from bolide.store.disk.atomic_write import NO_LINKS, replace_file
from bolide.store.disk.boot_id import boot_id
from bolide.store.disk.cold_reads import NO_NOWAIT, read_once
from bolide.store.disk.file_contract import (
    BytesUnreadable,
    DiskFull,
    FileFailed,
    FileLocked,
    Files,
    SyncFailed,
    call_failed,
    sync_failed,
)
from bolide.store.disk.file_maps import FileMaps
from bolide.store.disk.posix_locks import PosixLocks
from bolide.store.disk.system_calls import fallocate_call, read_nowait_call, syncfs_call

__all__ = ["BytesUnreadable", "DiskFull", "FileFailed", "FileLocked", "Files", "RealFiles", "SyncFailed"]

_MAX_BUFFERS: Final = 512  # below every system's IOV_MAX (1024 on Linux and macOS)
_RWF_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE
_NO_UNNAMED: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
_NO_RESERVATION: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV, errno.ESPIPE)
_F_FULLFSYNC: Final[int] = getattr(fcntl, "F_FULLFSYNC", 0)
_FILE_MODE: Final = 0o640
_FOLDER_MODE: Final = 0o750
"""The group may read messages, but other users may not. The umask can restrict this further."""


class RealFiles:
    """`Files` on the operating system: pwritev, preadv (RWF_NOWAIT on Linux), fdatasync, lockf."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self._locks = PosixLocks()
        self._nowait = _RWF_NOWAIT
        self._read_nowait = read_nowait_call() or _read_nowait
        self._maps = FileMaps()

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            fd = os.open(path, flags, _FILE_MODE)
        except OSError as error:
            raise call_failed("open", path, error) from error
        try:
            # One call sets the whole length. So a crash leaves either an empty file, which loading deletes, or a file
            # of the right size, but never a file with a size that loading would reject.
            if create and size > 0 and os.fstat(fd).st_size == 0:
                os.ftruncate(fd, size)
        except OSError as error:
            os.close(fd)
            raise call_failed("set the size of", path, error) from error
        self._paths[fd] = path
        return fd

    def close(self, handle: int) -> None:
        path = self._paths.pop(handle, "?")
        self._maps.forget(handle)
        try:
            os.close(handle)
        except OSError as error:
            raise call_failed("close", path, error) from error

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        try:
            if len(buffers) == 1:
                done = os.pwrite(handle, buffers[0], offset)
                if done == len(buffers[0]):
                    return
                buffers = [buffers[0][done:]]
                offset += done
            for first in range(0, len(buffers), _MAX_BUFFERS):
                rest: list[bytes | memoryview] = list(buffers[first : first + _MAX_BUFFERS])
                while rest:
                    done = os.pwritev(handle, rest, offset)
                    offset += done
                    rest = _without(rest, done)
        except OSError as error:
            raise call_failed("write", self._paths.get(handle, "?"), error) from error

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        try:
            data = os.pread(handle, size, offset)
            while 0 < len(data) < size:
                more = os.pread(handle, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        except OSError as error:
            raise call_failed("read", self._paths.get(handle, "?"), error) from error

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        if not self._nowait:
            return self.read_at(handle, size, offset)
        try:
            return self._read_nowait(handle, size, offset, self._nowait)
        except OSError as error:
            if error.errno in NO_NOWAIT:
                self._nowait = 0  # this file system does not support it: treat all later reads as warm
                return self.read_at(handle, size, offset)
            raise call_failed("read", self._paths.get(handle, "?"), error) from error

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        maps = self._maps
        try:
            if maps.can_view_now(handle):
                return maps.view_now(handle, size, offset)
            length = os.lseek(handle, 0, os.SEEK_END)
        except OSError as error:
            raise call_failed("look at", self._paths.get(handle, "?"), error) from error
        if not maps.knows(handle):
            maps.add(handle, length)
        return maps.view(handle, size, offset, length)

    def next_data(self, handle: int, offset: int) -> int:
        if not hasattr(os, "SEEK_DATA"):
            return offset if offset < os.fstat(handle).st_size else -1
        try:
            return os.lseek(handle, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return -1
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return offset if offset < os.fstat(handle).st_size else -1
            raise call_failed("look into", self._paths.get(handle, "?"), error) from error

    def warm(self, path: str, offset: int, size: int) -> None:
        while size > 0:
            done = len(self.fetch(path, offset, min(size, 1 << 20)))
            if done == 0:
                return
            offset += done
            size -= done

    def fetch(self, path: str, offset: int, size: int) -> bytes:
        return self._read_apart(path, offset, size, False)

    def scan(self, path: str, offset: int, size: int) -> bytes:
        return self._read_apart(path, offset, size, True)

    def _read_apart(self, path: str, offset: int, size: int, once: bool) -> bytes:
        # A separate descriptor: the handle of the loop may be closed or its number reused while this thread reads.
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise call_failed("open", path, error) from error
        try:
            if once:
                return read_once(fd, size, offset, self._nowait, self._read_nowait)
            return os.pread(fd, size, offset)
        except OSError as error:
            raise call_failed("read", path, error) from error
        finally:
            os.close(fd)

    def datasync(self, handle: int) -> None:
        try:
            if _F_FULLFSYNC:
                fcntl.fcntl(handle, _F_FULLFSYNC)  # macOS: fsync alone leaves the bytes in the drive's cache
            else:
                os.fdatasync(handle)
        except OSError as error:
            raise sync_failed(self._paths.get(handle, "?"), error) from error

    def sync_dir(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise call_failed("open", path, error) from error
        try:
            os.fsync(fd)
        except OSError as error:
            raise sync_failed(path, error) from error
        finally:
            os.close(fd)

    def sync_file_systems(self, folders: set[str]) -> bool:
        syncfs = syncfs_call()
        if syncfs is None:
            return False
        one_of_each = {_device(folder): folder for folder in folders}
        for device, folder in one_of_each.items():
            if device >= 0:
                self._sync_file_system(syncfs, folder)
        return True

    def _sync_file_system(self, syncfs: Callable[[int], int], folder: str) -> None:
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise call_failed("open", folder, error) from error
        try:
            if syncfs(fd) != 0:
                raise sync_failed(folder, OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))
        finally:
            os.close(fd)

    def reserve(self, handle: int, offset: int, size: int) -> None:
        # Never posix_fallocate: if a file system cannot allocate, the C library writes a zero into each block that
        # reads as zero, which could overwrite bytes that another thread has written there in the meantime.
        fallocate = fallocate_call()
        if fallocate is None:
            return
        while fallocate(handle, _KEEP_SIZE, offset, size) != 0:
            number = ctypes.get_errno()
            if number == errno.EINTR:
                continue
            if number in _NO_RESERVATION:
                return
            path = self._paths.get(handle, "?")
            raise call_failed("reserve blocks of", path, OSError(number, os.strerror(number)))

    def reserve_new(self, handle: int, size: int) -> None:
        if not hasattr(os, "posix_fallocate"):  # macOS
            return
        try:
            os.posix_fallocate(handle, 0, size)
        except OSError as error:
            if error.errno not in _NO_RESERVATION:
                raise call_failed("reserve blocks of", self._paths.get(handle, "?"), error) from error

    def open_unnamed(self, folder: str) -> int:
        flag = getattr(os, "O_TMPFILE", 0)
        if not flag:
            return -1
        try:
            handle = os.open(folder, os.O_RDWR | os.O_CLOEXEC | flag, _FILE_MODE)
        except OSError as error:
            if error.errno in _NO_UNNAMED:
                return -1
            raise call_failed("make a file in", folder, error) from error
        self._paths[handle] = folder
        return handle

    def link_unnamed(self, handle: int, path: str) -> bool:
        try:
            # With a folder's descriptor, Python calls linkat. Only linkat follows the link to the open file.
            folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
        except OSError:
            return False  # created by another thread in the meantime, or links are not supported
        self._paths[handle] = path
        return True

    def truncate(self, handle: int, size: int) -> None:
        try:
            os.ftruncate(handle, size)
        except OSError as error:
            raise call_failed("set the size of", self._paths.get(handle, "?"), error) from error

    def link(self, source: str, target: str) -> bool:
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno == errno.EXDEV or error.errno in NO_LINKS:
                return False
            raise call_failed("link", source, error) from error
        return True

    def rename(self, source: str, target: str) -> None:
        try:
            os.replace(source, target)
        except OSError as error:
            raise call_failed("rename", source, error) from error

    def remove(self, path: str) -> None:
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise call_failed("delete", path, error) from error

    def make_dir(self, path: str) -> None:
        try:
            _make_folders(path)
        except OSError as error:
            raise call_failed("make the folder", path, error) from error

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise call_failed("list", path, error) from error

    def size(self, path: str) -> int:
        found = _status(path)
        return -1 if found is None or stat.S_ISDIR(found.st_mode) else found.st_size

    def links(self, path: str) -> int:
        found = _status(path)
        return 0 if found is None or stat.S_ISDIR(found.st_mode) else found.st_nlink

    def modified_ms(self, path: str) -> int:
        found = _status(path)
        return -1 if found is None else found.st_mtime_ns // 1_000_000

    def read_file(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise call_failed("read", path, error) from error

    def write_file(self, path: str, data: bytes) -> None:
        try:
            replace_file(path, data)
        except OSError as error:
            raise call_failed("write", path, error) from error
        self.sync_dir(os.path.dirname(path) or ".")

    def lock(self, path: str) -> int:
        return self._locks.lock(path, _FILE_MODE)

    def unlock(self, handle: int) -> None:
        self._locks.unlock(handle)

    def disk_use(self, path: str) -> float:
        try:
            found = os.statvfs(path)
        except OSError as error:
            raise call_failed("look at the partition of", path, error) from error
        used = found.f_blocks - found.f_bfree
        whole = used + found.f_bavail
        return used / whole if whole > 0 else 0.0

    def process_id(self) -> int:
        return os.getpid()

    def boot_id(self, path: str) -> str:
        status, boot = _status(path), boot_id()
        return f"{boot}.{status.st_dev:x}" if boot and status is not None else boot

    def local_time(self, time_ms: int) -> str:
        return time.strftime("%Y%m%d%H%M%S", time.localtime(time_ms // 1000)) + str(time_ms % 1000).zfill(3)


def _status(path: str) -> os.stat_result | None:
    """Return the status of a file, or None if it is missing. Raises `FileFailed`."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise call_failed("look at", path, error) from error


def _read_nowait(handle: int, size: int, offset: int, flags: int) -> bytes | None:
    """Return bytes of a file, fewer at its end, or None if they are not in memory (as requested by the flags).

    Only `preadv` accepts the flags, and it needs a writable buffer. A BytesIO provides its memory as such a buffer, and
    returns it without a copy once no view is left. So bytes are copied from the page cache exactly once.
    """
    buffer = BytesIO(bytes(size))
    have = 0
    try:
        with buffer.getbuffer() as view:
            while have < size:
                done = os.preadv(handle, [view[have:] if have else view], offset + have, flags)
                if done == 0:
                    break
                have += done
    except BlockingIOError:
        return None
    if have < size:
        buffer.truncate(have)
    return buffer.getvalue()


def _without(buffers: list[bytes | memoryview], done: int) -> list[bytes | memoryview]:
    """Return the remaining buffers after their first `done` bytes are written."""
    for index, buffer in enumerate(buffers):
        if done < len(buffer):
            return [memoryview(buffer)[done:], *buffers[index + 1 :]]
        done -= len(buffer)
    return []


def _make_folders(path: str) -> None:
    """Create a folder and its missing parents for this user and group only; `os.makedirs` makes parents
    world-accessible."""
    missing: list[str] = []
    while path and not os.path.isdir(path):
        missing.append(path)
        above = os.path.dirname(path.rstrip("/"))
        if above == path:
            break
        path = above
    for folder in reversed(missing):
        try:
            os.mkdir(folder, _FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise


def _device(folder: str) -> int:
    """Return the file system of a folder, or -1 if it is missing because its topic was deleted."""
    try:
        return os.stat(folder).st_dev
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise call_failed("look for", folder, error) from error
