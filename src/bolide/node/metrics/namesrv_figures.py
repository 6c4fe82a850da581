"""What a name server tells Prometheus. RocketMQ's has no metrics, so all names are Bolide's."""

from __future__ import annotations

from collections.abc import Callable

from bolide.monitor.families import Families
from bolide.namesrv.tables import Tables
from bolide.version import VERSION


class NamesrvFigures:
    """Of one name server."""

    def __init__(self, tables: Tables, connections: Callable[[], int], requests: Callable[[], int]) -> None:
        self._tables = tables
        self._connections = connections
        self._requests = requests

    def add_all(self, families: Families) -> None:
        """Everything."""
        tables = self._tables
        families.gauge("bolide_namesrv_clusters", "Clusters that are known.", len(tables.clusters))
        families.gauge("bolide_namesrv_broker_names", "Names of brokers that are known.", len(tables.brokers))
        families.gauge("bolide_namesrv_brokers_alive", "Brokers that register.", len(tables.live))
        families.gauge("bolide_namesrv_topics", "Topics that some broker has.", len(tables.topics))
        families.counter("bolide_requests_total", "Requests of all kinds.", self._requests())
        families.gauge("bolide_connections", "Open connections.", self._connections())
        families.gauge("bolide_build_info", "Always 1.", 1, version=VERSION, role="NAMESRV")
