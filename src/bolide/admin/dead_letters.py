"""Dead letters: the groups that have some, one of them by its id, and copies that return to their topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bolide.admin.client import Admin
from bolide.admin.together import each
from bolide.admin.topics import QueueStats
from bolide.client import Message, Producer
from bolide.client.messages.received import ReceivedMessage
from bolide.errors import ArgumentError, BolideError, ConnectionLost, RequestTimeout
from bolide.layout import property_names as names
from bolide.layout.names import DLQ_PREFIX


@dataclass(frozen=True, slots=True)
class GroupLetters:
    """The dead letters of a group: their number, or None if a broker did not respond, and the time of the newest one in
    ms since 1970, or 0."""

    group: str
    count: int | None
    newest: int

    @classmethod
    def of(cls, topic: str, stats: Sequence[QueueStats] | None) -> GroupLetters:
        """Return the row of a dead letter topic with these queues."""
        return cls(
            topic.removeprefix(DLQ_PREFIX),
            None if stats is None else sum(queue.end_offset - queue.begin_offset for queue in stats),
            max((queue.last_update for queue in stats or ()), default=0),
        )

    @property
    def rank(self) -> tuple[int, str]:
        """Sort key for descending numbers of dead letters."""
        return -(self.count or 0), self.group


@dataclass(slots=True)
class Resent:
    """The progress of a run: the number of resent dead letters, and the ids of the skipped ones, whose bodies cannot be
    inflated. `error` is the reason for which the run stopped early, or ""."""

    count: int = 0
    skipped: list[str] = field(default_factory=list)
    interrupted: bool = False
    error: str = ""
    unreachable: bool = False
    """Whether the error is that no server could be reached."""


async def groups_with_dead_letters(admin: Admin, cluster: str | None = None) -> list[GroupLetters]:
    """Return the groups that have a dead letter topic, sorted by the number of dead letters, descending."""
    configs = await admin.all_topic_configs(cluster=cluster)
    topics = sorted(topic for topic in configs if topic.startswith(DLQ_PREFIX))

    async def of(topic: str) -> list[QueueStats] | None:
        try:
            return await admin.topic_stats(topic)
        except BolideError:
            return None

    rows = [GroupLetters.of(topic, stats) for topic, stats in (await each(topics, of)).items()]
    return sorted(rows, key=lambda row: row.rank)


async def dead_letter(admin: Admin, group: str, message_id: str) -> ReceivedMessage | None:
    """Return a dead letter of a group by its producer's or broker's id, or None. Raises `TopicNotFound` if the group
    has no dead letters."""
    topic = DLQ_PREFIX + group
    found = await admin.message(message_id, topic)
    return found if found is not None and found.record.topic == topic else None


def origin_of(letter: ReceivedMessage) -> str:
    """Return the original topic of a dead letter, or "" if its properties do not contain it."""
    properties = letter.properties
    return properties.get(names.DLQ_ORIGIN_TOPIC) or properties.get(names.RETRY_TOPIC) or ""


def copy_of(found: ReceivedMessage, topic: str) -> Message:
    """Return a new message for `topic` with the body and the user's properties of a stored one. Raises
    `CompressionError` if the body cannot be inflated."""
    return Message(
        topic,
        found.body,
        tags=found.tags,
        keys=found.keys,
        properties={name: value for name, value in found.properties.items() if name not in names.RESERVED},
        sharding_key=found.sharding_key,
        flag=found.flag,
    )


async def _nothing() -> None:
    pass


async def resend(
    producer: Producer,
    letters: Iterable[ReceivedMessage],
    resent: Resent,
    *,
    topic: str = "",
    stopped: Callable[[], bool] = lambda: False,
    before_each: Callable[[], Awaitable[None]] = _nothing,
) -> int:
    """Send copies of dead letters, in order, to `topic` or to the original topic of each.

    Skips those whose bodies cannot be inflated. Stops at the first error and once `stopped` returns True, and records
    all of this in `resent`. Returns the number of dead letters that are sent or skipped. Awaits `before_each` before
    each of them.
    """
    done = 0
    for letter in letters:
        if stopped():
            resent.interrupted = True
            break
        if not letter.readable:
            resent.skipped.append(letter.offset_message_id)
            done += 1
            continue
        try:
            await before_each()
            await producer.send(copy_of(letter, topic or _known_origin(letter)))
        except BolideError as error:
            resent.error = f"dead letter {letter.offset_message_id} is not resent: {error}"
            resent.unreachable = isinstance(error.__cause__ or error, (ConnectionLost, RequestTimeout))
            break
        done += 1
        resent.count += 1
    return done


def _known_origin(letter: ReceivedMessage) -> str:
    origin = origin_of(letter)
    if not origin:
        raise ArgumentError("its properties do not contain its original topic: choose a topic", "topic")
    return origin
