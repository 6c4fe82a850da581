"""The exit statuses of a server, from which its supervisor decides whether to restart it."""

from __future__ import annotations

import errno
from typing import Final

from bolide.controller.replica_set import StateDamaged
from bolide.errors import ConfigError
from bolide.store.errors import StoreDamaged

STOPPED: Final = 0
"""Stopped cleanly on request."""
FAILED: Final = 1
"""Ended by a fault; a restart may help."""
BAD_CONFIG: Final = 2
"""A setting or the store's files are invalid; a restart cannot help."""
STORE_FAILED: Final = 74
"""A sync of the log failed (EX_IOERR), so its pages cannot be trusted. An operator must check the disk."""

RESTART_HELPS: Final = frozenset({FAILED})
_PASSES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def restartable(status: int) -> bool:
    """Return whether a supervisor should restart the process: after a fault or an unintended signal (SIGKILL,
    SIGSEGV)."""
    return status in RESTART_HELPS or status < 0


def of_failed_start(error: BaseException) -> int:
    """Return the exit status of a failed start. A start that lacked descriptors or memory does not indicate invalid
    files."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _PASSES:
            return FAILED
        cause = cause.__cause__
    return BAD_CONFIG if isinstance(error, ConfigError | StateDamaged | StoreDamaged) else FAILED
