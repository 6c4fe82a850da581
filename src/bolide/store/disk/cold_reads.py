"""Reads of file ranges that are needed once, so that they do not displace other files from the page cache."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final

NO_NOWAIT: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""Errors of a read that must not wait, on a file system that does not support it."""


def read_once(
    fd: int, size: int, offset: int, flags: int, read_nowait: Callable[[int, int, int, int], bytes | None]
) -> bytes:
    """Read a range, and leave the page cache as it was where the system can.

    `read_nowait` returns the range if it is in memory, else None; `flags` are its flags, 0 if the file system does not
    support it. Raises `OSError`.
    """
    if not flags or not hasattr(os, "posix_fadvise"):
        return os.pread(fd, size, offset)
    try:
        data = read_nowait(fd, size, offset, flags)
    except OSError as error:
        if error.errno not in NO_NOWAIT:
            raise
        return os.pread(fd, size, offset)
    if data is not None:
        return data  # all of it was in memory, and stays there
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead, which would stay in memory
    data = os.pread(fd, size, offset)
    os.posix_fadvise(fd, offset, size, os.POSIX_FADV_DONTNEED)
    return data
