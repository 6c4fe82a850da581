"""Writes the rows of a task as messages, or as half messages whose positions it returns.

Spark does not coordinate tasks before they write: speculative, failed and abandoned attempts write like the successful
one. So at-least-once sends visible messages, and exactly-once sends half messages. The driver commits only the half
messages of the successful attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from bolide.layout.message_id import decode_offset_message_id
from bolide.remoting.command import Command
from bolide.spark.sink.bundles import Bundle
from bolide.spark.sink.dead_letters import DeadLetters
from bolide.spark.sink.elements import BodyColumn, ElementReader
from bolide.spark.sink.endings import BrokerKind, broker_kind, half_marks, producer_group
from bolide.spark.sink.half_handles import Handles
from bolide.spark.sink.messages import Refusal, Task
from bolide.spark.sink.sending import Sender
from bolide.spark.sink.sink_options import SinkOptions
from bolide.spark.sink.typed_bodies import column_of
from bolide.spark.source.patient_requests import connections

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Written(WriterCommitMessage):
    """The messages of an attempt, which the driver commits or rolls back."""

    task: Task
    rows: int = 0
    handles: Handles = field(default_factory=Handles)
    dead: list[str] = field(default_factory=list)
    """Staged files of rejected rows."""
    uncertain: int = 0
    """Number of sends that may have stored unknown half messages."""
    starts: dict[str, int] = field(default_factory=dict)
    """End of the half queue of each broker before the first half message of this attempt."""
    skipped: bool = False
    """Whether the attempt sent no messages because the batch was already decided."""


def write_rows(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, task: Task, decided: Set[tuple[str, int]] = frozenset()
) -> Written:
    """Write the rows of a task. Raises `RowRefused` if a row is invalid and there is no dead letter folder, or
    `ClusterUnavailable` if messages cannot be stored in time."""
    if (task.query, task.batch) in decided:
        for _ in batches:  # Spark requires that all rows are read
            pass
        return Written(task, skipped=True)
    written = Written(task)
    halves = _Halves(options, task, written) if options.exactly_once else None
    dead = DeadLetters(options.dead_letter_path, task) if options.dead_letter_path else None

    def refuse(refusal: Refusal) -> None:
        if dead is None:
            raise refusal.error(task.partition)
        dead.add(refusal)

    sender = Sender(options, halves.stored, refuse, halves.marks) if halves else Sender(options, _ignore, refuse)
    reader = ElementReader(
        options.topic, task, immediate=options.exactly_once, bodies=_bodies(options), any_tag=options.any_tag
    )
    try:
        for batch in batches:
            for read in reader.read(batch):
                if isinstance(read, Refusal):
                    refuse(read)
                else:
                    sender.send(read)
        sender.drain()
        if dead is not None:
            written.dead = dead.close()
    finally:
        sender.close()
        if halves:
            halves.close()
    written.rows = sender.tally.stored
    written.uncertain = sender.tally.uncertain
    return written


def _bodies(options: SinkOptions) -> BodyColumn | None:
    """Return how the bodies of the rows are encoded, or None if they are bytes."""
    if not options.body.kind:
        return None
    from bolide.spark.body.body_writer import body_writer  # only for such writes, whose start it delays

    return BodyColumn(column_of(options.body), body_writer(options.body))


def _ignore(bundle: Bundle, answers: list[Command]) -> None:
    """Do nothing for a visible message."""


class _Halves:
    """Marks messages as half messages, and records their positions."""

    def __init__(self, options: SinkOptions, task: Task, written: Written) -> None:
        self._options = options
        self._group = producer_group(options, task.query, task.batch)
        self._written = written
        self._kinds: dict[str, BrokerKind] = {}
        self._pool = connections(options.connection)

    def close(self) -> None:
        self._pool.close()

    def marks(self, broker: str, address: str, age: int) -> str:
        kind = self._kinds.get(broker)
        if kind is None:
            kind = self._kinds[broker] = broker_kind(self._pool.get(address), self._options)
            self._written.starts[broker] = kind.half_end
        return half_marks(kind, self._group, self._options.transaction_seconds + age)

    def stored(self, bundle: Bundle, answers: list[Command]) -> None:
        fields = [answer.ext() for answer in answers]
        places = [decode_offset_message_id(ext["msgId"])[2] for ext in fields]
        self._written.handles.extend(bundle.queue, [int(ext["queueOffset"]) for ext in fields], places)
