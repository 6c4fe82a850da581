"""Outcomes of handlers: a closed set, applied only by the node's executor (see service.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.link import Buffer
from bolide.remoting.command import Command
from bolide.store.disk.extents import Extent
from bolide.store.disk.reads import Fetched


@final
class Reply:
    """Respond at the end of this turn with a command, or with an encoded frame (`command` is then None).

    ``body``: buffers that follow the frame and are included in its length. They are sent without being joined.
    """

    def __init__(self, command: Command | None, frame: bytes = b"", body: list[Buffer] | None = None) -> None:
        self.command: Command | None = command
        self.frame: bytes = frame
        self.body: list[Buffer] | None = body


@final
class Parked:
    """Respond once the log is confirmed and dispatched up to `offset` (physical end of the appended records).

    With ``wait`` False (message property WAIT=false), respond as soon as the turn is written, flushed or not.
    """

    def __init__(self, reply: Reply, offset: int, wait: bool = True) -> None:
        self.reply: Reply = reply
        self.offset: int = offset
        self.wait: bool = wait
        self.after: Callable[[bytes], None] | None = None
        """Called by hooks with the final frame when it is sent."""


@final
class HeldPull:
    """A pull without result, held until a matching record arrives or `deadline` (ms since epoch) passes.

    A record matches if its tags code is in ``tag_codes`` and ``predicate(properties)`` is true of its raw properties; a
    test that is None matches every record. ``again(now)`` runs the whole pull again without holding.
    """

    def __init__(
        self,
        channel: Channel,
        command: Command,
        topic: str,
        *,
        queue_id: int,
        offset: int,
        deadline: int,
        again: Callable[[int], Outcome],
    ) -> None:
        self.channel: Channel = channel
        self.command: Command = command
        self.topic: str = topic
        self.queue_id: int = queue_id
        self.offset: int = offset
        self.deadline: int = deadline
        self.tag_codes: set[int] | None = None
        self.predicate: Callable[[bytes], bool] | None = None
        self.again: Callable[[int], Outcome] = again
        self.cost: int = 1
        """Cost of checking one record, relative to a check of its tags."""
        self.waiting: bool = False
        """Whether it is in the hold table."""


@final
class Hold:
    """Put this pull into the hold table. Sends no response now."""

    def __init__(self, held: HeldPull) -> None:
        self.held: HeldPull = held


@final
class Cold:
    """Missing data: read `extents` (from the store's ReadResult) in the pool, then run `again(now)`.

    The outcome of `again` may be `Cold` again; the executor responds with code 1 after a few rounds. With `fetched` the
    data is kept there for `again`, which then gets further each time and has no limit of rounds.
    """

    def __init__(self, extents: list[Extent], again: Callable[[int], Outcome], fetched: Fetched | None = None) -> None:
        self.extents: list[Extent] = extents
        self.fetched: Fetched | None = fetched
        self.again: Callable[[int], Outcome] = again


@final
class Ask:
    """Send `command` to another client on `channel`, and respond with the result of `then(response, now)`.

    `response` is None if the channel closes or is not writable, or after `timeout` ms.
    """

    def __init__(
        self, channel: Channel, command: Command, timeout: int, then: Callable[[Command | None, int], Outcome]
    ) -> None:
        self.channel: Channel = channel
        self.command: Command = command
        self.timeout: int = timeout
        self.then: Callable[[Command | None, int], Outcome] = then


@final
class Nothing:
    """No response: the request is oneway by protocol."""


Outcome: TypeAlias = Reply | Parked | Hold | Cold | Ask | Nothing
Handler: TypeAlias = Callable[[Channel, Command, int], Outcome]

NOTHING: Final = Nothing()


def reply(command: Command) -> Reply:
    """Respond with this command."""
    return Reply(command, b"")
