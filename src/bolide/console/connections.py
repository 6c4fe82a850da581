"""The connections of the console's server: unfinished requests give way to new ones."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_OPEN: Final = 150
"""Connections after which each new one closes the oldest that has no complete request. Less than the number at which
the server answers 503."""
_NUMBERS: Final = count()


class YieldingConnection(H11Protocol):
    """A connection that is closed while its request is incomplete, or between two requests, if there are too many.

    A peer that opens connections and sends no request would otherwise keep everybody out: nothing ends such a
    connection, because a person may take any time between two pages.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn narrows it, too
        """Count this connection, and close the oldest that waits for its peer if there are too many."""
        super().connection_made(transport)
        self.number = next(_NUMBERS)
        # Those that were aborted in this turn of the loop are lost in the next one only.
        opened = [
            each
            for each in self.connections
            if isinstance(each, YieldingConnection) and not each.transport.is_closing()
        ]
        oldest = min((each for each in opened if each.waits), key=lambda each: each.number, default=None)
        if len(opened) > MOST_OPEN and oldest is not None:
            oldest.transport.abort()  # a close would wait for a peer that reads nothing

    @property
    def waits(self) -> bool:
        """Whether the rest of a request, or the next one, has yet to come."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
