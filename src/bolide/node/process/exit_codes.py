"""The exit statuses of a daemon, by which its supervisor decides whether to restart it."""

from __future__ import annotations

import errno
from typing import Final

from bolide.controller.replica_set import StateDamaged
from bolide.errors import ConfigError
from bolide.store.errors import StoreDamaged

STOPPED: Final = 0
"""Asked to stop, and did so cleanly."""
FAILED: Final = 1
"""Ended by a fault: starting it again may help."""
BAD_CONFIG: Final = 2
"""A setting or the store's files are wrong: starting it again cannot help."""
STORE_FAILED: Final = 74
"""A sync of the log failed (EX_IOERR): its pages cannot be trusted, a person has to look at the disk."""

RESTART_HELPS: Final = frozenset({FAILED})
_PASSES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def restartable(status: int) -> bool:
    """True when a supervisor should start the process again: a fault, or a signal nobody meant (SIGKILL, SIGSEGV)."""
    return status in RESTART_HELPS or status < 0


def of_failed_start(error: BaseException) -> int:
    """The status of a start that failed. A file that lacked only a descriptor or memory to be read is not wrong."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _PASSES:
            return FAILED
        cause = cause.__cause__
    return BAD_CONFIG if isinstance(error, ConfigError | StateDamaged | StoreDamaged) else FAILED
