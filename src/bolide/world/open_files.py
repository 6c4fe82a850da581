"""Raises the limit of open files of this process, which also limits its connections."""

from __future__ import annotations

import resource
from typing import Final

ENOUGH: Final = 65_536


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard limit, but at most to `ENOUGH`. Return the resulting limit.

    A JVM does the same (MaxFDLimit).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has an undocumented lower limit
            return soft
        return wanted
    return ENOUGH if soft == resource.RLIM_INFINITY else soft
