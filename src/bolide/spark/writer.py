"""Writing rows as messages, at least once: every row of a partition is acknowledged before its task succeeds.

A task that fails is run again by Spark and sends its rows anew; a reader may then see some twice. Rows go out with
many sends in flight over one connection a broker; a send that fails is tried again at another broker's queue.
"""

from __future__ import annotations

import time
import uuid
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from bolide.errors import ConnectionLost, RequestTimeout
from bolide.layout import property_names as names
from bolide.layout.properties import format_properties
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.spark.cluster import Cluster, signed
from bolide.spark.errors import ClusterUnavailable, OptionError, RowRefused
from bolide.spark.options import SourceOptions
from bolide.spark.queues import Queue
from bolide.spark.schema import WRITE_COLUMNS
from bolide.transport.blocking import ConnectionPool, Pending

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS: Final = 5
PAUSE_S: Final = 0.5
TRY_AGAIN: Final = frozenset({codes.SYSTEM_ERROR, codes.SYSTEM_BUSY, codes.SERVICE_NOT_AVAILABLE, codes.NO_PERMISSION})
STORED: Final = frozenset(
    {codes.SUCCESS, codes.FLUSH_DISK_TIMEOUT, codes.FLUSH_SLAVE_TIMEOUT, codes.SLAVE_NOT_AVAILABLE}
)
"""Answers after which the message is in the broker's log."""


@dataclass
class Written(WriterCommitMessage):
    """What one task stored."""

    rows: int


@dataclass
class Outgoing:
    """One message on its way: its row, where it is sent, and how often it was tried."""

    row: int
    topic: str
    body: bytes
    properties: str
    flag: int
    queue_id: int | None
    route_key: str
    """Messages of one key go to one queue; empty: any."""
    born_timestamp: int | None
    """ms since the epoch; None: the time of sending."""
    tries: int = 0


class BatchWriter(DataSourceArrowWriter):
    """The sink of `df.write.format("rocketmq")`."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        unknown = sorted(set(columns) - set(WRITE_COLUMNS))
        if unknown:
            known = ", ".join(WRITE_COLUMNS)
            raise OptionError(f"the column {unknown[0]} means nothing to the rocketmq sink: drop it; known are {known}")
        if "body" not in columns:
            raise OptionError("the rocketmq sink needs a column body (BINARY or STRING)")
        if "topic" not in columns and not options.topic:
            raise OptionError('the rocketmq sink needs a column topic or .option("topic", NAME)')

    def write(  # type: ignore[override] # Spark's own Arrow writer narrows it the same way
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        sender = Sender(self._options)
        row = 0
        try:
            for batch in iterator:
                for values in batch.to_pylist():
                    sender.send(outgoing(values, row, self._options.topic))
                    row += 1
            sender.drain()
        finally:
            sender.close()
        return Written(row)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Everything is stored by now; nothing is left to do."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was sent stays sent: at least once."""


def outgoing(values: dict[str, Any], row: int, topic: str) -> Outgoing:
    """The message of a row. Raises RowRefused."""
    body = values["body"]
    if isinstance(body, str):
        body = body.encode()
    if not body:
        raise RowRefused(f"row {row} of this partition has no body: RocketMQ stores no empty messages")
    target = values.get("topic") or topic
    if not target:
        raise RowRefused(f"row {row} of this partition has no topic, and the option topic is not set")
    properties = {str(name): str(value) for name, value in dict(values.get("properties") or {}).items()}
    if values.get("tags"):
        properties[names.TAGS] = values["tags"]
    keys = values.get("keys")
    if keys:
        properties[names.KEYS] = keys if isinstance(keys, str) else " ".join(keys)
    if values.get("delay_level"):
        properties[names.DELAY] = str(values["delay_level"])
    if values.get("sharding_key"):
        properties[names.SHARDING_KEY] = values["sharding_key"]
    properties[names.UNIQ_KEY] = values.get("message_id") or uuid.uuid4().hex.upper()
    for name, value in properties.items():
        if "\x01" in name + value or "\x02" in name + value:
            raise RowRefused(f"row {row}: the property {name!r} holds a character that separates properties")
    queue_id = values.get("queue_id")
    born = values.get("born_timestamp")
    return Outgoing(
        row,
        target,
        bytes(body),
        format_properties(properties),
        int(values.get("flag") or 0),
        None if queue_id is None else int(queue_id),
        values.get("route_key") or values.get("sharding_key") or "",
        None if born is None else round(born.timestamp() * 1000),
    )


