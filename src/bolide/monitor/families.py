"""Builds the metric families for Prometheus at each scrape, from integers that the process maintains anyway. Uses the
official client library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from bolide.monitor.http import PageAnswer, Request


class Families:
    """Collects metric families. Every sample gets `labels`."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels
        self._found: dict[str, Metric] = {}

    def gauge(self, name: str, text: str, value: float, **labels: str) -> None:
        """Add a sample of a gauge, a metric that rises and falls."""
        self._add("gauge", name, text, name, value, labels)

    def counter(self, name: str, text: str, value: float, **labels: str) -> None:
        """Add a sample of a counter, a metric that only rises while the process runs. Its name ends with _total."""
        self._add("counter", name.removesuffix("_total"), text, name, value, labels)

    def histogram(
        self, name: str, text: str, bounds: Sequence[int], counts: Sequence[int], total: float, *, unit: float
    ) -> None:
        """Add a histogram. `counts` has one item more than `bounds`, for values above the last bound. `bounds` and
        `total` are multiplied by `unit` to convert them to the unit of the metric."""
        seen = 0
        for bound, count in zip(bounds, counts, strict=False):
            seen += count
            self._add("histogram", name, text, name + "_bucket", seen, {"le": f"{bound * unit:g}"})
        seen += counts[-1]
        self._add("histogram", name, text, name + "_bucket", seen, {"le": "+Inf"})
        self._add("histogram", name, text, name + "_count", seen, {})
        self._add("histogram", name, text, name + "_sum", total * unit, {})

    def _add(self, kind: str, family: str, text: str, sample: str, value: float, labels: dict[str, str]) -> None:
        metric = self._found.get(family)
        if metric is None:
            metric = self._found[family] = Metric(family, text, kind)
        metric.add_sample(sample, {**self._labels, **labels}, value)

    def made(self) -> Iterable[Metric]:
        """Return all families in the order in which they were added."""
        return self._found.values()


class Exposition:
    """The page /metrics. `collect` adds the metrics of Bolide. The client library adds the metrics of the process:
    memory, processor time, descriptors and garbage collections."""

    def __init__(self, labels: dict[str, str], collect: Callable[[Families], None]) -> None:
        self._labels = labels
        self._collect = collect
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Return all families. The registry calls this at each scrape."""
        families = Families(self._labels)
        self._collect(families)
        return families.made()

    def kind(self, request: Request) -> str:
        """Return the content type of the page. Requests with equal content types share a page."""
        return str(choose_encoder(request.accept)[1])

    async def page(self, request: Request) -> PageAnswer:
        """Return the current metrics in the format that the scraper prefers."""
        encoder, content_type = choose_encoder(request.accept)
        return PageAnswer(200, encoder(self._registry), content_type)
