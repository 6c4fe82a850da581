"""One row per request code: its header, what answers it, and the rules that hold for it.

A service of a broker or name server declares the rows of the codes it answers (`routes()`). Nothing else knows a
property of a code: the executor, the overload gate, the fast port, hooks and cold reads ask the row, and
docs/request-codes.md is generated from the rows. `RequestTable` merges the rows of one daemon at its start into the
mappings and sets that the loop looks up per request.

`Peer` is what a handler gets for the connection: a broker's `Channel`, a name server's channel id. `Answer` is what
it returns: a broker's `Outcome`, a name server's `Command`.
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
"""For a port that serves every code, and a row without ordinary refusals."""
ORDINARY: Final = frozenset(
    {codes.SUCCESS, codes.FLUSH_DISK_TIMEOUT, codes.FLUSH_SLAVE_TIMEOUT, codes.SLAVE_NOT_AVAILABLE}
)
"""Response codes that tell of the daemon's state, whatever was asked: they are not logged request by request."""


class Kind(enum.Enum):
    """What a request does to the daemon that answers it."""

    SEND = "send"
    """Stores messages. Refused with SYSTEM_BUSY while a broker is overloaded, as in RocketMQ's send and reply pools."""
    PULL = "pull"
    """Delivers messages. Refused with FLOW_CONTROL while peers leave too much unread."""
    READ = "read"
    """Changes nothing that is kept."""
    CHANGE = "change"
    """Changes what is kept: tables, offsets, settings, the log in another way than by a send."""
    SESSION = "session"
    """Changes what is known of connected peers: heartbeats, locks, registrations. Lost at a restart."""


class DiskReads(enum.Enum):
    """How the handler reads the store; see node/loop/cold_reads.py."""

    NONE = "none"
    """It reads nothing from disk, or makes its own `Cold` outcomes."""
    MANY = "many"
    """Many independent places: it names all that are not in memory at once."""
    STEPWISE = "stepwise"
    """What it reads next depends on what it read: it stops at the first place that is not in memory."""


class AtMaster(Struct, frozen=True):
    """What a slave answers in place of its handler: the request belongs to the master."""

    code: int
    remark: str
    unless_reads: bool = False
    """A slave that serves reads (slaveReadEnable) answers it."""
    where_acting: AtMaster | None = None
    """What a slave answers that may be an acting master."""


@dataclass(frozen=True)
class Row(ABC, Generic[Peer, Answer]):
    """What is common to both kinds of rows. Use `Route`, or `RawRoute` where no header is decoded."""

    code: int
    header: type[Header] | None
    handler: Callable[..., Answer]
    kind: Kind
    _: KW_ONLY
    durable: bool = True
    """The answer waits until the tables that the handler changed are on disk. False where it changes none that is kept,
    where it is written later (offsets), and where the next request makes the change again (a pull's group)."""
    fast_port: bool = True
    """The fast port (listenPort - 2) serves it, too."""
    light: bool = False
    """It takes microseconds: the loop reads the clock after many of these."""
    reads: DiskReads = DiskReads.NONE
    at_master: AtMaster | None = None
    """Which role may answer: None = every; else only a master does, and a slave refuses with this."""
    needs_replicas: bool | None = None
    """A master refuses it while fewer replicas are in sync than minInSyncReplicas; None = it does if it is a send."""
    access: Access | None = None
    """The permissions that it needs. None at a name server or controller: there the kind decides
    (`access/cluster_gate.py`)."""
    ordinary: frozenset[int] = NO_CODES
    """Response codes beside `ORDINARY` that every working client gets now and then: any other is logged."""
    since: str = "0.1.0"
    """The version of Bolide that answers it first."""

    @abstractmethod
    def bound(self) -> Callable[[Peer, Command, int], Answer]:
        """What answers a command as it came from the network."""


@dataclass(frozen=True)
class Route(Row[Peer, Answer], Generic[Peer, H, Answer]):
    """A code whose header is decoded before its handler runs. A header that cannot be decoded is answered with
    SYSTEM_ERROR and names the field."""

    header: type[H]
    handler: Callable[[Peer, Command, H, int], Answer]

    def bound(self) -> Callable[[Peer, Command, int], Answer]:
        """The handler behind the decoder of its header."""
        return Decoded(self.header, self.handler).answer


@dataclass(frozen=True)
class RawRoute(Row[Peer, Answer]):
    """A code whose handler gets the command alone: it has no header (None), or decodes `header` itself because it runs
    once per message or answers a bad header differently."""

    handler: Callable[[Peer, Command, int], Answer]

    def bound(self) -> Callable[[Peer, Command, int], Answer]:
        """The handler itself."""
        return self.handler


class RequestTable(Generic[Peer, Answer]):
    """The rows of one daemon, by code. `handlers` may be wrapped in place at start (hooks, cold reads)."""

    def __init__(self) -> None:
        self.rows: dict[int, Row[Peer, Answer]] = {}
        self.handlers: dict[int, Callable[[Peer, Command, int], Answer]] = {}
        self._owners: dict[int, str] = {}

    def add(self, owner: str, rows: Iterable[Row[Peer, Answer]]) -> None:
        """Take over the rows of the service named `owner`. Raises `ValueError` for a code that has a row already."""
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
        """The codes whose row is wanted."""
        return frozenset(code for code, row in self.rows.items() if wanted(row))

    def of_kind(self, kind: Kind) -> frozenset[int]:
        """The codes of one kind."""
        return self.codes(lambda row: row.kind is kind)

    def ordinary(self) -> dict[int, frozenset[int]]:
        """Response codes that are not logged, by request code."""
        return {code: ORDINARY | row.ordinary for code, row in self.rows.items()}
