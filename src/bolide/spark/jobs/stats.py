"""Statistics of topics: sizes, rates, latency from born to stored, tags, hot keys, and time series.

Reads the messages twice for all tables: once with grouping sets, once for the keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOT_KEYS: Final = 50
TAGS_SHOWN: Final = 200
POINTS: Final = 120
"""Minimum number of points in time, which determines the step among `STEPS`."""
STEPS: Final = (1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 21_600, 86_400)
"""Widths of a point in time, in seconds."""
_TOPIC, _TIME = 0b011, 0b010
"""grouping_id of a topic's row and of a point in time: one bit per column of topic, tags, at that is not grouped."""


@dataclass(frozen=True)
class TopicStats:
    """Statistics of a topic: sizes of bodies in bytes, latencies from born to stored in ms, times in ms since 1970."""

    topic: str
    messages: int
    bytes: int
    mean_size: float
    p99_size: int
    largest: int
    first: int
    last: int
    rate: float
    """Messages per second between the first and last message."""
    latency_p50: int
    latency_p99: int
    latency_most: int


@dataclass(frozen=True)
class Count:
    """Number of messages and bytes of a tag, key or point in time of a topic."""

    topic: str
    name: str
    messages: int
    bytes: int


@dataclass
class Statistics:
    """The statistics of all topics. `step` is the width in seconds of a point in `times`, whose names are ms since
    1970."""

    topics: list[TopicStats] = field(default_factory=list)
    tags: list[Count] = field(default_factory=list)
    keys: list[Count] = field(default_factory=list)
    times: list[Count] = field(default_factory=list)
    step: int = 60

    @property
    def messages(self) -> int:
        """Number of messages of all topics."""
        return sum(topic.messages for topic in self.topics)

    @property
    def bytes(self) -> int:
        """Size of all bodies in bytes."""
        return sum(topic.bytes for topic in self.topics)


def stats(messages: DataFrame, step: int = 0, hot_keys: int = HOT_KEYS) -> Statistics:
    """Compute the statistics of a batch of messages from `rocketmq`, `rocketmq-store` or an archive.

    `step` is the width of a point in time in seconds. For 0, the job reads the times first and selects a width. Raises
    `OptionError` if the messages are a stream.
    """
    from pyspark.sql import functions as f

    if messages.isStreaming:
        raise OptionError("statistics are of a batch: read the topics with spark.read")
    small = messages.selectExpr(
        "topic", "tags", "keys", "length(body) AS size", "unix_millis(store_timestamp) AS stored",
        "greatest(unix_millis(store_timestamp) - unix_millis(born_timestamp), 0L) AS waited",
    )  # fmt: skip
    step = step or _step(small)
    timed = small.withColumn("at", f.expr(f"floor(stored / {step * 1000}) * {step * 1000}"))
    groups = [["topic"], ["topic", "tags"], ["topic", "at"]]
    found = timed.groupingSets(groups, "topic", "tags", "at").agg(
        f.grouping_id("topic", "tags", "at").alias("kind"),
        f.count("*").alias("n"),
        f.sum("size").alias("bytes"),
        f.avg("size").alias("mean"),
        f.max("size").alias("largest"),
        f.percentile_approx("size", 0.99).alias("p99_size"),
        f.min("stored").alias("first"),
        f.max("stored").alias("last"),
        f.max("waited").alias("latency_most"),
        f.percentile_approx("waited", [0.5, 0.99]).alias("latency"),
    )
    counted = Statistics(step=step)
    for row in found.collect():
        if row.kind == _TOPIC:
            counted.topics.append(_topic(row))
        elif row.kind == _TIME:
            counted.times.append(Count(row.topic, str(row.at), row.n, row.bytes))
        else:
            counted.tags.append(Count(row.topic, row.tags, row.n, row.bytes))
    counted.topics.sort(key=lambda one: -one.messages)
    counted.tags = sorted((one for one in counted.tags if one.name is not None), key=lambda one: -one.messages)
    del counted.tags[TAGS_SHOWN:]
    counted.times.sort(key=lambda one: (one.topic, int(one.name)))
    hot = (
        small.select("topic", "size", f.explode("keys").alias("key"))
        .groupBy("topic", "key")
        .agg(f.count("*").alias("n"), f.sum("size").alias("bytes"))
        .orderBy(f.desc("n"), "topic", "key")
        .limit(hot_keys)
    )
    counted.keys = [Count(row.topic, row.key, row.n, row.bytes) for row in hot.collect()]
    return counted


def _topic(row: Any) -> TopicStats:
    seconds = (row.last - row.first) / 1000
    return TopicStats(
        topic=row.topic,
        messages=row.n,
        bytes=row.bytes,
        mean_size=float(row.mean),
        p99_size=row.p99_size,
        largest=row.largest,
        first=row.first,
        last=row.last,
        rate=row.n / seconds if seconds > 0 else float(row.n),
        latency_p50=row.latency[0],
        latency_p99=row.latency[1],
        latency_most=row.latency_most,
    )


def _step(small: DataFrame) -> int:
    first, last = small.selectExpr("min(stored)", "max(stored)").first() or (None, None)
    seconds = 0 if first is None or last is None else (last - first) / 1000
    fitting = [step for step in STEPS if seconds / step >= POINTS]
    return fitting[-1] if fitting else STEPS[0]
