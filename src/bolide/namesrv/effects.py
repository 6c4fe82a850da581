"""The effects of a request on a name server besides its answer; the owner of sockets and files carries them out."""

from __future__ import annotations

from typing import Final, NamedTuple

KV_FILE: Final = "kvConfig.json"


class CloseChannel(NamedTuple):
    """Close a connection: its broker gave no sign of life."""

    channel_id: int
    reason: str


class PersistFile(NamedTuple):
    """Write a file atomically, the last of equal names wins. name: `KV_FILE`."""

    name: str
    data: bytes


class TellBroker(NamedTuple):
    """Send a broker a request at the address it registered; there is no answer."""

    addr: str
    code: int
    ext: dict[str, str]
    body: bytes = b""


class KeepSettings(NamedTuple):
    """Write these settings, by Java key, into the file the name server is started with; its other lines stay."""

    changes: dict[str, str]


Effect = CloseChannel | PersistFile | KeepSettings | TellBroker


class NamesrvEffects:
    """The effects of the calls since `take`."""

    def __init__(self) -> None:
        self._waiting: list[Effect] = []

    def add(self, effect: Effect) -> None:
        """Ask for an effect."""
        self._waiting.append(effect)

    def take(self) -> list[Effect]:
        """All effects asked for, in order; they are the caller's now."""
        taken, self._waiting = self._waiting, []
        return taken
