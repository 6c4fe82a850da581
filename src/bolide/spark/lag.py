"""The lag of streaming queries: the messages that exist and that a query has not read yet.

Spark lets a Python source report its newest offsets (since 4.2), but no metrics, so a listener computes the lag of each
query from the offsets of its progress. If it has the address of a cluster, it queries the brokers instead, because a
query that hangs reports no progress.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from bolide.errors import BolideError
from bolide.spark.errors import OptionError
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.source_options import read_options
from bolide.spark.source.stream_offset import read_offset

_LOG: Final = logging.getLogger("bolide.spark")
ASK_INTERVAL_S: Final = 5.0
"""Seconds for which responses of brokers are reused."""
_PATIENCE: Final = {"requestTimeoutMs": "3000", "retryTimeoutMs": "0"}
_NAMES: Final = (
    ("bolide_spark_offsets_behind_latest", "Messages of a topic that a streaming query has not read"),
    ("bolide_spark_max_offsets_behind_latest", "The same of the queue with most of them"),
    ("bolide_spark_min_offsets_behind_latest", "The same of the queue with fewest of them"),
    ("bolide_spark_avg_offsets_behind_latest", "The mean of the topic's queues"),
)


@dataclass(frozen=True)
class SourceLag:
    """The lag of a source of a query."""

    query: str
    """Name of the query, or its id if it has no name."""
    source: int
    """Index of the source among the sources of the query."""
    behind: Mapping[Queue, int]
    """Messages that were not read, by queue. Queues whose newest offset is not known are missing."""

    @property
    def total(self) -> int:
        """Messages of all queues."""
        return sum(self.behind.values())

    def metrics(self) -> dict[str, float]:
        """Return the metrics of Spark's Kafka source, or an empty dict if no queue is known."""
        if not self.behind:
            return {}
        return {
            "maxOffsetsBehindLatest": max(self.behind.values()),
            "minOffsetsBehindLatest": min(self.behind.values()),
            "avgOffsetsBehindLatest": self.total / len(self.behind),
        }

    def by_topic(self) -> dict[str, SourceLag]:
        """Return the lag of each topic."""
        found: dict[str, dict[Queue, int]] = {}
        for queue, count in self.behind.items():
            found.setdefault(queue.topic, {})[queue] = count
        return {topic: SourceLag(self.query, self.source, behind) for topic, behind in sorted(found.items())}

    def __str__(self) -> str:
        most = max(self.behind.values(), default=0)
        return (
            f"query {self.query}, source {self.source}: {self.total} messages not read in {len(self.behind)} queues, at"
            f" most {most} in one"
        )


@dataclass(frozen=True)
class _Reached:
    """The position of a source after its last batch."""

    query: str
    source: int
    offsets: Offsets
    newest: Offsets
    """The newest offsets when the batch was planned."""


class LagListener(StreamingQueryListener):
    """Computes the lag of each query of a session that reads topics: `spark.streams.addListener(LagListener())`.

    It is also a collector for `prometheus_client`: `REGISTRY.register(listener)`. It includes a query from its first
    progress until it ends.
    """

    def __init__(
        self,
        on_lag: Callable[[SourceLag], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: str,
    ) -> None:
        """`on_lag` is called at each progress of a query, for each of its sources.

        `options` are connection options of the source, such as `namesrv` and `accessKey`. With them, `lags` requests
        the newest offsets from the brokers, at most every five seconds. Without them, it uses the newest offsets of the
        last progress, which Spark 4.0 and 4.1 do not have. Raises `OptionError` if an option is invalid.
        """
        super().__init__()
        self._on_lag = on_lag
        self._clock = clock
        self._options = {**_PATIENCE, **options} if options else {}
        if options:
            read_options({**self._options, "subscribe": "T"})
        self._lock = threading.Lock()
        self._reached: dict[str, list[_Reached]] = {}
        """Positions of the sources, by the id of a query's run."""
        self._asking = threading.Lock()
        self._asked: tuple[float, Offsets] | None = None
        """Time and result of the last requests."""

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: a query has no offsets yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Store the offsets of a progress."""
        reached = _reached_of(event.progress)
        with self._lock:
            self._reached[str(event.progress.runId)] = reached
        for one in reached:
            lag = _lag_of(one, one.newest)
            _LOG.debug("%s", lag)
            if self._on_lag is not None:
                self._on_lag(lag)

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: the offsets have not changed."""

    def onQueryTerminated(self, event: Any) -> None:
        """Remove a query."""
        with self._lock:
            self._reached.pop(str(event.runId), None)

    def lags(self) -> list[SourceLag]:
        """Return the lag of each source of the running queries."""
        with self._lock:
            reached = [one for sources in self._reached.values() for one in sources]
        if not self._options:
            return [_lag_of(one, one.newest) for one in reached]
        asked = self._newest({queue.topic for one in reached for queue in one.newest or one.offsets})
        # The progress contains only queues that the query selects. The checkpoint also contains queues that it selected
        # before.
        return [
            _lag_of(one, {queue: asked.get(queue, at) for queue, at in one.newest.items()} if one.newest else asked)
            for one in reached
        ]

    def collect(self) -> Iterator[Any]:
        """Yield the gauges for `prometheus_client`, with the labels `query`, `source` and `topic`."""
        from prometheus_client.core import GaugeMetricFamily

        gauges = [GaugeMetricFamily(name, text, labels=["query", "source", "topic"]) for name, text in _NAMES]
        for lag in self.lags():
            for topic, one in lag.by_topic().items():
                for gauge, value in zip(gauges, (one.total, *one.metrics().values()), strict=True):
                    gauge.add_metric([lag.query, str(lag.source), topic], value)
        yield from gauges

    def _newest(self, topics: set[str]) -> Offsets:
        """Return the newest offsets of these topics, or the offsets of the last requests if the brokers do not
        respond."""
        with self._asking:
            now = self._clock()
            found = self._asked
            known = {queue.topic for queue in found[1]} if found else set()
            if found is None or now - found[0] >= ASK_INTERVAL_S or not topics <= known:
                offsets = dict(found[1]) if found else {}
                try:
                    offsets.update(self._ask(topics))
                except BolideError as error:
                    _LOG.warning("the lag of streaming queries is not current: %s", error)
                found = self._asked = (self._clock(), offsets)
        return found[1]

    def _ask(self, topics: set[str]) -> Offsets:
        if not topics:
            return {}
        options = read_options({**self._options, "subscribe": ",".join(sorted(topics))})
        with closing(Cluster(options)) as cluster:
            return cluster.latest(cluster.selected(tolerant=True))


def _reached_of(progress: Any) -> list[_Reached]:
    """Return the positions of the sources of a progress that read topics."""
    query = progress.name or str(progress.id)
    found = []
    for number, source in enumerate(progress.sources):
        end = _offsets(source.endOffset)
        if end is not None:
            found.append(_Reached(query, number, end, _offsets(source.latestOffset) or {}))
    return found


def _offsets(text: Any) -> Offsets | None:
    """Return the offsets in a text of a progress, or None if another source wrote it."""
    try:
        parsed = json.loads(text)
        return read_offset(parsed).reached if isinstance(parsed, dict) else None
    except (TypeError, ValueError, OptionError):
        return None


def _lag_of(reached: _Reached, newest: Offsets) -> SourceLag:
    # Omits a queue that the query has not discovered yet, because its first offset is not known here.
    behind = {queue: max(0, newest[queue] - at) for queue, at in reached.offsets.items() if queue in newest}
    return SourceLag(reached.query, reached.source, behind)
