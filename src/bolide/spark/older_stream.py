"""Streams under Spark 4.0 and 4.1, which pass neither the start of a batch nor its limit when they request its end.

They call `partitions(start, end)` for each batch, and at the restart of a query `partitions(end, end)` with the end of
the last planned batch, which is the start of the next one. For a new query, they request the end first. AvailableNow
reads one batch per run, and a source cannot detect it: with a limit, a run ends after a batch of that many rows. The
option `untilNow` ends the batches of a run with any trigger instead (`ending_runs`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bolide.spark.errors import OptionError
from bolide.spark.spark_versions import PASSES_LIMITS, ReadAllAvailable, ReadLimit

if TYPE_CHECKING:
    import pyarrow as pa

_LOG: Final = logging.getLogger("bolide.spark")
INITIAL: Final = "initial"
"""Marks the offset at which a query starts, before anything was read."""
OPEN: Final = "open"
"""Marks an end that was chosen before the start of its batch was known."""


class NewerStream(Protocol):
    """A stream reader as Spark 4.2 and newer use it."""

    def initialOffset(self) -> dict[str, Any]: ...

    def prepareForTriggerAvailableNow(self) -> None: ...

    def getDefaultReadLimit(self) -> ReadLimit: ...

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]: ...

    def reportLatestOffset(self) -> dict[str, Any] | None: ...

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]: ...

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...

    def stop(self) -> None: ...

    def read_until(self, end: dict[str, Any] | None) -> None:
        """Make the batches of this run end at this offset, as AvailableNow does, or remove that bound."""

    def goes_back(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        """Return whether a batch between these offsets would lose progress that the start contains."""


class OlderStream(DataSourceStreamReader):
    """Adapts a reader for newer versions to Spark 4.0 and 4.1.

    The first batch of each run may be the only one, so it is planned like for AvailableNow: it fails if a broker is
    down.
    """

    def __init__(self, reader: NewerStream, until_now: bool = False) -> None:
        self._reader = reader
        self._until_now = until_now
        self._reached: dict[str, Any] | None = None
        """End of the last planned batch, once Spark has requested its tasks."""
        self._asked = False

    def initialOffset(self) -> dict[str, Any]:
        return self._reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # as Spark 4.0 and 4.1 call it
        start = self._reached or self._reader.initialOffset()
        first, self._asked = not self._asked, True
        if first:
            self._reader.prepareForTriggerAvailableNow()
        elif not self._until_now:
            self._reader.read_until(None)
        end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        newest = self._reader.reportLatestOffset()
        if first and not self._until_now and newest is not None and self._reader.goes_back(newest, end):
            _LOG.warning(
                "a limit ends this batch before the last message; AvailableNow ends the query after it, so use option "
                "untilNow with another trigger"
            )
        return end if self._reached is not None or INITIAL in end else {**end, OPEN: True}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._reached = end
        if start == end:
            return []
        return self._reader.partitions(start, self._closed(start, end))

    def _closed(self, start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
        """Return the end of a batch extended by the data for this start. Raises `OptionError` if they do not match."""
        if OPEN not in end or INITIAL in start:
            return end
        if self._reader.goes_back(start, end):
            raise OptionError(
                "the batch ends before the checkpoint in some queue, because this Spark chose its end first: leave out "
                "the limit, use option untilNow with another trigger, or run AvailableNow on Spark 4.2 or newer"
            )
        self._reader.read_until(end)
        return self._reader.latestOffset(start, ReadAllAvailable())

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task. Spark passes None if a batch has no tasks."""
        return iter(()) if partition is None else self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint contains the progress."""

    def stop(self) -> None:
        self._reader.stop()


def for_this_spark(reader: Any, until_now: bool) -> DataSourceStreamReader:
    """Return a stream reader as the installed Spark calls it. With `until_now` its batches end at the present end."""
    if not PASSES_LIMITS:
        return OlderStream(reader, until_now)
    if until_now:
        reader.prepareForTriggerAvailableNow()
    newer: DataSourceStreamReader = reader
    return newer
