"""Faults that last: each is logged when it begins and when it is over, not at each attempt in between."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final

from bolide.errors import BolideError, ConnectionLost

log = logging.getLogger("bolide.client")

MAX_OPEN: Final = 10_000
"""Faults remembered; beyond that they are logged each time."""
_NAME_SERVERS: Final = "name servers"


class NoNameServer(ConnectionLost):
    """No name server can be reached: the one cause of whatever needs a route."""


class Troubles:
    """The faults of one client. A fault is known by a key of its caller; its text is logged again when it changes."""

    def __init__(self) -> None:
        self._open: dict[Hashable, str] = {}

    @property
    def open(self) -> bool:
        """Whether any fault is known: asked before `over`, where that is called for every answer."""
        return bool(self._open)

    def begin(self, key: Hashable, what: str, error: BolideError) -> None:
        """Log that something failed; the same fault again goes to the debug log. `what` says what failed."""
        text = f"{what}: {error}"
        if isinstance(error, NoNameServer):
            key, text = _NAME_SERVERS, str(error)
        level = logging.DEBUG if self._open.get(key) == text else logging.WARNING
        if len(self._open) < MAX_OPEN or key in self._open:
            self._open[key] = text
        log.log(level, "%s; it is tried again, and this is logged once", text)

    def over(self, key: Hashable) -> None:
        """Log that what failed before works, if it failed."""
        text = self._open.pop(key, None)
        if text is not None:
            log.info("over: %s", text)

    def name_servers_answer(self) -> None:
        """A name server has answered."""
        if self._open:
            self.over(_NAME_SERVERS)
