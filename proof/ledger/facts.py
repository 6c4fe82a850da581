"""The facts that a ledger holds, and those that it is shown at the end.

`step` counts the events of a ledger, so two steps say what happened before what. `at` is a time in seconds that never
jumps: the loop's in a simulation, the monotonic clock of a real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

NEVER: Final = 1 << 62
"""The step of what has not happened."""
RETRY_PREFIX: Final = "%RETRY%"
DEAD_PREFIX: Final = "%DLQ%"


class Outcome(Enum):
    """What a client knows of something it asked for."""

    OPEN = "open"
    """Asked, not answered yet."""
    DONE = "done"
    REFUSED = "refused"
    """Said not to have happened."""
    UNKNOWN = "unknown"
    """No answer, or one that leaves it open: it may have happened."""


class Kind(Enum):
    """When a message is to appear."""

    PLAIN = "plain"
    DELAYED = "delayed"
    HALF = "half"
    """In a transaction: when it commits."""


class Decision(Enum):
    """How the transaction of a half message ends, by its producer's word."""

    OPEN = "open"
    COMMIT = "commit"
    ROLLBACK = "rollback"


class Queue(NamedTuple):
    """One queue of one broker."""

    broker: str
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.number}"


class Place(NamedTuple):
    """One message's place in its queue."""

    queue: Queue
    offset: int

    def __str__(self) -> str:
        return f"{self.queue}+{self.offset}"


@dataclass(frozen=True, slots=True)
class Content:
    """What a user sends, and what a consumer must get. The body begins with the message's number: see `number_of`."""

    topic: str
    body: bytes
    tags: str = ""
    keys: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """The user's own, sorted."""

    def difference(self, other: Content) -> str:
        """Which parts differ; "" for none."""
        names = ("topic", "body", "tags", "keys", "properties")
        return ", ".join(name for name in names if getattr(self, name) != getattr(other, name))


def body_of(number: int, filler: bytes) -> bytes:
    """The body of a message: its number, then anything."""
    return b"#%d#" % number + filler


def number_of(body: bytes) -> int | None:
    """The number that a body begins with; None if it begins with none."""
    digits = body[1:24].partition(b"#")[0]
    return int(digits) if body[:1] == b"#" and digits.isdigit() else None


@dataclass(slots=True)
class Send:
    """One message and what became of the request that sent it."""

    number: int
    content: Content
    producer: str
    kind: Kind
    began: int
    began_at: float
    lane: str = ""
    """Sends of one lane travel in order on one connection; "" says nothing about their order."""
    due_at: float = 0.0
    """Not to be seen before."""
    by_clock: bool = False
    """It names a time of day, so it follows the broker's clock where that is set."""
    attempts: int = 1
    """How often the request left; each but the last may have stored a copy."""
    outcome: Outcome = Outcome.OPEN
    ended: int = NEVER
    ended_at: float = 0.0
    place: Place | None = None
    why: str = ""
    decision: Decision = Decision.OPEN
    decided_at: float = 0.0
    recall: Outcome | None = None
    recalled_at: float = 0.0

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place is not None else ""
        return f"#{self.number} ({self.kind.value}, {self.producer}, {self.outcome.value}{where})"


@dataclass(slots=True)
class Change:
    """One write of a table: `value` None deletes the key."""

    key: tuple[str, ...]
    value: object
    asked: int
    answered: int = NEVER
    outcome: Outcome = Outcome.OPEN


@dataclass(slots=True)
class Crash:
    """A broker stopped without warning. `power`: what was not synced may be lost. `tail`: the end of its log may be
    lost, flushed or not, because a replica that did not have all of it is the master now.
    """

    broker: str
    step: int
    at: float
    power: bool = False
    tail: bool = False
    ahead: bool = False
    """Consumers may have read what is gone, though it was not acknowledged: their offsets mean other messages now."""


@dataclass(slots=True)
class Seen:
    """A consumer's listener got a message."""

    group: str
    member: str
    place: Place
    number: int
    step: int
    at: float
    accepted: bool | None = None
    """None until the listener says; False sends it back."""


@dataclass(slots=True)
class Committed:
    """A group's offset of a queue, as somebody read it."""

    group: str
    queue: Queue
    offset: int
    step: int


def _anything(content: Content) -> bool:
    return True


@dataclass(slots=True)
class Group:
    """What a consumer group wants. A group that a run starts begins at the first message of each queue."""

    name: str
    topics: tuple[str, ...]
    wants: Callable[[Content], bool] = field(default=_anything)
    broadcast: bool = False
    orderly: bool = False
    most_retries: int = 16
    skipped: dict[Queue, int] = field(default_factory=dict)
    """Below these offsets an operator's reset may have left something out."""
    members: set[str] = field(default_factory=set)
    """Of a broadcasting group: those that live to the end, each of which reads everything."""

    @property
    def wants_all(self) -> bool:
        """Without a filter, so that it gets whatever is in its queues."""
        return self.wants is _anything


@dataclass(slots=True)
class Served:
    """A message as a reader finds it in its queue at the end."""

    place: Place
    content: Content
    physical: int = -1
    stored_at: float | None = None
    """When it was stored, on the ledger's clock; None if nobody can say."""

    @property
    def number(self) -> int | None:
        """The number in its body."""
        return number_of(self.content.body)


@dataclass(slots=True)
class QueueView:
    """One queue, read from its first offset to its end."""

    first: int
    end: int
    messages: list[Served] = field(default_factory=list)


@dataclass(slots=True)
class View:
    """Everything that can be read once a run is over."""

    queues: dict[Queue, QueueView] = field(default_factory=dict)
    rolled: list[Served] = field(default_factory=list)
    """Messages of the timer that were stored once more while they waited, under the timer's own topic."""
    tables: dict[tuple[str, ...], object] = field(default_factory=dict)
    offsets: dict[tuple[str, Queue], int] = field(default_factory=dict)
    at: float = 0.0

    def of_topic(self, topic: str) -> Iterable[tuple[Queue, QueueView]]:
        """The queues of a topic, on all brokers."""
        return ((queue, view) for queue, view in sorted(self.queues.items()) if queue.topic == topic)


@dataclass(frozen=True, slots=True)
class Promises:
    """What the settings of a run promise, and how much time things may take."""

    sync_flush: bool = True
    tail_s: float = 0.0
    """With asynchronous flush: seconds before a loss of power whose acknowledged messages may be lost."""
    expires: bool = False
    """Retention may delete the oldest messages."""
    early_s: float = 0.0
    """How much earlier than promised a delayed message may appear: the clock's precision."""
    late_s: float = 5.0
    """How much later than promised a delayed message may appear once faults are over."""
    clock_s: float = 0.0
    """By how much clocks were set: what names a time of day may be that much earlier or later."""
    level_progress_s: float = math.inf
    timer_progress_s: float = math.inf
    """How long after a delivery by level, or a step of the timer, a crash may still repeat it: until the progress is on
    disk. Infinite where a disk may refuse to keep it.
    """
    faults_over_at: float = 0.0
    checks_given_up: bool = False
    """Transactions may run out of checks, and then never appear."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was not kept."""

    promise: str
    """Which one: a few words that stay the same while a failure is made smaller."""
    detail: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.detail}"
