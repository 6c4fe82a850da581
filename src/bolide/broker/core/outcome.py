"""What a handler answers: a closed set of outcomes, carried out by the node's executor only (see service.py)."""

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
    """Answer at the end of this turn: a command, or a frame already encoded (`command` is then None).

    ``body`` are buffers that belong behind the frame and were counted in it: they are sent as they are, never joined.
    """

    def __init__(self, command: Command | None, frame: bytes = b"", body: list[Buffer] | None = None) -> None:
        self.command: Command | None = command
        self.frame: bytes = frame
        self.body: list[Buffer] | None = body


@final
class Parked:
    """Answer once the log is confirmed and dispatched up to `offset` (physical end of the records appended).

    ``wait`` False (message property WAIT=false) leaves as soon as the turn is written, flushed or not.
    """

    def __init__(self, reply: Reply, offset: int, wait: bool = True) -> None:
        self.reply: Reply = reply
        self.offset: int = offset
        self.wait: bool = wait
        self.after: Callable[[bytes], None] | None = None
        """Called with the frame when it leaves, whatever it says by then; for hooks."""


@final
class HeldPull:
    """A pull that found nothing: kept until a matching record arrives or `deadline` (ms since epoch) passes.

    A record matches if its tags code is in ``tag_codes`` and ``predicate(properties)`` is true of its raw properties; a
    test that is None matches every record.
    ``again(now)`` runs the whole pull once more with holding switched off.
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
        """What checking one record costs, compared with checking its tags."""
        self.waiting: bool = False
        """True while it is in the hold table."""


@final
class Hold:
    """Put this pull into the hold table; no answer now."""

    def __init__(self, held: HeldPull) -> None:
        self.held: HeldPull = held


@final
class Cold:
    """Bytes needed are not in memory: read `extents` (from the store's ReadResult) in the pool, then run `again(now)`.

    The outcome of `again` may be `Cold` once more; the executor gives up with code 1 after a few rounds. With `fetched`
    the bytes themselves are kept there for `again`, which then gets further each time, and may take any rounds.
    """

    def __init__(self, extents: list[Extent], again: Callable[[int], Outcome], fetched: Fetched | None = None) -> None:
        self.extents: list[Extent] = extents
        self.fetched: Fetched | None = fetched
        self.again: Callable[[int], Outcome] = again


@final
class Ask:
    """Send `command` to another client on `channel` and answer what `then(response, now)` returns.

    `response` is None when the channel closes, cannot be written, or `timeout` ms pass.
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
    """No answer: a request whose protocol has none."""


Outcome: TypeAlias = Reply | Parked | Hold | Cold | Ask | Nothing
Handler: TypeAlias = Callable[[Channel, Command, int], Outcome]

NOTHING: Final = Nothing()


def reply(command: Command) -> Reply:
    """Answer with this response command."""
    return Reply(command, b"")
