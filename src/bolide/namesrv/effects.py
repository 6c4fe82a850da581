"""Side effects of a request on a name server. The node that owns sockets and files applies them."""

from __future__ import annotations

from typing import Final, NamedTuple

KV_FILE: Final = "kvConfig.json"


class CloseChannel(NamedTuple):
    """Close a connection, because its broker does not send heartbeats."""

    channel_id: int
    reason: str


class PersistFile(NamedTuple):
    """Write a file atomically. The last of equal names wins. `name` is `KV_FILE`."""

    name: str
    data: bytes


class TellBroker(NamedTuple):
    """Send a oneway request to a broker at its registered address."""

    addr: str
    code: int
    ext: dict[str, str]
    body: bytes = b""


class KeepSettings(NamedTuple):
    """Write these settings, by Java key, to the settings file of the name server. Other lines stay unchanged."""

    changes: dict[str, str]


Effect = CloseChannel | PersistFile | KeepSettings | TellBroker


class NamesrvEffects:
    """The effects of the calls since the last `take`."""

    def __init__(self) -> None:
        self._waiting: list[Effect] = []

    def add(self, effect: Effect) -> None:
        """Add an effect."""
        self._waiting.append(effect)

    def take(self) -> list[Effect]:
        """Remove and return all effects, in order."""
        taken, self._waiting = self._waiting, []
        return taken
