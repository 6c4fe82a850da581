"""Figures on their way to Prometheus: families of the maintained client library, made for each scrape from
integers that the process keeps anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from bolide.monitor.http import PageAnswer, Request


class Families:
    """Families under construction. `labels` are on every sample."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels
        self._found: dict[str, Metric] = {}

    def gauge(self, name: str, text: str, value: float, **labels: str) -> None:
        """A figure that rises and falls."""
        self._add("gauge", name, text, name, value, labels)

    def counter(self, name: str, text: str, value: float, **labels: str) -> None:
        """A figure that only rises while the process lives; its name ends with _total."""
        self._add("counter", name.removesuffix("_total"), text, name, value, labels)

    def histogram(
        self, name: str, text: str, bounds: Sequence[int], counts: Sequence[int], total: float, *, unit: float
    ) -> None:
        """How often something had which size. `counts` has one more than `bounds`, which are in units like `total`."""
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
        """All of them, in the order in which they came."""
        return self._found.values()


class Exposition:
    """The page /metrics. `collect` adds the figures of this process; those of the process itself, its memory,
    processor time, descriptors and collections, come from the library."""

    def __init__(self, labels: dict[str, str], collect: Callable[[Families], None]) -> None:
        self._labels = labels
        self._collect = collect
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """What the registry asks for at each scrape."""
        families = Families(self._labels)
        self._collect(families)
        return families.made()

    def kind(self, request: Request) -> str:
        """Return the content type of the page: requests with the same one get the same page."""
        return str(choose_encoder(request.accept)[1])

    async def page(self, request: Request) -> PageAnswer:
        """The figures of this moment, in the format that the scraper prefers."""
        encoder, content_type = choose_encoder(request.accept)
        return PageAnswer(200, encoder(self._registry), content_type)
