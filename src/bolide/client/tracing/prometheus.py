"""Metrics of producers and consumers for Prometheus, through its client library (``pip install prometheus-client``).

Names, labels, units and bounds follow RocketMQ's clients, but ``consumer_group`` or ``producer_group`` replaces their
``client_id``, which differs between processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bolide.client.messages.checked import checked_constructor
from bolide.client.tracing.interceptor import ConsumeCall, ConsumerCache, Interceptor, SendCall
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

SEND_MS: Final = (1, 5, 10, 20, 50, 200, 500)
AWAIT_MS: Final = (1, 5, 20, 100, 1000, 5000, 10000)
PROCESS_MS: Final = (1, 5, 10, 100, 1000, 10000, 60000)
SUCCESS, FAILURE = "success", "failure"
_BEGAN: Final = "prometheus"


@checked_constructor
class PrometheusMetrics(Interceptor):
    """Counts and times sends and listener calls: ``Producer("orders", interceptors=(PrometheusMetrics(),))``.

    One object serves all producers and consumers of a process, which share its metrics. The default `registry` is the
    library's. Raises `ValueError` for a second object in a registry, and `ImportError` at import without
    prometheus-client.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, world: World = THE_WORLD) -> None:
        self._world = world
        sent = ("topic", "producer_group", "invocation_status")
        consumed = ("topic", "consumer_group", "invocation_status")
        self._sends = Histogram(
            "rocketmq_send_cost_time",
            "Time of a send with all its tries, ms.",
            sent,
            buckets=SEND_MS,
            registry=registry,
        )
        self._await = Histogram(
            "rocketmq_await_time", "Time from the store of a message to its listener, ms.", consumed[:2],
            buckets=AWAIT_MS, registry=registry,
        )  # fmt: skip
        self._process = Histogram(
            "rocketmq_process_time",
            "Time of a call of a listener, ms.",
            consumed,
            buckets=PROCESS_MS,
            registry=registry,
        )
        self._consumed = Counter("bolide_client_consumed", "Messages given to listeners.", consumed, registry=registry)
        self._caches: list[tuple[str, ConsumerCache]] = []
        registry.register(_CachedMessages(self._caches))

    def joined(self, group: str, cached: ConsumerCache) -> None:
        """Count the consumer's cached messages whenever the registry is collected."""
        self._caches.append((group, cached))

    def left(self, group: str, cached: ConsumerCache) -> None:
        """Stop counting the consumer's cached messages."""
        self._caches.remove((group, cached))

    def before_send(self, call: SendCall) -> None:
        """Store the start time of a send."""
        call.state[_BEGAN] = self._world.monotonic()

    def after_send(self, call: SendCall) -> None:
        """Record the outcome; for a oneway send, success means that it was written."""
        status = SUCCESS if call.error is None else FAILURE
        self._sends.labels(call.message.topic, call.group, status).observe(self._since(call.state.pop(_BEGAN)))

    def before_consume(self, call: ConsumeCall) -> None:
        """Called before a listener call or at the end of a poll: records the waiting time of the messages."""
        call.state[_BEGAN] = self._world.monotonic()
        for message in call.messages:
            waited = max(call.began - message.store_timestamp, 0)  # the clocks of two hosts may differ
            self._await.labels(message.topic, call.group).observe(waited)

    def after_consume(self, call: ConsumeCall) -> None:
        """Record the outcome, and the time of the listener. A poll has no listener."""
        took = self._since(call.state.pop(_BEGAN))
        status = SUCCESS if call.success else FAILURE
        if not call.polled:
            self._process.labels(call.messages[0].topic, call.group, status).observe(took)
        for message in call.messages:
            self._consumed.labels(message.topic, call.group, status).inc()

    def _since(self, began: float) -> float:
        return (self._world.monotonic() - began) * 1000  # ms


class _CachedMessages(Collector):
    """Pulled but unconsumed messages of push consumers. Counted at collection, so that messages add no cost."""

    def __init__(self, caches: Sequence[tuple[str, ConsumerCache]]) -> None:
        self._caches = caches

    def describe(self) -> list[GaugeMetricFamily]:
        """Return the names of the metrics without calling the consumers."""
        labels = ("topic", "consumer_group")
        return [
            GaugeMetricFamily("rocketmq_consumer_cached_messages", "Messages pulled and not done.", labels=labels),
            GaugeMetricFamily("rocketmq_consumer_cached_bytes", "Bytes of their bodies.", labels=labels),
            GaugeMetricFamily(
                "bolide_client_paused_queues", "Queues that flow control keeps from being pulled.", labels=labels
            ),
        ]

    def collect(self) -> list[GaugeMetricFamily]:
        """Return the metrics; consumers of one group in this process are summed."""
        found: dict[tuple[str, str], tuple[int, int, int]] = {}
        for group, cached in list(self._caches):
            paused = cached.paused()
            for topic, (count, size) in cached().items():
                counted, sized, stopped = found.get((topic, group), (0, 0, 0))
                found[topic, group] = (counted + count, sized + size, stopped + paused.get(topic, 0))
        families = self.describe()
        for labels, figures in found.items():
            for family, figure in zip(families, figures, strict=True):
                family.add_metric(labels, figure)
        return families
