"""Divides the limit of open files between connections and the store's files.

A broker raises its soft limit to the hard limit (`world/open_files.py`). The store reserves a quarter for its queues
and a fixed number for other files, which connections cannot use. Connections get the rest.
"""

from __future__ import annotations

from typing import Final

from bolide.errors import ConfigError

SHARE: Final = 4
LEAST: Final = 64
"""Minimum number of open files that a store needs to work."""
MOST: Final = 16_384
"""Maximum number of queue and index files that a store keeps open; more have no benefit."""
OTHERS: Final = 128
"""Descriptors reserved for other uses: log files, files opened briefly by the pool, tables, listeners, refused
connections, and connections to name servers."""


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
