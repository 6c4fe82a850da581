"""Lasting faults: logged when they start and when they end, not at each attempt."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final

from bolide.errors import BolideError, ConnectionLost

log = logging.getLogger("bolide.client")

MAX_OPEN: Final = 10_000
"""Maximum number of stored faults; further faults are logged each time."""
_NAME_SERVERS: Final = "name servers"


class NoNameServer(ConnectionLost):
    """No name server is reachable: the common cause of all failures to get a route."""


class Troubles:
    """The faults of one client. The caller's key identifies a fault; its text is logged again if it changes."""

    def __init__(self) -> None:
        self._open: dict[Hashable, str] = {}

    @property
    def open(self) -> bool:
        """Whether any fault is stored. Code that runs for every response checks this before it calls `over`."""
        return bool(self._open)

    def begin(self, key: Hashable, what: str, error: BolideError) -> None:
        """Log a failure. If the same fault is already stored, log it at debug level. `what` names the failed action."""
        text = f"{what}: {error}"
        if isinstance(error, NoNameServer):
            key, text = _NAME_SERVERS, str(error)
        level = logging.DEBUG if self._open.get(key) == text else logging.WARNING
        if len(self._open) < MAX_OPEN or key in self._open:
            self._open[key] = text
        log.log(level, "%s; it is tried again, and this is logged once", text)

    def over(self, key: Hashable) -> None:
        """Log that a failure has ended, if it was logged."""
        text = self._open.pop(key, None)
        if text is not None:
            log.info("over: %s", text)

    def name_servers_answer(self) -> None:
        """Called when a name server has responded."""
        if self._open:
            self.over(_NAME_SERVERS)
