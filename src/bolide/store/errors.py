"""Errors of the store, in addition to those of `store.disk.files`.

In a separate module, because the modules that raise them are compiled, and a native class cannot extend an interpreted
exception.
"""

from __future__ import annotations

from bolide.errors import LocalError, PeerError


class StoreDamaged(LocalError):
    """Files of a store are inconsistent. The message names them and the remedy."""


class RecordDamaged(LocalError):
    """A record of the log does not match its CRC. The text names its queue and offset, and what to do."""


class MessageIllegal(PeerError):
    """The message is invalid: a part is too long."""

    code = 13


class ServiceNotAvailable(LocalError):
    """The store rejects messages now: disk full, a failed write or sync, closing, or not loaded."""

    code = 14
    retriable = True


class NotTheLog(PeerError):
    """A master sent bytes that cannot belong to this log at this offset."""
