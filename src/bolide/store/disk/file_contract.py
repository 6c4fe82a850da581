"""File system interface of the store, as a Protocol, and its errors.

All disk access of the store goes through `Files`, so that tests can replace it with
`bolide.testing.files.SimulatedFiles` and simulate a power failure between any two calls. Guarantees:

* After a *process crash*, everything that a call wrote exists, because the kernel has it.
* After a *power failure*, only bytes followed by `datasync` of their handle, names followed by `sync_dir` of their
  folder, and files written by `write_file` are safe. Anything else may exist completely, in part, or not at all, in any
  order.

A handle is an int, offsets and sizes are bytes, and times are milliseconds since the epoch. All calls are thread-safe
as long as no two threads write the same bytes through one handle.
"""

from __future__ import annotations

import errno
from typing import Final, Protocol

from bolide.errors import LocalError, PeerError

_UNREADABLE: Final = frozenset(
    {errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO), getattr(errno, "EREMOTEIO", errno.EIO)}
)


class FileFailed(LocalError):
    """A file operation of the operating system failed. The message names the operation, the path and the reason."""


class DiskFull(FileFailed):
    """The device is full (or the quota is used up). Writes fail until space is freed."""

    retriable = True


class SyncFailed(FileFailed):
    """A sync failed: bytes written since the last successful sync may be lost, and a second sync would not report
    it."""


class BytesUnreadable(FileFailed):
    """The disk, or the file system's own checksum, failed a read: the bytes are lost unless a later read succeeds."""


class FileLocked(PeerError):
    """Another process, or another store of this process, holds the lock file."""


def sync_failed(path: str, error: OSError) -> SyncFailed:
    """Return the error for a failed sync."""
    return SyncFailed(f"cannot sync {path}: {error.strerror or error}; what was written to it may be lost")


def call_failed(verb: str, path: str, error: OSError) -> FileFailed:
    """Return the error for any other failed call."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"cannot {verb} {path}: the disk is full; free space or add a larger disk")
    text = f"cannot {verb} {path}: {error.strerror or error}"
    return BytesUnreadable(text) if verb == "read" and error.errno in _UNREADABLE else FileFailed(text)


class Files(Protocol):
    """File system operations that the store needs. Every method raises `FileFailed` (`DiskFull` if there is no
    space)."""

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        """Open a file for reading and writing, and return a handle. With `create`, create a missing file with `size`
        zero bytes (sparse)."""
        ...

    def close(self, handle: int) -> None:
        """Close the handle. Never loses written bytes."""
        ...

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        """Write all buffers contiguously, starting at `offset`. Return once the kernel has accepted every byte."""
        ...

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end of the file. May block on the disk."""
        ...

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        """Like `read_at`, but return None instead of waiting for the disk if the bytes are not in memory."""
        ...

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        """Like `read_warm`, but return a view for the loop's thread. Copy from it before any other call.

        Return None if a part is not in memory or past the end of the file, or if views are not supported. The caller
        must then use `read_warm`.
        """
        ...

    def next_data(self, handle: int, offset: int) -> int:
        """Return the first offset at or after this one that may contain non-zero bytes, or -1 if there is none."""
        ...

    def warm(self, path: str, offset: int, size: int) -> None:
        """Load a range into memory, so that `read_warm` finds it. For pool threads. Ignores a missing file."""
        ...

    def fetch(self, path: str, offset: int, size: int) -> bytes:
        """Like `warm`, but return the bytes: fewer at the end of the file, or b"" if the file is missing."""
        ...

    def scan(self, path: str, offset: int, size: int) -> bytes:
        """Like `fetch`, for bytes that are read only once: removes bytes from memory that were not there before, if the
        system allows. Raises `BytesUnreadable` if the disk fails the read."""
        ...

    def datasync(self, handle: int) -> None:
        """Sync the written bytes and the size of this file. Raises `SyncFailed`."""
        ...

    def sync_dir(self, path: str) -> None:
        """Sync the names created, renamed or removed in this folder. Raises `SyncFailed`."""
        ...

    def sync_file_systems(self, folders: set[str]) -> bool:
        """Sync all bytes written to the file systems of these folders.

        Replaces thousands of file syncs. Return False without any effect if it is not supported.
        """
        ...

    def reserve(self, handle: int, offset: int, size: int) -> None:
        """Allocate blocks for a range within the file, so that writes there do not find a full disk.

        Changes neither bytes nor length, even while another thread writes there. Does nothing if the file system does
        not support it: a full disk is then detected at the write.
        """
        ...

    def reserve_new(self, handle: int, size: int) -> None:
        """Allocate blocks for the first `size` bytes of a new file that is not open elsewhere. Writes zeros if the file
        system cannot allocate."""
        ...

    def open_unnamed(self, folder: str) -> int:
        """Create a file without a name, for `link_unnamed`. Return -1 if the file system does not support it."""
        ...

    def link_unnamed(self, handle: int, path: str) -> bool:
        """Name the file of `open_unnamed`. Return False without any effect if the name exists or cannot be created."""
        ...

    def truncate(self, handle: int, size: int) -> None:
        """Set the length. Added bytes read as zeros."""
        ...

    def link(self, source: str, target: str) -> bool:
        """Give a file a second name (a hard link). Return False without any effect if the system does not allow it,
        for example because the names are on different file systems."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target` with `source`."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file or an empty folder. Ignores a missing one. Open handles remain readable."""
        ...

    def make_dir(self, path: str) -> None:
        """Create a folder and its parents. Ignores an existing one."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted, or [] if it is missing or not a folder."""
        ...

    def size(self, path: str) -> int:
        """Return the length of a file in bytes, or -1 if it is missing or a folder."""
        ...

    def links(self, path: str) -> int:
        """Return the number of names (hard links) of a file, or 0 if it is missing or a folder."""
        ...

    def modified_ms(self, path: str) -> int:
        """Return the time of the last write in ms, or -1 if the file is missing."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """Return the whole file, or None if it is missing."""
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file atomically and durably. The previous content remains in `path` + `.bak`."""
        ...

    def lock(self, path: str) -> int:
        """Acquire the lock of Java's broker: exclusive, first byte of `path`. Raises `FileLocked` if it is held."""
        ...

    def unlock(self, handle: int) -> None:
        """Release the lock."""
        ...

    def disk_use(self, path: str) -> float:
        """Return the disk usage (0.0 to 1.0) of the partition of `path`, without the space reserved for root."""
        ...

    def process_id(self) -> int:
        """Return the id of this process, for the file `abort`."""
        ...

    def boot_id(self, path: str) -> str:
        """Return an id of this boot of the host and of the device of `path`: one word, or "" if unsupported. While it
        is unchanged, the page cache has lost no data."""
        ...

    def local_time(self, time_ms: int) -> str:
        """Format a time as 17 digits yyyyMMddHHmmssSSS in the host's time zone, for names of index files."""
        ...
