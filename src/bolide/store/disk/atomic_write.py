"""Replaces a small file in one step, and keeps the one before as `.bak`: settings and tables are written so."""

from __future__ import annotations

import errno
import os
from typing import Final

_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)
"""What link() says on vfat, exFAT, many network mounts, and under fs.protected_hardlinks."""


def replace_file(path: str, data: bytes) -> None:
    """Write `data` to a new file, sync it, and put it in the place of `path`. Raise `OSError` if a step fails.

    The new name survives a power cut only once the caller has synced the folder.
    """
    fresh = path + ".tmp"
    kept = path + ".bak"
    # Crash here: a torn .tmp, which nobody reads and the next write replaces.
    with open(fresh, "wb", opener=_private) as file:
        # A file keeps its mode; a new one is for its owner only, because it may hold a password.
        os.fchmod(file.fileno(), _mode_of(path))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    # Without this fsync the rename below could survive a power cut that the bytes do not.
    if os.path.exists(path):
        _unlink_quietly(kept + ".tmp")
        _second_name(path, kept + ".tmp")
        os.replace(kept + ".tmp", kept)
    # Crash here: path and .bak are both the old content, and readable.
    os.replace(fresh, path)


def _second_name(path: str, second: str) -> None:
    """Give the file a second name: a hard link, or a copy where the file system or a rule forbids links."""
    try:
        os.link(path, second)
        return
    except OSError as error:
        if error.errno not in _NO_LINKS:
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
    """The permissions of a file; those of a private file when it does not exist."""
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return 0o600
