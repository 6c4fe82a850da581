"""The process id without a system call: it changes only in a fork, which runs a hook."""

from __future__ import annotations

import os

_pid = os.getpid()


def process_id() -> int:
    """Return the process id like `os.getpid`, but fast enough to call for each message."""
    return _pid


def is_parents(pid: int) -> bool:
    """Return whether a client that was started in process `pid` (0:
    not started) belongs to the parent of a forked child."""
    return pid not in (0, _pid)


def _forked() -> None:
    global _pid
    _pid = os.getpid()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)
