"""Applies the master's tables on a slave (RocketMQ: SlaveSynchronize.java).

Topics, groups, request modes and the timer's metrics apply immediately. Progress (offsets of consumers and
transactions, of delays and of the timer) is valid only for a log that contains everything it covers. So it is applied
once this broker's log on disk has reached the master's end: progress ahead of the log would lose messages once this
broker is master.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from bolide.broker.consumers.assignments import AssignmentService
from bolide.broker.delay.delay_levels import DelayService
from bolide.broker.delay.followed_timer import FollowedTimer
from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import GroupTable, SubscriptionGroupConfig
from bolide.broker.tables.offsets_file import offsets_of
from bolide.broker.tables.topic_config import TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.layout.timer_checkpoint import TimerCheckpoint

ROWS_AT_ONCE: Final = 500

T = TypeVar("T")


class StoredTopics(NamedTuple):
    """Access to the stored messages of topics."""

    drop: Callable[[str], None]
    """Deletes the messages of a topic that the master deleted, and references to it."""
    end_of: Callable[[str, int], int] = lambda topic, queue_id: 0
    """Returns the end of a queue."""
    drop_older: Callable[[str, int], None] = lambda topic, offset: None
    """Deletes messages of a topic stored before this offset of the log."""
    has_messages: Callable[[str], bool] = lambda topic: False
    """Returns whether messages of a topic are stored here."""
    has_messages_after: Callable[[str, int], bool] = lambda topic, offset: False
    """Returns whether a message of a topic ends after this offset of the log."""


class FollowedTables(NamedTuple):
    """The tables that a slave copies from its master."""

    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    assignments: AssignmentService
    delay: DelayService
    figures: TimerMetrics
    timer: FollowedTimer


class Following:
    """Tables of one slave. Methods that return an iterator do one step of work per value, so that a long table does not
    block the loop."""

    def __init__(self, tables: FollowedTables, stored: StoredTopics) -> None:
        self.end_of = stored.end_of
        self.drop_older = stored.drop_older
        self.has_messages = stored.has_messages
        self.has_messages_after = stored.has_messages_after
        self.topics, self.groups, self.offsets = tables.topics, tables.groups, tables.offsets
        self._tables = tables
        self._drop = stored.drop
        self.before_offsets: list[Callable[[], None]] = []
        """Called before offsets are applied, so that offsets of a deleted topic are removed first."""
        self.left_out = 0
        """Number of the master's rows that exceeded a limit in the last copy: maxTopics, maxGroups,
        maxConsumerOffsets."""

    def take_topics(
        self,
        rows: Mapping[str, Any],
        version: Mapping[str, Any],
        known: Container[str],
        guessed: Container[str] = (),
    ) -> Iterator[None]:
        """Apply all topics of the master (21).

        `known`: topics that existed here before the request; later ones may also be new on the master, and their first
        messages may arrive with the log. `guessed`: topics that the master inferred from messages.
        """
        self.left_out = 0
        for some in _parts(rows.items()):
            self.left_out += self.topics.follow(
                (TopicConfig.from_json(name, fields, True) for name, fields in some if fields is not None), guessed
            )
            yield
        for name in self.topics.followed(rows, version, known):
            self._drop(name)
            yield

    def take_deletions(self, marks: Mapping[str, Any], gone: Container[str], asked_at: int) -> Iterator[None]:
        """Apply the master's topic deletions (21), given as end offsets of its log, which this log must have reached.

        `gone`: topics that the master has not recreated. `asked_at`: end of this log at the request. Messages of these
        topics before it were waiting for a delay or a transaction when the topic was deleted. Raises `FileFailed`;
        earlier topics of the list are then processed.
        """
        self.left_out = 0
        for topic, offset in marks.items():
            self.drop_older(topic, int(offset))
            if topic in gone and not self.has_messages_after(topic, asked_at):
                self.topics.forget(topic, asked_at if self.has_messages(topic) else -1)
            yield

    def take_groups(
        self, rows: Mapping[str, Any], forbidden: Mapping[str, Any] | None, version: Mapping[str, Any]
    ) -> Iterator[None]:
        """Apply all consumer groups of the master (201). `forbidden`: their forbidden topics, None from a 4.9
        master."""
        self.left_out = 0
        for some in _parts(rows.items()):
            self.left_out += self.groups.follow(
                SubscriptionGroupConfig.from_json(name, fields, True) for name, fields in some if fields is not None
            )
            yield
        bits = None
        if forbidden is not None:
            bits = {
                str(group): {str(topic): int(number) for topic, number in topics.items()}
                for group, topics in forbidden.items()
            }
        self.groups.followed(rows, bits, version)

    def take_modes(self, answer: bytes) -> None:
        """Apply the request modes of the master (402)."""
        self._tables.assignments.follow(answer)

    def take_figures(self, answer: dict[str, Any]) -> None:
        """Apply the number of messages in the master's timer (61)."""
        self._tables.figures.follow(answer)

    def take_offsets(self, answer: Mapping[str, Any]) -> Iterator[None]:
        """Apply the committed offsets of groups (43)."""
        self.left_out = 0
        for forget in self.before_offsets:
            forget()
        table = {str(key): queues for key, queues in (answer.get("offsetTable") or {}).items()}
        for some in _parts(table.items()):
            self.left_out += self.offsets.follow({key: offsets_of(queues) for key, queues in some}, self.end_of)
            yield
        light = {str(key): {0: int(offset)} for key, offset in (answer.get("lmqOffsetTable") or {}).items()}
        self.left_out += self.offsets.follow(light, self.end_of)
        self.offsets.followed(answer.get("dataVersion") or {})

    def take_back(self, answer: Mapping[str, Any], now: int, transactions: bool = False) -> None:
        """On a returning master: adopt the offsets that groups committed on a slave in the meantime (43). With
        `transactions`, adopt the offsets of half messages as well."""
        table = {str(key): offsets_of(queues) for key, queues in (answer.get("offsetTable") or {}).items()}
        self.offsets.take_back(table, answer.get("dataVersion") or {}, self.end_of, now, transactions)

    def take_back_delays(self, answer: bytes) -> None:
        """On a returning master: adopt the progress that a slave has made with delays in the meantime (45)."""
        self._tables.delay.take_back(answer)

    def take_delays(self, answer: bytes) -> None:
        """Apply the progress of delays (45)."""
        self._tables.delay.follow(answer)

    def take_timer(self, told: TimerCheckpoint) -> None:
        """Apply the progress of the timer (60)."""
        self._tables.timer.follow(told.read_time, told.queue_offset)


def _parts(rows: Iterable[T]) -> Iterator[list[T]]:
    """Yield the rows in batches that take a few milliseconds."""
    left = iter(rows)
    while part := list(islice(left, ROWS_AT_ONCE)):
        yield part
