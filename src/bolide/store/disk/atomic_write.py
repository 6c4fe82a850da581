"""Replaces a small file atomically, and keeps the previous one as `.bak`. Used for settings and tables."""

from __future__ import annotations

import errno
import os
from typing import Final

NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)
"""Errors of link() on vfat, exFAT and many network mounts, and with fs.protected_hardlinks."""


def replace_file(path: str, data: bytes) -> None:
    """Write `data` to a new file, sync it, and rename it to `path`. Raises `OSError` if a step fails.

    The new name survives a power failure only once the caller has synced the folder.
    """
    fresh = path + ".tmp"
    kept = path + ".bak"
    # A crash here leaves a torn .tmp file. It is never read, and the next write replaces it.
    with open(fresh, "wb", opener=_private) as file:
        # A file keeps its mode. A new one is accessible only to its owner, because it may contain a password.
        os.fchmod(file.fileno(), _mode_of(path))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    # Without the fsync above, the rename could survive a power failure that destroys the bytes.
    if os.path.exists(path):
        _unlink_quietly(kept + ".tmp")
        _second_name(path, kept + ".tmp")
        os.replace(kept + ".tmp", kept)
    # A crash here leaves the old content in `path` and in .bak.
    os.replace(fresh, path)


def _second_name(path: str, second: str) -> None:
    """Give the file a second name: a hard link, or a copy if the file system does not support or allow links."""
    try:
        os.link(path, second)
        return
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
    with open(path, "rb") as source, open(second, "wb") as target:
        target.write(source.read())
        target.flush()
        os.fsync(target.fileno())


def _unlink_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _mode_of(path: str) -> int:
    """Return the permissions of a file, or private permissions if it does not exist."""
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return 0o600
