"""Outcomes of handlers: a closed set, applied only by the node's executor (see service.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, final

from bolide.broker.core.channel import Channel
from bolide.remoting.codec import Response
from bolide.remoting.command import Command
from bolide.store.disk.extents import Extent
from bolide.store.disk.reads import Fetched


@final
class Reply:
    """Respond at the end of this turn. The connection's codec encodes the response."""

    def __init__(self, response: Response) -> None:
        self.response: Response = response


@final
class Parked:
    """Respond once the log is confirmed and dispatched up to `offset` (physical end of the appended records).

    If the records are late or may be lost, the response gets another code before it is encoded.

    With ``wait`` False (message property WAIT=false), respond as soon as the turn is written, flushed or not.
    """

    def __init__(self, reply: Reply, offset: int, wait: bool = True) -> None:
        self.reply: Reply = reply
        self.offset: int = offset
        self.wait: bool = wait
        self.after: Callable[[], None] | None = None
        """Called just before the response is sent, for hooks."""


Key: TypeAlias = tuple[str, int]
"""A topic and the id of a queue, or a negative number for another part of the topic, such as `ROUTE`."""
ROUTE: Final = -1
"""The topic's route."""


@final
class NewRecords:
    """The records that wake a waiter: they pass its filter, and their queue offset is `offset` or more.

    A record passes if its tags code is in ``tag_codes`` and ``predicate(properties)`` is true for its raw properties; a
    test that is None passes every record. `cost`: cost of checking one record, relative to a check of its tags.
    """

    def __init__(
        self,
        offset: int,
        tag_codes: set[int] | None = None,
        predicate: Callable[[bytes], bool] | None = None,
        cost: int = 1,
    ) -> None:
        self.offset: int = offset
        self.tag_codes: set[int] | None = tag_codes
        self.predicate: Callable[[bytes], bool] | None = predicate
        self.cost: int = cost


@final
class Waiter:
    """A request that waits until its `key` is released, a record of the queue `key` matches `records`, or `deadline`
    (ms since epoch) passes. Then ``again(now)`` runs the whole request again, and it may not wait a second time.

    With `records` None, records do not wake it.
    """

    def __init__(
        self,
        channel: Channel,
        command: Command,
        key: Key,
        deadline: int,
        again: Callable[[int], Outcome],
        records: NewRecords | None = None,
    ) -> None:
        self.channel: Channel = channel
        self.command: Command = command
        self.key: Key = key
        self.deadline: int = deadline
        self.again: Callable[[int], Outcome] = again
        self.records: NewRecords | None = records
        self.waiting: bool = False
        """Whether it is in the table of waiters."""


@final
class Hold:
    """Put this request into the table of waiters. The response is sent later."""

    def __init__(self, waiter: Waiter) -> None:
        self.waiter: Waiter = waiter


@final
class Cold:
    """Missing data: read `extents` (from the store's ReadResult) in the pool, then run `again(now)`.

    The outcome of `again` may be `Cold` again; the executor responds with code 1 after a few rounds. With `fetched`,
    the data is stored there for `again`. Each round then gets further, so the number of rounds is not limited.
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
    """Return the outcome that responds with this command."""
    return Reply(command)
