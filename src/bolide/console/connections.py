"""The connections of the console's server: a new connection closes the oldest one with an unfinished request."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bolide.monitor.crowd import make_room

MOST_OPEN: Final = 150
"""Maximum number of connections: each further one closes the oldest that waits for its peer. It must be less than the
number at which the server responds with 503."""
_NUMBERS: Final = count()


class YieldingConnection(H11Protocol):
    """A connection that may be closed to make room: while its request is incomplete, between two requests, and while
    its peer does not read the response.

    It has no idle timeout, because a user may take any time between two pages.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn narrows it, too
        """Count this connection, and close the oldest that waits for its peer if there are too many."""
        super().connection_made(transport)
        self.number = next(_NUMBERS)
        make_room((each for each in self.connections if isinstance(each, YieldingConnection)), MOST_OPEN)

    @property
    def waits(self) -> bool:
        """Whether the connection waits for more of a request, for the next request, or for room in the write buffer."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or self.flow.write_paused

    @property
    def closing(self) -> bool:
        """Whether the connection is closing. `connections` still contains it until the next turn of the loop."""
        return bool(self.transport.is_closing())

    def abort(self) -> None:
        """Close the connection immediately. An orderly close would wait for a peer that does not read."""
        self.transport.abort()
