"""Figures of producers and consumers for Prometheus, by its client library (extra ``bolide[metrics]``).

Names, labels, units and bounds are those of RocketMQ's own clients, with ``consumer_group`` or ``producer_group`` in
place of their ``client_id``, which is another one for each process.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from bolide.client.tracing.interceptor import ConsumeCall, Interceptor, SendCall
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

SEND_MS: Final = (1, 5, 10, 20, 50, 200, 500)
AWAIT_MS: Final = (1, 5, 20, 100, 1000, 5000, 10000)
PROCESS_MS: Final = (1, 5, 10, 100, 1000, 10000, 60000)
SUCCESS, FAILURE = "success", "failure"
_BEGAN: Final = "prometheus"


class PrometheusMetrics(Interceptor):
    """Counts and times sends and calls of listeners: ``Producer("orders", interceptors=(PrometheusMetrics(),))``.

    One object serves all producers and consumers of a process, which share its figures; without `registry` they are in
    the library's own. Raises `ValueError` for a second one in a registry, and `ImportError` at import without
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

    def before_send(self, call: SendCall) -> None:
        """The time of a send begins."""
        call.state[_BEGAN] = self._world.monotonic()

    def after_send(self, call: SendCall) -> None:
        """Its outcome is known; of a oneway send only that it was written."""
        status = SUCCESS if call.error is None else FAILURE
        self._sends.labels(call.message.topic, call.group, status).observe(self._since(call.state.pop(_BEGAN)))

    def before_consume(self, call: ConsumeCall) -> None:
        """A listener is called, or a poll returns: the time that its messages waited has ended."""
        call.state[_BEGAN] = self._world.monotonic()
        for message in call.messages:
            waited = max(call.began - message.store_timestamp, 0)  # two machines, two clocks
            self._await.labels(message.topic, call.group).observe(waited)

    def after_consume(self, call: ConsumeCall) -> None:
        """The listener is through; a poll has none whose time counts."""
        took = self._since(call.state.pop(_BEGAN))
        status = SUCCESS if call.success else FAILURE
        if not call.polled:
            self._process.labels(call.messages[0].topic, call.group, status).observe(took)
        for message in call.messages:
            self._consumed.labels(message.topic, call.group, status).inc()

    def _since(self, began: float) -> float:
        return (self._world.monotonic() - began) * 1000  # ms
