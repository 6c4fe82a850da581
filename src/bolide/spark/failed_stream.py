"""A stream reader that replaces one that could not be created, so that the user sees the error.

PySpark 4.3 replaces an error of `DataSource.streamReader` by an `UnboundLocalError` in its clean-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition


def stream_reader(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Return the reader that `make` returns, or one whose first use raises the error of `make`."""
    try:
        return make()
    except Exception as error:
        return _FailedStreamReader(error)


class _FailedStreamReader(DataSourceStreamReader):
    """Raises the error in each method that Spark may call first: `initialOffset`, or others after a checkpoint."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _fail(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> dict[str, Any]:
        self._fail()

    def latestOffset(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        self._fail()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._fail()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        self._fail()
