"""The id of this process without a system call: it changes by a fork alone, and a fork says so."""

from __future__ import annotations

import os

_pid = os.getpid()


def process_id() -> int:
    """What `os.getpid` returns, cheap enough to be asked for each message."""
    return _pid


def is_parents(pid: int) -> bool:
    """Whether a client that was started in process `pid` is the parent's, seen from a forked child; 0: not started."""
    return pid not in (0, _pid)


def _forked() -> None:
    global _pid
    _pid = os.getpid()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)
