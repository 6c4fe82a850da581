"""How many files this process may have open: connections and queue files share the limit.

A JVM raises its soft limit to the hard one by itself (MaxFDLimit), so a broker does; where that is still few, the store
keeps fewer of its files open, and connections have the rest.
"""

from __future__ import annotations

import resource
from typing import Final

from bolide.errors import ConfigError

ENOUGH: Final = 65_536
SHARE: Final = 4
LEAST: Final = 64
"""Files a store needs open to work at all."""


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


def share_of_store(limit: int, most: int) -> int:
    """Queue and index files the store keeps open, of a limit. Raises `ConfigError` when nothing would be left."""
    share = min(most, limit // SHARE)
    if share < LEAST:
        raise ConfigError(f"only {limit} files may be open, a broker needs {SHARE * LEAST}: raise it with ulimit -n")
    return share
