"""The connections of the console's server: unfinished requests give way to new ones."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bolide.monitor.crowd import make_room

MOST_OPEN: Final = 150
"""Connections after which each new one closes the oldest that waits for its peer. Less than the number at which the
server answers 503."""
_NUMBERS: Final = count()


class YieldingConnection(H11Protocol):
    """A connection that is closed if there are too many, while its request is incomplete, between two requests, and
    while its peer takes no more of an answer.

    Nothing else ends such a connection, because a person may take any time between two pages.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn narrows it, too
        """Count this connection, and close the oldest that waits for its peer if there are too many."""
        super().connection_made(transport)
        self.number = next(_NUMBERS)
        make_room((each for each in self.connections if isinstance(each, YieldingConnection)), MOST_OPEN)

    @property
    def waits(self) -> bool:
        """Whether the rest of a request, the next one, or room for an answer has yet to come."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or self.flow.write_paused

    @property
    def closing(self) -> bool:
        """Those that were aborted in this turn of the loop are lost in the next one only."""
        return bool(self.transport.is_closing())

    def abort(self) -> None:
        """Close it now: an ordinary close would wait for a peer that reads nothing."""
        self.transport.abort()
