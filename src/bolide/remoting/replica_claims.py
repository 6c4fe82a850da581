"""Extension fields of Bolide in a replica's requests to its controller: 904, 1001, 1002 and 1003.

RocketMQ's brokers do not send them, and its controller ignores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bolide.remoting.errors import HeaderError

_LIFE: Final = "bolideLife"
_BEFORE: Final = "bolideLifeBefore"
_LEADS: Final = "bolideLeads"
_CONFIRMED: Final = "bolideConfirmed"
_SYNCED: Final = "bolideSynced"
_NUMBER: Final = "bolideBeat"
_MOST: Final = 128
"""Maximum length of a life token in characters."""
NOT_KNOWN: Final = -1
"""Value of an unknown epoch or offset."""


class Claims(NamedTuple):
    """A replica's claims about itself. A field that it does not send has the default."""

    life: str = ""
    """Random token of the process that uses this store. Each start creates a new token."""
    before: str = ""
    """The token of the previous start, sent when a replica registers."""
    leads: int = NOT_KNOWN
    """The epoch in which this replica is the master."""
    confirmed: int = NOT_KNOWN
    """Log offset below which all in-sync replicas have the log. Sent by a master whose sends wait for them."""
    synced: bool = False
    """Whether the log below `confirmed` is on the master's disk before it is acknowledged."""
    number: int = NOT_KNOWN
    """Number of a heartbeat since the start of the broker. It grows by one, so a recorded heartbeat is not a sign of
    life."""

    def to_ext(self) -> dict[str, str]:
        """Return the fields to send."""
        ext = {_LIFE: self.life} if self.life else {}
        if self.before:
            ext[_BEFORE] = self.before
        for key, value in ((_LEADS, self.leads), (_CONFIRMED, self.confirmed), (_NUMBER, self.number)):
            if value >= 0:
                ext[key] = str(value)
        if self.synced:
            ext[_SYNCED] = "true"
        return ext


NO_CLAIMS: Final = Claims()


def claims_of(ext: Mapping[str, str]) -> Claims:
    """Read the fields of a request. Raises `HeaderError`."""
    return Claims(
        _token(ext, _LIFE),
        _token(ext, _BEFORE),
        _number(ext, _LEADS),
        _number(ext, _CONFIRMED),
        ext.get(_SYNCED) == "true",
        _number(ext, _NUMBER),
    )


def _token(ext: Mapping[str, str], key: str) -> str:
    text = ext.get(key, "")
    if len(text) > _MOST:
        raise HeaderError(f"the field {key} has {len(text)} characters; at most {_MOST} are allowed")
    return text


def _number(ext: Mapping[str, str], key: str) -> int:
    text = ext.get(key)
    if text is None:
        return NOT_KNOWN
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 1 << 63):
        raise HeaderError(f"the field {key} is {text[:40]!r}; it must be a whole number below 2^63")
    return int(text)
