"""Converts a row to the fields of a SEND request, or to a sentence with the reason why that is impossible.

This is the reference. `elements` builds ordinary rows from columns, and calls this module for all others.

A message's id is derived from its position (query, batch, partition, row), not from the clock: if Spark repeats a task,
a row keeps its id, so that a consumer can detect duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from bolide.layout import property_names as names
from bolide.layout.limits import MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH
from bolide.layout.properties import format_properties
from bolide.layout.words import tag_fault
from bolide.spark.errors import RowRefused
from bolide.transport.blocking import MAX_FRAME

if TYPE_CHECKING:
    from bolide.spark.body.body_writer import UnfitRow

MAX_DELAY_LEVEL: Final = 18
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
MAX_BODY: Final = MAX_FRAME - 256 * 1024
"""Maximum size in bytes of a body that fits into a frame with the longest properties in JSON."""
TAKEN_OVER: Final = frozenset({names.TAGS, names.KEYS, names.SHARDING_KEY})
"""Reserved names that the column `properties` may contain, so that rows from a read can be written."""


@dataclass(frozen=True)
class Task:
    """An attempt to write a partition of a batch of a query."""

    query: str
    batch: int
    partition: int
    attempt: int = 0
    run: str = ""
    """Id of a run of the query. A restarted query has the same `query` and another `run`."""

    @classmethod
    def current(cls, query: str, prefix: str = "") -> Task:
        """Return the task of this worker. `query` is the name of a batch write, for which Spark has no id.

        A batch write in `foreachBatch` has the id and the batch of its query, because Spark may repeat it. The `prefix`
        precedes that id, because a batch may have several writes.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            return cls(query, 0, 0)
        batch = context.getLocalProperty("streaming.sql.batchId")
        stream = context.getLocalProperty("sql.streaming.queryId") if batch else None
        if stream:
            query = f"{prefix}-{stream}" if prefix else stream
        return cls(
            query,
            int(batch or 0),
            context.partitionId(),
            context.attemptNumber(),
            context.getLocalProperty("spark.jobGroup.id") or "",
        )


@dataclass(slots=True)
class Outgoing:
    """A message to send, and its row."""

    row: int
    topic: str
    body: bytes
    properties: str
    flag: int
    queue_id: int | None
    route_key: str
    """Key that determines the queue, or "" for any queue."""
    born_timestamp: int | None
    """Time in ms since 1970, or None for the time of sending."""
    alone: bool
    """Whether the message cannot be sent in a batch, because it is delayed or has a born timestamp."""


@dataclass(slots=True)
class Refusal:
    """A row that cannot become a message."""

    row: int
    topic: str
    reason: str
    values: Mapping[str, Any]
    of_the_row: bool = True
    """Whether the row is the cause. Otherwise it is the topic, and `reason` contains a solution."""

    def error(self, partition: int) -> RowRefused:
        """Return the error for a write without a dead letter folder."""
        remedy = "correct the row, or set" if self.of_the_row else "or set"
        return RowRefused(
            f"partition {partition}, row {self.row}, topic {self.topic or '(none)'}: {self.reason}; {remedy} option"
            " deadLetterPath to save such rows"
        )


class _Unfit(Exception):
    """A row cannot become a message. The text is the reason."""


