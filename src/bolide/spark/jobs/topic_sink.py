"""Built-in sink that forwards messages to topics of the same or another cluster, at least once.

A message keeps its body, tags, keys, flag, id and its sender's properties, but not the properties of its storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bolide.spark.errors import OptionError
from bolide.spark.jobs.resending import COPIES
from bolide.spark.sink.messages import Task
from bolide.spark.sink.sink_options import sink_options
from bolide.spark.sink.task_writing import write_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from bolide.spark.jobs.sinks import SinkTask

KEPT: Final = ("body", "tags", "keys", "properties", "flag", "message_id")


class TopicSink:
    """Sends messages. Options are the write options of `format("rocketmq")`: `namesrv`, and optionally `topic`
    (default: the message's topic). Rejects options whose writes a driver must complete."""

    def __init__(self, task: SinkTask) -> None:
        self._options = checked = sink_options({**COPIES, **task.options})
        if checked.exactly_once:  # no driver would commit the half messages
            raise OptionError("the sink rocketmq sends at least once: remove option mode, or use a mirror or a replay")
        if checked.dead_letter_path:  # no driver would publish the files
            raise OptionError("the sink rocketmq does not save rejected rows: remove option deadLetterPath")
        if checked.body.kind:
            raise OptionError("the sink rocketmq sends stored bodies unchanged: remove option body.format")
        self._task = task
        self._batches = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Send messages, and wait until all of them are stored."""
        kept = [*KEPT, "topic"] if not self._options.topic else KEPT
        self._batches += 1
        writer = Task(f"sink-{self._task.batch}-{self._batches}", self._task.batch, self._task.partition)
        write_rows(iter([batch.select([name for name in kept if name in batch.schema.names])]), self._options, writer)

    def close(self) -> None:
        """Do nothing, because all messages are stored."""

    def abort(self) -> None:
        """Do nothing: sent messages remain, at least once."""
