"""Base classes of a broker's services, and of services whose table is stored in a file.

How to write a service (one file per subject; no sockets, no clock, no threads):

    class LockService(Service):
        def routes(self) -> Routes:                # one row per code; a code served twice prevents startup
            return [Route(codes.UNREGISTER_CLIENT, UnregisterClientRequestHeader, self.on_unregister, Kind.SESSION)]

        def on_unregister(
            self, channel: Channel, command: Command, header: UnregisterClientRequestHeader, now: int
        ) -> Outcome:
            ...
            return reply(make_response(command, SUCCESS))

Override only the hooks that you need. `now` is milliseconds since the epoch, by a clock that never jumps. Use it for
deadlines and intervals. The store's `times` converts it to the wall clock, which labels records. If a handler raises an
exception, the response contains its code (or 1) and its text, and `closes_connection` is honored. A oneway request
never gets a response, whatever the handler returns. Everything that a handler or a tick appends to the store is
written, flushed and dispatched at the end of the same loop turn. A handler that must wait for that returns `Parked`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from mypy_extensions import mypyc_attr

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Handler, Outcome
from bolide.broker.core.role import Role
from bolide.broker.core.rows import Text
from bolide.broker.options.composed import BrokerOptions
from bolide.remoting.request_routes import Row
from bolide.store.background.arrival import Arrival

Routes: TypeAlias = Sequence[Row[Channel, Outcome]]


@mypyc_attr(allow_interpreted_subclasses=True)
class Service:
    """Base class of services. Its hooks do nothing."""

    def routes(self) -> Routes:
        """Return the routes of its request codes. Called once, at startup."""
        return ()

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers of its codes, including header decoding, for callers without an executor."""
        return {row.code: row.bound() for row in self.routes()}

    def due(self, now: int) -> int | None:
        """Return when to call `tick` next (ms since the epoch), or None.

        Called after each `tick`, after turns with activity, and after `effects.wake(self)`.
        """
        return None

    def tick(self, now: int, budget: int) -> None:
        """Do due work of at most `budget` records. The next tick continues."""

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings (`bolide.declaration`)."""

    def role_changed(self, role: Role, now: int) -> None:
        """Called when the role of a running broker changes: stop or resume background work."""

    def channel_closed(self, channel: Channel, now: int) -> None:
        """Called when a connection closes."""

    def arrived(self, arrivals: list[Arrival], now: int) -> None:
        """Called when records were just dispatched."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Table(Service):
    """A service whose content is stored in config/<persist_name>.json. `effects.persist(persist_name)` and the shutdown
    write it. A short table overrides `encode`, a long one `begin`, `step` and `text` (core/rows.py)."""

    def __init__(self, persist_name: str, persisted_before: str = "") -> None:
        """`persisted_before`: name of the file to load if there is no file of `persist_name`."""
        self.persist_name: str = persist_name
        self.persisted_before: str = persisted_before

    def load(self, data: bytes) -> None:
        """Load the table from its file at startup. If this raises, the caller loads the .bak file."""
        raise TypeError(f"{type(self).__name__} has no load: its file would be overwritten by an empty table")

    def encode(self) -> bytes:
        """Return the current content; b"" writes no file."""
        raise TypeError(f"{type(self).__name__} has no encode")

    def begin(self) -> None:
        """Start a write. Later changes belong to the next write."""

    def step(self, most: int) -> bool:
        """Encode at most `most` rows. Return True once all rows are encoded."""
        return True

    def text(self) -> bytes | Text:
        """Return the content as of `begin`."""
        return self.encode()

    def written(self) -> None:
        """Called when the content as of `begin` is on disk."""
