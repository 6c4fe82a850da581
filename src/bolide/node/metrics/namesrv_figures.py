"""Metrics of a name server. RocketMQ's name server has no metrics, so all names are Bolide's."""

from __future__ import annotations

from collections.abc import Callable

from bolide.monitor.families import Families
from bolide.namesrv.tables import Tables
from bolide.node.metrics.certificates import add_certificates
from bolide.version import VERSION


class NamesrvFigures:
    """Metrics of one name server."""

    def __init__(
        self,
        tables: Tables,
        certificate_ends: Callable[[], dict[str, int]],
        *,
        connections: Callable[[], int],
        requests: Callable[[], int],
    ) -> None:
        self._tables = tables
        self._certificate_ends = certificate_ends
        self._connections = connections
        self._requests = requests

    def add_all(self, families: Families, wall: int) -> None:
        """Add all metrics. `wall`: wall clock in ms since 1970."""
        tables = self._tables
        families.gauge("bolide_namesrv_clusters", "Clusters that are known.", len(tables.clusters))
        families.gauge("bolide_namesrv_broker_names", "Names of brokers that are known.", len(tables.brokers))
        families.gauge("bolide_namesrv_brokers_alive", "Brokers that register.", len(tables.live))
        families.gauge("bolide_namesrv_topics", "Topics that some broker has.", len(tables.topics))
        families.counter("bolide_requests_total", "Requests of all kinds.", self._requests())
        families.gauge("bolide_connections", "Open connections.", self._connections())
        add_certificates(families, self._certificate_ends(), wall)
        families.gauge("bolide_build_info", "Always 1.", 1, version=VERSION, role="NAMESRV")
