"""What the store needs of a file system, as a Protocol, and the errors of it.

Everything the store does to a disk goes through `Files`, so that tests can put `bolide.testing.files.SimulatedFiles`
in its place and cut the power between any two calls. What each call promises about a crash:

* of the *process*: whatever a call wrote is kept, the kernel still holds it;
* of the *power*: only bytes followed by `datasync` of their handle, names followed by `sync_dir` of their folder, and
  what `write_file` wrote are certain; anything else may be there whole, in part, or not at all, in any order.

A handle is an int, an offset and a size are bytes, times are milliseconds since the epoch. All calls are safe from
several threads as long as no two use one handle for writing the same bytes.
"""

from __future__ import annotations

import errno
from typing import Protocol

from bolide.errors import LocalError, PeerError


class FileFailed(LocalError):
    """The operating system refused a file operation; the text names the operation, the path and the reason."""


class DiskFull(FileFailed):
    """No room left on the device (or the quota is used up); nothing can be written until space is freed."""

    retriable = True


class SyncFailed(FileFailed):
    """A sync failed: what was written since the last good one may be lost, and a second sync would not say so."""


class FileLocked(PeerError):
    """Another process, or another store of this process, holds the lock file."""


def sync_failed(path: str, error: OSError) -> SyncFailed:
    """What a sync raises for an error of the operating system."""
    return SyncFailed(f"cannot sync {path}: {error.strerror or error}; what was written to it may be lost")


def call_failed(verb: str, path: str, error: OSError) -> FileFailed:
    """What every other call raises for an error of the operating system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"cannot {verb} {path}: the disk is full; free space or add a larger disk")
    return FileFailed(f"cannot {verb} {path}: {error.strerror or error}")


class Files(Protocol):
    """What the store needs of a file system. Every method raises `FileFailed` (`DiskFull` when there is no room)."""

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        """A handle for reading and writing; `create` makes a missing file of `size` zero bytes (sparse)."""
        ...

    def close(self, handle: int) -> None:
        """Give the handle back; never loses what was written."""
        ...

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        """Write all buffers one after the other from `offset` on; returns when the kernel has taken every byte."""
        ...

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file. May wait for the disk."""
        ...

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        """As `read_at` when the bytes are in memory, None when the disk would have to be waited for."""
        ...

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        """What `read_warm` reads as a view, for the loop's thread, to be copied from before anything else is called.

        None when a part is not in memory, is beyond the file's end, or cannot be had as a view: then ask `read_warm`.
        """
        ...

    def next_data(self, handle: int, offset: int) -> int:
        """The first offset from this one on that may hold something else than zeros; -1 when there is none."""
        ...

    def warm(self, path: str, offset: int, size: int) -> None:
        """Read a range so that `read_warm` finds it; for pool threads. A file that is gone is no error."""
        ...

    def fetch(self, path: str, offset: int, size: int) -> bytes:
        """As `warm`, and gives the bytes, fewer where the file ends; none of a file that is gone."""
        ...

    def datasync(self, handle: int) -> None:
        """Return once every byte written to this file, and its size, will survive a power cut; else `SyncFailed`."""
        ...

    def sync_dir(self, path: str) -> None:
        """Return once the names made, renamed or removed here will survive a power cut; else `SyncFailed`."""
        ...

    def sync_file_systems(self, folders: set[str]) -> bool:
        """Return once everything written to the file systems of these folders will survive a power cut.

        One call in place of one for each of thousands of files. False, with nothing done, where there is no such call.
        """
        ...

    def reserve(self, handle: int, offset: int, size: int) -> None:
        """Give a range within the file real blocks, so that writing there does not meet a full disk.

        Changes no byte and no length, also while another thread writes there. Does nothing where a file system
        cannot do just that: a full disk is then met, and answered, at the write.
        """
        ...

    def reserve_new(self, handle: int, size: int) -> None:
        """Give the first `size` bytes of a new file real blocks. Nobody else may have the file open: where the file
        system cannot reserve, zeros are written.
        """
        ...

    def open_unnamed(self, folder: str) -> int:
        """A new file without a name, for `link_unnamed`; -1 where the file system has no such files."""
        ...

    def link_unnamed(self, handle: int, path: str) -> bool:
        """Give the file of `open_unnamed` its name; False, with nothing done, when that is taken or cannot be given."""
        ...

    def truncate(self, handle: int, size: int) -> None:
        """Set the length; growth reads as zeros."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Put `source` in the place of `target` in one step."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file or an empty folder; one that is missing is no error. Open handles keep reading."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a folder and those above it; one that exists is no error."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """The names in a folder, sorted; [] when it is missing or no folder."""
        ...

    def size(self, path: str) -> int:
        """Length of a file in bytes; -1 when it is missing or a folder."""
        ...

    def links(self, path: str) -> int:
        """Number of names (hard links) of a file; 0 if it is missing or a folder."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written; -1 when it is missing."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """The whole file, or None when it is missing."""
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file whole and durably; the one before stays as `path` + `.bak`."""
        ...

    def lock(self, path: str) -> int:
        """Take the lock Java's broker takes: exclusive, first byte of `path`. Raises `FileLocked` when it is held."""
        ...

    def unlock(self, handle: int) -> None:
        """Give the lock back."""
        ...

    def disk_use(self, path: str) -> float:
        """Used part (0.0 to 1.0) of the partition that holds `path`, of what a user may use."""
        ...

    def process_id(self) -> int:
        """Number of this process, for the file `abort`."""
        ...

    def boot_id(self, path: str) -> str:
        """Return an id of this start of the machine and of the device that holds `path`: one word, or "" if the system
        has none. While it stays the same, the page cache has lost nothing."""
        ...

    def local_time(self, time_ms: int) -> str:
        """A time as the 17 digits yyyyMMddHHmmssSSS of the machine's time zone: index files are named so."""
        ...
