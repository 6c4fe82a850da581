"""How many files this process may have open: connections and the store's files share the limit.

Like a JVM (MaxFDLimit), a broker raises its soft limit to the hard one. The store has a quarter for its queues and some
for the rest, which no number of connections can take from it; connections have what is left.
"""

from __future__ import annotations

import resource
from typing import Final

from bolide.errors import ConfigError

ENOUGH: Final = 65_536
SHARE: Final = 4
LEAST: Final = 64
"""Files a store needs open to work at all."""
MOST: Final = 16_384
"""Most queue and index files a store keeps open; more gain nothing."""
OTHERS: Final = 128
"""Descriptors for all else: files of the log, what the pool opens for a moment, tables, listeners, connections that
are being refused, and those to name servers."""


def raise_limit() -> int:
    """Raise the soft limit as far as it goes and is of use; the limit that holds then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has a lower bound of its own that it does not tell
            return soft
        return wanted
    return ENOUGH if soft == resource.RLIM_INFINITY else soft


def share_of_store(limit: int) -> int:
    """Queue and index files the store keeps open, of a limit. Raises `ConfigError` when nothing would be left."""
    share = min(MOST, limit // SHARE)
    if share < LEAST:
        raise ConfigError(f"only {limit} files may be open, a broker needs {SHARE * LEAST}: raise it with ulimit -n")
    return share


def share_of_connections(limit: int, most: int, store: int = 0) -> int:
    """Connections that may be open beside the store's share; `most` is what the settings allow."""
    return max(1, min(most, limit - store - OTHERS))
