"""Tasks and commits of the sink driven by hand against a broker: what a test of one moment needs, with no session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bolide.layout.record import Record, decode_records
from bolide.spark.sink.committing import PARTS, CommitParts
from bolide.spark.sink.endings import Ender
from bolide.spark.sink.half_handles import HalfRun
from bolide.spark.sink.messages import Task
from bolide.spark.sink.sink_options import sink_options
from bolide.spark.sink.task_writing import Written
from bolide.spark.sink.writer import StreamWriter
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.fetch import RangeReader
from bolide.spark.source.queues import Queue
from bolide.spark.source.ranges import Range
from bolide.spark.source.source_options import read_options
from bolide.transport.blocking import PendingRun

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


class Stopped(Exception):
    """The driver was killed."""


class Dies(Ender):
    """A driver that is killed when it has sent five requests of a commit, each for one message."""

    together = 1
    sent = 0

    def send_ends(self, run: HalfRun, how: int) -> PendingRun | None:
        self.sent += 1
        if self.sent > 5:
            raise Stopped
        return super().send_ends(run, how)


def stream_writer(options: dict[str, str], parts: CommitParts = PARTS) -> StreamWriter:
    """A writer as Spark makes one for each batch, and again for each commit."""
    return StreamWriter(sink_options(options, streaming=True), parts)


def write(options: dict[str, str], task: Task, bodies: Sequence[bytes | None], **columns: Sequence[Any]) -> Written:
    """One attempt at one task."""
    arrays = [pa.array(bodies, pa.binary()), *(pa.array(values) for values in columns.values())]
    batch = pa.RecordBatch.from_arrays(arrays, names=["body", *columns])
    written = stream_writer(options).write_task(iter([batch]), task)
    assert isinstance(written, Written)
    return written


def commit(options: dict[str, str], messages: Sequence[Any], batch: int, parts: CommitParts = PARTS) -> None:
    """What the driver does when all tasks have answered."""
    stream_writer(options, parts).commit(list(messages), batch)


def records(namesrv: str, topic: str) -> list[Record]:
    """Everything that can be pulled from a topic, queue by queue."""
    options = read_options({"namesrv": namesrv, "subscribe": topic})
    cluster = Cluster(options)
    try:
        return [
            record
            for queue, end in sorted(cluster.latest(cluster.queues([topic])).items())
            for record in pulled(cluster, options, queue, end)
        ]
    finally:
        cluster.close()


def pulled(cluster: Cluster, options: Any, queue: Queue, end: int) -> list[Record]:
    """The records of one queue up to an offset."""
    reader = RangeReader(Range(queue, 0, end), cluster.members(queue.broker), options)
    try:
        return [record for data, _ in reader.chunks() for record in decode_records(data)]
    finally:
        reader.close()


def bodies(namesrv: str, topic: str) -> list[bytes]:
    """The bodies of a topic, sorted."""
    return sorted(record.body for record in records(namesrv, topic))


def undecided(namesrv: str, topic: str) -> int:
    """Half messages on the brokers of a topic that no op record names."""
    options = read_options({"namesrv": namesrv, "subscribe": topic})
    cluster = Cluster(options)
    try:
        count = 0
        for broker in {queue.broker for queue in cluster.queues([topic])}:
            halves, ops = (Queue(name, broker, 0) for name in (HALF_TOPIC, OP_TOPIC))
            ends = cluster.latest([halves, ops])
            named = {
                int(offset)
                for record in pulled(cluster, options, ops, ends[ops])
                for offset in record.body.decode().split(",")
                if offset
            }
            count += sum(record.queue_offset not in named for record in pulled(cluster, options, halves, ends[halves]))
        return count
    finally:
        cluster.close()
