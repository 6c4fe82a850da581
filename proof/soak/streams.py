"""What is sent, and who has to get which of it. Everything about a message follows from its stream and its number.

The body of a message names its stream, its number, when it was sent and when it is due, and is filled up to a length
that its number decides; a consumer makes the body again and compares all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

PREFIX = "soak-"
LONG_BODY = 6000
"""Every 16th body is longer than 4,096 bytes, so that it travels compressed."""
BATCH = 5
USERS = ("ann", "bob", "cid")
"""Light queues; each message enters two of them."""
SHARDS = 7
LEVELS = {1: 1.0, 2: 5.0, 3: 10.0}
"""Delay levels that are used, and their seconds."""


class Stream(Enum):
    """One kind of traffic, with a topic of its own."""

    PLAIN = "plain"
    BATCH = "batch"
    ORDERED = "ordered"
    LEVEL = "level"
    TIMER = "timer"
    TRANSACTION = "transaction"
    RETRY = "retry"
    SQL = "sql"
    LIGHT = "light"
    REQUEST = "request"

    @property
    def topic(self) -> str:
        """Its topic."""
        return PREFIX + self.value


NUMBERS = {stream: number for number, stream in enumerate(Stream)}
STREAMS = list(Stream)

SHARES = {
    Stream.PLAIN: 24, Stream.BATCH: 20, Stream.ORDERED: 12, Stream.LEVEL: 8, Stream.TIMER: 10,
    Stream.TRANSACTION: 8, Stream.RETRY: 5, Stream.SQL: 6, Stream.LIGHT: 5, Stream.REQUEST: 2,
}  # fmt: skip
"""Messages of each stream in a hundred."""


def body_of(stream: Stream, number: int, sent_ms: int, due_ms: int) -> bytes:
    """The whole body of a message."""
    head = f"{stream.value} {number} {sent_ms} {due_ms} ".encode()
    length = LONG_BODY if number % 16 == 7 else 80 + number * 37 % 400
    return head + b"%c" % (97 + (number + NUMBERS[stream]) % 26) * (length - len(head))


@dataclass(frozen=True, slots=True)
class Body:
    """What a body says about its message."""

    stream: Stream
    number: int
    sent_ms: int
    due_ms: int


def read_body(body: bytes) -> Body | None:
    """What a body says; None unless it is, byte for byte, a body of `body_of`."""
    words = body[:80].split(b" ", 4)
    try:
        told = Body(Stream(words[0].decode()), int(words[1]), int(words[2]), int(words[3]))
    except (ValueError, IndexError):
        return None
    return told if body == body_of(told.stream, told.number, told.sent_ms, told.due_ms) else None


def tag_of(number: int) -> str:
    """The tag of a plain message."""
    return "a" if number % 2 == 0 else "b"


def level_of(number: int, quick: bool) -> int:
    """The delay level of a message of that stream; in a run of seconds the shortest."""
    return 1 if quick else number % len(LEVELS) + 1


def timer_seconds(number: int, quick: bool) -> int:
    """How long a timer waits."""
    return 1 + number % 4 if quick else 2 + number * 5 % 19


def recalled(number: int, quick: bool) -> bool:
    """Whether a timer is recalled at once; only long ones are, so that the recall is there in time."""
    return number % 3 == 0 and timer_seconds(number, quick) >= (4 if quick else 8)


class End(Enum):
    """How a transaction ends, and whether its producer says so by itself or when it is asked."""

    COMMITTED = 0
    ROLLED_BACK = 1
    COMMITTED_WHEN_ASKED = 2
    ROLLED_BACK_WHEN_ASKED = 3

    @property
    def committed(self) -> bool:
        """True if its message is to be delivered."""
        return self in (End.COMMITTED, End.COMMITTED_WHEN_ASKED)


def end_of(number: int) -> End:
    """How a transaction ends: most of them at once."""
    return {1: End.ROLLED_BACK, 2: End.COMMITTED_WHEN_ASKED, 3: End.ROLLED_BACK_WHEN_ASKED}.get(
        number % 8, End.COMMITTED
    )


def dead(number: int) -> bool:
    """Whether a message that is retried goes to the dead letters."""
    return number % 3 == 0


def light_users(number: int) -> list[str]:
    """The light queues that a message enters."""
    return [USERS[number % 3], USERS[(number + 1) % 3]]


def every(number: int) -> bool:
    """All messages of a stream."""
    return True


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that has to get, of one stream, each acknowledged message for which `wants` is true, and no other."""

    name: str
    stream: Stream
    wants: Callable[[int], bool] = every


READERS = [
    Reader("plain", Stream.PLAIN),
    Reader("tag", Stream.PLAIN, lambda number: tag_of(number) == "a"),
    Reader("broadcast-1", Stream.PLAIN),
    Reader("broadcast-2", Stream.PLAIN),
    Reader("pull", Stream.PLAIN),
    Reader("reset", Stream.PLAIN),
    Reader("batch", Stream.BATCH),
    Reader("ordered", Stream.ORDERED),
    Reader("level", Stream.LEVEL),
    Reader("timer", Stream.TIMER),
    Reader("transaction", Stream.TRANSACTION, lambda number: end_of(number).committed),
    Reader("retry", Stream.RETRY),
    Reader("dead", Stream.RETRY, dead),
    Reader("sql", Stream.SQL, lambda number: number % 10 > 5),
    Reader("light", Stream.LIGHT, lambda number: USERS[0] in light_users(number)),
    Reader("request", Stream.REQUEST),
]
"""Every group whose messages are accounted for. Those of the churn, which come and go, are checked where they live."""