def _joined(keys: Iterable[str | None]) -> str:
    given = [key for key in keys if key]
    text = " ".join(given)
    if text.count(" ") >= max(1, len(given)):
        bad = next(key for key in given if " " in key)
        raise _Unfit(f"its key {bad!r} contains a blank, which separates keys: it would become several")
    return text


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """An Arrow batch of a task, to look up rejected rows. Its times are in ms since 1970."""

    batch: pa.RecordBatch
    first: int
    """Row number in the task of the first row."""
    unfit: Mapping[int, UnfitRow] = field(default_factory=dict)
    """Rows by number whose body could not be encoded."""

    def values(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return the values of rows by row number. Raises `UnicodeDecodeError` if a text is not UTF-8."""
        some = self.batch.take(pa.array([row - self.first for row in rows], pa.int64()))
        found: list[dict[str, Any]] = some.to_pylist()
        return found

    def refusal(self, row: int, topic: str, reason: str, *, of_the_row: bool = True) -> Refusal:
        """Return the refusal of a row, without columns that are not UTF-8."""
        values: dict[str, Any] = {}
        for name, column in zip(self.batch.schema.names, self.batch.columns, strict=True):
            try:
                values[name] = column[row - self.first].as_py()
            except UnicodeDecodeError:
                continue
        return Refusal(row, topic, reason, values, of_the_row)


class RowReader:
    """Builds the messages of a task."""

    def __init__(self, topic: str, task: Task, immediate: bool, any_tag: bool = False) -> None:
        """Takes the default `topic`. With `immediate`, rejects delayed rows. With `any_tag`, accepts tags that no
        subscription selects."""
        self._topic = topic
        self._immediate = immediate
        self._any_tag = any_tag
        place = f"{task.query}/{task.batch}/{task.partition}".encode()
        self.ids = blake2b(place, digest_size=12).hexdigest().upper()
        """Prefix of the id of each message."""
        self._good_topics: set[str] = set()

    def read(self, origin: RowOrigin, rows: Sequence[int]) -> Iterator[Outgoing | Refusal]:
        """Yield the messages or refusals of rows, by row number."""
        try:
            all_values: Sequence[dict[str, Any] | None] = origin.values(rows)
        except UnicodeDecodeError:  # in at least one row
            all_values = [None] * len(rows)
        for row, values in zip(rows, all_values, strict=True):
            topic = self._topic
            try:
                values = values or origin.values([row])[0]
                topic = values.get("topic") or topic
                unfit = origin.unfit.get(row)
                if unfit is None:
                    yield self._message(row, values, topic)
                else:
                    yield Refusal(row, topic, unfit.reason, {**values, "body": unfit.shown})
            except UnicodeDecodeError:
                refusal = origin.refusal(row, topic, "it contains text that is not valid UTF-8")
                refusal.topic = refusal.values.get("topic") or topic
                yield refusal
            except _Unfit as unfit:
                yield Refusal(row, topic, str(unfit), values or {})

    def check_topic(self, topic: str) -> bool:
        """Return whether a topic name is valid."""
        try:
            self._check_topic(topic)
        except _Unfit:
            return False
        return True

    def _message(self, row: int, values: Mapping[str, Any], topic: str) -> Outgoing:
        body = values["body"]
        if isinstance(body, str):
            body = body.encode()
        if not body:
            raise _Unfit("its body is empty, and RocketMQ rejects empty messages")
        if len(body) > MAX_BODY:
            raise _Unfit(f"its body has {len(body)} bytes, and a request has room for {MAX_BODY}")
        self._check_topic(topic)
        properties = self._properties(row, values)
        delayed = self._delay(values, properties)
        text = format_properties(properties)
        if text.count("\x01") != len(properties) or text.count("\x02") != len(properties):
            bad = next(name for name, value in properties.items() if "\x01" in name + value or "\x02" in name + value)
            raise _Unfit(f"the property {bad} contains a character that separates properties (0x01 or 0x02)")
        if len(text) > MAX_PROPERTIES_LENGTH // 3 and len(text.encode()) > MAX_PROPERTIES_LENGTH:
            raise _Unfit(
                f"its tags, keys and properties have more than {MAX_PROPERTIES_LENGTH} bytes: move data to the body"
            )
        queue_id = values.get("queue_id")
        if queue_id is not None and queue_id < 0:
            raise _Unfit(f"queue_id is {queue_id}, and queues are counted from 0")
        flag = values.get("flag") or 0
        if not -(1 << 31) <= flag < 1 << 31:
            raise _Unfit(f"flag is {flag}, which does not fit into 32 bits")
        born = values.get("born_timestamp")
        return Outgoing(
            row,
            topic,
            body,
            text,
            flag,
            queue_id,
            values.get("route_key") or properties.get(names.SHARDING_KEY, ""),
            born,
            delayed or born is not None,
        )

    def _check_topic(self, topic: str) -> None:
        if topic in self._good_topics:
            return
        if not topic:
            raise _Unfit("it has no topic, and the option topic is not set")
        if not _TOPIC.fullmatch(topic) or len(topic) > MAX_TOPIC_LENGTH:
            raise _Unfit(f"a topic has up to {MAX_TOPIC_LENGTH} letters, digits and % | - _ only")
        if len(self._good_topics) < 100_000:  # limits memory, not topics
            self._good_topics.add(topic)

    def _properties(self, row: int, values: Mapping[str, Any]) -> dict[str, str]:
        unique = values.get("message_id") or f"{self.ids}{row:08X}"
        properties = {names.UNIQ_KEY: unique, names.WAIT: "true"}
        for name, value in values.get("properties") or ():
            if name and value and (name not in names.RESERVED or name in TAKEN_OVER):
                properties[name] = value
        for name, column in ((names.TAGS, "tags"), (names.SHARDING_KEY, "sharding_key")):
            if values.get(column):
                properties[name] = values[column]
        if names.TAGS in properties and not self._any_tag:
            tag = properties[names.TAGS]
            fault = tag_fault(tag)
            if fault:
                column = "tags" if values.get("tags") else "properties"
                raise _Unfit(f"its tag {tag!r} in the column {column} {fault}")
        keys = values.get("keys")
        if keys:
            properties[names.KEYS] = keys if isinstance(keys, str) else _joined(keys)
        return properties

    def _delay(self, values: Mapping[str, Any], properties: dict[str, str]) -> bool:
        level = values.get("delay_level") or 0
        time = values.get("deliver_time")
        if not level and time is None:
            return False
        if self._immediate:
            raise _Unfit("it has a delay, which a message in a transaction cannot have: use mode=at-least-once")
        if level and time is not None:
            raise _Unfit("it has both delay_level and deliver_time: leave one null")
        if level:
            if not 0 < level <= MAX_DELAY_LEVEL:
                raise _Unfit(f"delay_level is {level}, and levels go from 1 to {MAX_DELAY_LEVEL}")
            properties[names.DELAY] = str(level)
        if time is not None:
            properties[names.TIMER_DELIVER_MS] = str(time)
        return True
