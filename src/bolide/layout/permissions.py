"""Bits of a topic's, a queue's and a broker's permission: RocketMQ's PermName (docs/protocol/remoting.md 10)."""

from __future__ import annotations

from typing import Final

PERM_INHERIT: Final = 0x1
"""Set on a template topic: topics may be created from it."""
PERM_WRITE: Final = 0x2
PERM_READ: Final = 0x4
PERM_PRIORITY: Final = 0x8

PERM_NONE: Final = 0
PERM_READ_WRITE: Final = 6
PERM_ALL: Final = 7
"""Read, write and inherit; also the highest valid value."""
