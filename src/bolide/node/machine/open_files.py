"""Divides the limit of open files between connections and the store's files.

Like a JVM (MaxFDLimit), a broker raises its soft limit to the hard limit. The store reserves a quarter for its queues
and a fixed number for other files, which connections cannot use. Connections get the rest.
"""

from __future__ import annotations

import resource
from typing import Final

from bolide.errors import ConfigError

ENOUGH: Final = 65_536
SHARE: Final = 4
LEAST: Final = 64
"""Minimum number of open files that a store needs to work."""
MOST: Final = 16_384
"""Maximum number of queue and index files that a store keeps open; more have no benefit."""
OTHERS: Final = 128
"""Descriptors reserved for other uses: log files, files opened briefly by the pool, tables, listeners, refused
connections, and connections to name servers."""


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard limit, but at most to `ENOUGH`. Return the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has an undocumented lower limit
            return soft
        return wanted
    return ENOUGH if soft == resource.RLIM_INFINITY else soft


def share_of_store(limit: int) -> int:
    """Return how many queue and index files the store may keep open. `limit`: maximum open files of the process.

    Raises `ConfigError` if the limit is too low for a store.
    """
    share = min(MOST, limit // SHARE)
    if share < LEAST:
        raise ConfigError(f"only {limit} files may be open, a broker needs {SHARE * LEAST}: raise it with ulimit -n")
    return share


def share_of_connections(limit: int, most: int, store: int = 0) -> int:
    """Return how many connections may be open. `limit`: maximum open files of the process; `most`: limit in the
    settings; `store`: open files of the store."""
    return max(1, min(most, limit - store - OTHERS))
