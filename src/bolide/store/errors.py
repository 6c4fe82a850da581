"""What can go wrong in the store, beside what `store.disk.files` raises.

Kept apart from the modules that raise them because those are compiled, and a native class cannot extend an
interpreted exception.
"""

from __future__ import annotations

from bolide.errors import LocalError, PeerError


class StoreDamaged(LocalError):
    """Files of a store do not fit together; the text says which and what to do."""


class RecordDamaged(LocalError):
    """A record of the log does not match its CRC. The text names its queue and offset, and what to do."""


class MessageIllegal(PeerError):
    """The message cannot be stored as it is: a part is too long."""

    code = 13


class ServiceNotAvailable(LocalError):
    """The store takes no messages now: disk full, a failed write or sync, closing, or not loaded."""

    code = 14
    retriable = True


class NotTheLog(PeerError):
    """A master sent bytes that cannot be those of this log at this offset."""
