"""Runs of a query that end at the messages that existed at their start, with every version of Spark.

Spark 4.2 and newer do this with trigger AvailableNow. Spark 4.0 and 4.1 end such a run after one batch, even if the
source limits batches or an earlier run planned the batch. With these versions the query has a continuous trigger, the
option `untilNow` limits its batches (`older_stream`), and `ended` stops it when it waits for data.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.spark_versions import PASSES_LIMITS

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

OPTIONS: Final[Mapping[str, str]] = MappingProxyType({} if PASSES_LIMITS else {"untilNow": "true"})
"""Additional options of the stream, which is one of Bolide's sources."""
CONTINUOUS: Final[Mapping[str, Any]] = MappingProxyType({"processingTime": "0 seconds"})
TRIGGER: Final[Mapping[str, Any]] = MappingProxyType({"availableNow": True}) if PASSES_LIMITS else CONTINUOUS
_WAITS: Final = "Waiting for data to arrive"
"""Status of a query that found no new data, in Spark 4.0 and 4.1."""


def ended(query: StreamingQuery, seconds: float, follow: bool) -> bool:
    """Wait up to `seconds` for the end of a run with `TRIGGER`, or of a continuous run with `follow`. Return whether it
    ended.

    Raises Spark's error of the query.
    """
    if query.awaitTermination(seconds):  # type: ignore[arg-type] # fractions of a second are allowed
        return True
    if follow or PASSES_LIMITS or query.status["message"] != _WAITS:
        return False
    query.stop()
    return True
