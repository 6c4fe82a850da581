"""What a slave takes over of its master's tables (RocketMQ: SlaveSynchronize.java).

Topics, groups, request modes and the timer's figures hold at once. Progress (offsets of consumers and transactions, of
delays and of the timer) holds for a log that has everything it counts as done, so `take_progress` comes only when this
broker's log, on disk, has what the master's had: progress ahead of it would lose messages once this broker is master.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

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


class Following:
    """The tables of one slave. Each method that gives an iterator does one step of its work for each of its values, so
    that a long table holds up nothing else."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        assignments: AssignmentService,
        delay: DelayService,
        figures: TimerMetrics,
        timer: FollowedTimer,
        drop: Callable[[str], None],
    ) -> None:
        """`drop` forgets the messages of a topic that the master deleted, and whatever names it."""
        self.end_of: Callable[[str, int], int] = lambda topic, queue_id: 0
        """Where a queue ends."""
        self.drop_older: Callable[[str, int], None] = lambda topic, offset: None
        """Forgets what of a topic was stored before this offset of the log."""
        self.has_messages: Callable[[str], bool] = lambda topic: False
        """True when messages of a topic are here."""
        self.has_messages_after: Callable[[str, int], bool] = lambda topic, offset: False
        """True when one of them ends after this offset of the log."""
        self.topics = topics
        self.groups = groups
        self.offsets = offsets
        self._assignments = assignments
        self._delay = delay
        self._figures = figures
        self._timer = timer
        self._drop = drop
        self.before_offsets: list[Callable[[], None]] = []
        """Called before offsets are taken: what was consumed of a topic that is gone must not be kept with them."""
        self.left_out = 0
        """Rows of the master that found no room here, as of the last time: maxTopics, maxGroups, maxConsumerOffsets."""

    def take_topics(
        self,
        rows: Mapping[str, Any],
        version: Mapping[str, Any],
        known: Container[str],
        guessed: Container[str] = (),
    ) -> Iterator[None]:
        """All topics of the master (21). `known` are those that were here before it was asked: what came since may have
        come to the master, too, and its first messages with the log. The master made those in `guessed` from their
        messages."""
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
        """Where the master's log ended when it deleted topics (21): this log must reach there. The master does not have
        those of `gone` again; this log ended at `asked_at` when it was asked. Messages of them before that waited for
        their time or their transaction when the topic was deleted.

        Raises `FileFailed`; those before are done then.
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
        """All consumer groups of the master (201); `forbidden` is what its groups may not read, None from 4.9."""
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
        """The request modes of the master (402)."""
        self._assignments.follow(answer)

    def take_figures(self, answer: dict[str, Any]) -> None:
        """How many messages wait in the master's timer (61)."""
        self._figures.follow(answer)

    def take_offsets(self, answer: Mapping[str, Any]) -> Iterator[None]:
        """How far groups have come (43)."""
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
        """Of a master that returns: how far groups have come at a slave meanwhile (43); with `transactions` half
        messages, too."""
        table = {str(key): offsets_of(queues) for key, queues in (answer.get("offsetTable") or {}).items()}
        self.offsets.take_back(table, answer.get("dataVersion") or {}, self.end_of, now, transactions)

    def take_back_delays(self, answer: bytes) -> None:
        """Of a master that returns: what a slave delivered meanwhile (45)."""
        self._delay.take_back(answer)

    def take_delays(self, answer: bytes) -> None:
        """How far delays are delivered (45)."""
        self._delay.follow(answer)

    def take_timer(self, told: TimerCheckpoint) -> None:
        """How far the timer is (60)."""
        self._timer.follow(told.read_time, told.queue_offset)


def _parts(rows: Iterable[T]) -> Iterator[list[T]]:
    """The rows, as many at once as take a few milliseconds."""
    left = iter(rows)
    while part := list(islice(left, ROWS_AT_ONCE)):
        yield part