class Sender:
    """Sends messages with a bounded number in flight, and tries again what failed for a passing reason."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._timeout = options.request_timeout_ms / 1000
        self._cluster = Cluster(options)
        self._pool = ConnectionPool(connect_timeout=self._timeout)
        self._queues: dict[str, list[Queue]] = {}
        self._flight: deque[tuple[Outgoing, str, Pending | None]] = deque()
        self._turn = 0
        self._most = options.pulls_in_flight * 16

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
        self._cluster.close()

    def send(self, message: Outgoing) -> None:
        """Queue one message; waits for the oldest when too many are out."""
        while len(self._flight) >= self._most:
            self._settle()
        self._start(message)

    def drain(self) -> None:
        """Wait until everything is acknowledged. Raises ClusterUnavailable or RowRefused."""
        while self._flight:
            self._settle()

    def _start(self, message: Outgoing) -> None:
        queue = self._choose(message)
        address = self._cluster.addresses[queue.broker][0]
        pending: Pending | None
        try:
            pending = self._pool.get(address).start(self._command(message, queue), self._timeout)
        except ConnectionLost:
            pending = None
        self._flight.append((message, address, pending))

    def _settle(self) -> None:
        message, address, pending = self._flight.popleft()
        reason: str
        try:
            if pending is None:
                raise ConnectionLost(f"no connection to {address}")
            answer = pending.result()
        except (ConnectionLost, RequestTimeout) as error:
            self._pool.drop(address)
            reason = str(error)
        else:
            if answer.code in STORED:
                return
            reason = f"{address} answered {answer.code}: {answer.remark}"
            if answer.code not in TRY_AGAIN:
                raise RowRefused(f"row {message.row} of this partition cannot be stored in {message.topic}: {reason}")
        message.tries += 1
        if message.tries >= ATTEMPTS:
            raise ClusterUnavailable(
                f"row {message.row} of this partition was not stored after {ATTEMPTS} tries: {reason}"
            )
        time.sleep(PAUSE_S * message.tries)
        self._start(message)

    def _choose(self, message: Outgoing) -> Queue:
        queues = self._queues.get(message.topic)
        if queues is None:
            queues = self._queues[message.topic] = self._cluster.queues([message.topic], writable=True)
            if not queues:
                raise OptionError(f"topic {message.topic} has no queue that can be written to: check its permission")
        if message.queue_id is not None:
            fixed = [queue for queue in queues if queue.queue_id == message.queue_id]
            if not fixed:
                raise RowRefused(f"row {message.row}: topic {message.topic} has no queue {message.queue_id}")
            return fixed[self._turn % len(fixed)]
        if message.route_key:
            return queues[zlib.crc32(message.route_key.encode()) % len(queues)]
        self._turn += 1
        return queues[self._turn % len(queues)]

    def _command(self, message: Outgoing, queue: Queue) -> Command:
        ext = {
            "a": self._options.group,
            "b": message.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue.queue_id),
            "f": "0",
            "g": str(int(time.time() * 1000) if message.born_timestamp is None else message.born_timestamp),
            "h": str(message.flag),
            "i": message.properties,
            "j": "0",
            "k": "false",
            "m": "false",
            "n": queue.broker,
        }
        return signed(make_request(codes.SEND_MESSAGE_V2, 0, ext, message.body), self._options)
