"""Reads whose conditions become options of the source: `read(spark, ...).where("tags = 'paid'").load()`.

PySpark 4.3 can also push conditions down to a Python source, but keeps them on a relation that the next query shares,
which gives wrong rows. Here every condition makes a new read with a separate relation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bolide.spark.source.conditions import narrowing_of, terms_of
from bolide.spark.source.source_options import KNOWN, read_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Read:
    """A read that is not started yet. `where` returns a new read; only `load` sends requests to a cluster."""

    spark: SparkSession
    options: Mapping[str, str]
    streaming: bool = False
    _pushed: Mapping[str, str] = field(default_factory=dict)
    _left: tuple[tuple[str, str | Column], ...] = ()

    def where(self, condition: str | Column) -> Read:
        """Select the rows that match a condition, like `DataFrame.where`.

        Terms joined by AND that compare topic, broker, queue_id, queue_offset, store_timestamp or tags with constants,
        and `array_contains(keys, ...)`, are converted to options, so that brokers send fewer messages. If there are
        other terms, Spark applies the condition to the remaining rows.
        """
        given = dict(self.options)
        pushed = dict(self._pushed)
        rest: list[str] = []
        for term, text in self._terms(condition):
            narrowing = None if term is None else narrowing_of(term, given)
            if narrowing is None:
                rest.append(text)
            else:
                given.update(narrowing)
                pushed.update(narrowing)
        left = self._left
        if rest:
            left = (*left, (" AND ".join(rest), condition))
        return replace(self, options=given, _pushed=pushed, _left=left)

    def pushed(self) -> dict[str, str]:
        """Return the options that replace conditions."""
        return dict(self._pushed)

    def left(self) -> tuple[str, ...]:
        """Return the conditions that Spark applies, as SQL, one text per `where`."""
        return tuple(text for text, _ in self._left)

    def __str__(self) -> str:
        """Return a sentence about the read. Raises `OptionError` if an option is unknown, invalid or missing."""
        kind = "a stream that" if self.streaming else "a batch that"
        return f"{kind} {read_options(self.options, self.streaming)}"

    def load(self) -> DataFrame:
        """Return the rows, as a stream after `read_stream`."""
        reader: Any = self.spark.readStream if self.streaming else self.spark.read
        frame: DataFrame = reader.format("rocketmq").options(**self.options).load()
        for _, condition in self._left:
            frame = frame.where(condition)
        return frame

    def _terms(self, condition: str | Column) -> list[tuple[Any, str]]:
        """Return each term of the condition with its SQL. A term is None if it cannot be converted."""
        from bolide.spark.data_source import read_ddl

        empty = self.spark.createDataFrame([], read_ddl(read_options(self.options, streaming=None)))
        filtered: Any = empty.where(condition)
        if not hasattr(filtered, "_jdf"):
            return [(None, str(condition))]  # Spark Connect: the expression is in another host's JVM
        parsed = filtered._jdf.queryExecution().analyzed().condition()
        return list(zip(terms_of(parsed), _texts_of(parsed), strict=True))


def read(spark: SparkSession, **options: Any) -> Read:
    """Return a batch read of a cluster. The options are the options of `format("rocketmq")`."""
    return Read(spark, _texts(options))


def read_stream(spark: SparkSession, **options: Any) -> Read:
    """Return a stream of a cluster's messages. The options are the options of `format("rocketmq")`."""
    return Read(spark, _texts(options), streaming=True)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {
        KNOWN.get(name.lower(), name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def _texts_of(condition: Any) -> list[str]:
    """Return the SQL of each term, in the order of `terms_of`."""
    kind = condition.getClass().getSimpleName()
    if kind == "And":
        return [*_texts_of(condition.left()), *_texts_of(condition.right())]
    return [condition.sql()] * (2 if kind == "Between" else 1)
