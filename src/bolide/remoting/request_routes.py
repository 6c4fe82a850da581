"""One row per request code: its header, its handler, and its rules.

A service of a broker or name server declares the rows of the codes it serves (`routes()`). All properties of a code are
in its row: the executor, overload checks, the fast port, hooks and cold reads use it, and docs/request-codes.md is
generated from the rows. `RequestTable` combines the rows of one server at its start into the mappings and sets that the
loop uses per request.

`Peer` is the handler's argument for the connection: a broker's `Channel`, a name server's channel id. `Answer` is its
result: a broker's `Outcome`, a name server's `Command`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Final, Generic, TypeVar

from msgspec import Struct

from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.decode import Decoded
from bolide.remoting.request_access import Access

Peer = TypeVar("Peer")
Answer = TypeVar("Answer")
H = TypeVar("H", bound=Header)

NO_CODES: Final[frozenset[int]] = frozenset()
"""No codes, for a port that serves every code, and a row without expected error codes."""
ORDINARY: Final = frozenset(
    {codes.SUCCESS, codes.FLUSH_DISK_TIMEOUT, codes.FLUSH_SLAVE_TIMEOUT, codes.SLAVE_NOT_AVAILABLE}
)
"""Response codes that describe the server's state, whatever the request: they are not logged per request."""


class Kind(enum.Enum):
    """Effect of a request on the server."""

    SEND = "send"
    """Stores messages. Rejected with SYSTEM_BUSY while a broker is overloaded, as in RocketMQ's send and reply
    pools."""
    PULL = "pull"
    """Delivers messages. Rejected with FLOW_CONTROL while peers leave too much data unread."""
    READ = "read"
    """Does not change persistent data."""
    CHANGE = "change"
    """Changes persistent data: tables, offsets, settings, or the log other than by a send."""
    SESSION = "session"
    """Changes the state of connected peers: heartbeats, locks, registrations. This state is lost at a restart."""


class DiskReads(enum.Enum):
    """Pattern of the handler's reads of the store; see node/loop/cold_reads.py."""

    NONE = "none"
    """Reads nothing from disk, or creates its own `Cold` outcomes."""
    MANY = "many"
    """Reads many independent locations, and reports all locations that are not in memory together."""
    STEPWISE = "stepwise"
    """Each read depends on the previous one, so it stops at the first location that is not in memory."""


class AtMaster(Struct, frozen=True):
    """A slave's response that replaces the handler's, because the request belongs to the master."""

    code: int
    remark: str
    unless_reads: bool = False
    """Whether a slave that serves reads (slaveReadEnable) handles the request."""
    where_acting: AtMaster | None = None
    """Response of a slave that may be an acting master."""


@dataclass(frozen=True)
class Row(ABC, Generic[Peer, Answer]):
    """Common part of both kinds of rows. Use `Route`, or `RawRoute` if no header is decoded."""

    code: int
    header: type[Header] | None
    handler: Callable[..., Answer]
    kind: Kind
    _: KW_ONLY
    durable: bool = True
    """Whether the response waits until the tables changed by the handler are on disk. False if it does not change a
    persistent table, if the table is written later (offsets), or if the next request repeats the change (a pull's
    group)."""
    fast_port: bool = True
    """Whether the fast port (listenPort - 2) also serves it."""
    light: bool = False
    """Whether it takes only microseconds, so that the loop reads the clock only after many such requests."""
    reads: DiskReads = DiskReads.NONE
    at_master: AtMaster | None = None
    """A slave's response if only a master may handle it, or None if every role may."""
    needs_replicas: bool | None = None
    """Whether a master rejects it while fewer replicas are in sync than minInSyncReplicas. None: only if it is a
    send."""
    access: Access | None = None
    """The permissions that it needs. None at a name server or controller, where the kind determines them
    (`access/cluster_gate.py`)."""
    ordinary: frozenset[int] = NO_CODES
    """Response codes, in addition to `ORDINARY`, that working clients receive occasionally; others are logged."""
    since: str = "0.1.0"
    """First version of Bolide that serves it."""

    @abstractmethod
    def bound(self) -> Callable[[Peer, Command, int], Answer]:
        """Return the function that handles a received command."""


@dataclass(frozen=True)
class Route(Row[Peer, Answer], Generic[Peer, H, Answer]):
    """A code whose header is decoded before its handler runs. If that fails, the response is SYSTEM_ERROR and names the
    field."""

    header: type[H]
    handler: Callable[[Peer, Command, H, int], Answer]

    def bound(self) -> Callable[[Peer, Command, int], Answer]:
        """Return the handler with the decoder of its header."""
        return Decoded(self.header, self.handler).answer


@dataclass(frozen=True)
class RawRoute(Row[Peer, Answer]):
    """A code whose handler gets only the command, because it has no header (None), or the handler itself decodes
    `header` for speed or with different error responses."""

    handler: Callable[[Peer, Command, int], Answer]

    def bound(self) -> Callable[[Peer, Command, int], Answer]:
        """Return the handler itself."""
        return self.handler


class RequestTable(Generic[Peer, Answer]):
    """The rows of one daemon, by code. `handlers` may be wrapped in place at start (hooks, cold reads)."""

    def __init__(self) -> None:
        self.rows: dict[int, Row[Peer, Answer]] = {}
        self.handlers: dict[int, Callable[[Peer, Command, int], Answer]] = {}
        self._owners: dict[int, str] = {}

    def add(self, owner: str, rows: Iterable[Row[Peer, Answer]]) -> None:
        """Add the rows of the service named `owner`. Raises `ValueError` if a code already has a row."""
        for row in rows:
            code = row.code
            if code in self.rows:
                raise ValueError(
                    f"request code {code} is already served by {self._owners[code]}; {owner} cannot serve it as well"
                )
            self._owners[code] = owner
            self.rows[code] = row
            self.handlers[code] = row.bound()

    def codes(self, wanted: Callable[[Row[Peer, Answer]], bool]) -> frozenset[int]:
        """Return the codes whose row satisfies `wanted`."""
        return frozenset(code for code, row in self.rows.items() if wanted(row))

    def of_kind(self, kind: Kind) -> frozenset[int]:
        """Return the codes of one kind."""
        return self.codes(lambda row: row.kind is kind)

    def ordinary(self) -> dict[int, frozenset[int]]:
        """Return the response codes that are not logged, by request code."""
        return {code: ORDINARY | row.ordinary for code, row in self.rows.items()}
