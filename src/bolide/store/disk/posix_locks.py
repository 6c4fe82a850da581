"""File locks with lockf, as Java's broker locks the folder of a store."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Final

from bolide.store.disk.file_contract import FileLocked, call_failed

LOCK_BYTES: Final = b"lock"  # content of the lock file, as in Java's broker


class PosixLocks:
    """The locks of one `RealFiles`, by descriptor."""

    _locked: Final[set[str]] = set()  # POSIX locks do not exclude a second lock of the same process

    def __init__(self) -> None:
        self._locks: dict[int, str] = {}

    def lock(self, path: str, mode: int) -> int:
        """Lock the first byte of a file, which is created with `mode`. Return its descriptor.

        Raises `FileLocked` if the file is locked by this or another process, and `FileFailed` if a call fails.
        """
        key = os.path.realpath(path)
        if key in PosixLocks._locked:
            raise FileLocked(f"{path} is already locked by this process; close the other store first")
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError as error:
            raise call_failed("open", path, error) from error
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            os.pwrite(fd, LOCK_BYTES, 0)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise FileLocked(
                    f"{path} is locked by another process; stop the broker that uses the folder"
                ) from error
            raise call_failed("lock", path, error) from error
        PosixLocks._locked.add(key)
        self._locks[fd] = key
        return fd

    def unlock(self, handle: int) -> None:
        """Release the lock and close its descriptor. Raises `FileFailed` if the call fails."""
        PosixLocks._locked.discard(self._locks.pop(handle, ""))
        try:
            os.close(handle)  # closing the descriptor releases the lock
        except OSError as error:
            raise call_failed("unlock", "lock file", error) from error
