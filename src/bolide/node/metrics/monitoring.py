"""The monitoring port of one node, from start to stop. Disabled unless metricsExporterType enables it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bolide.errors import ConfigError
from bolide.monitor.health import Health, Pulse
from bolide.monitor.server import MonitorServer, Page
from bolide.monitor.shared_page import SharedPage
from bolide.node.logs.logs import dropped_lines
from bolide.node.ports.addresses import host_port
from bolide.node.ports.daemon_port import DaemonPort
from bolide.world.contract import World

try:
    from bolide.monitor.families import Exposition, Families
except ImportError as error:
    raise ConfigError(
        "metricsExporterType = PROM needs the client library of Prometheus: install bolide[server], or leave it out"
    ) from error

log = logging.getLogger("bolide.monitor")


class Monitoring:
    """Monitoring port of one node. Binds the port on creation, with the other ports, so that a port in use stops the
    start. Call `serve` once the node is ready."""

    def __init__(self, world: World, host: str, port: int) -> None:
        """Bind the port. Raises `CannotListen`."""
        self._world = world
        self._host = host
        self._port = DaemonPort(world, host, port, f"metricsPromExporterPort = {port}")
        self._server: MonitorServer | None = None
        self.number = self._port.number
        """The port's number."""

    async def serve(
        self, labels: dict[str, str], collect: Callable[[Families], None], troubles: Callable[[], list[str]]
    ) -> None:
        """Serve the pages. `collect` and `troubles` run on another thread. Raises `CannotListen`."""
        health = Health(Pulse(asyncio.get_running_loop().call_soon_threadsafe, self._world.monotonic), troubles)

        def collect_all(families: Families) -> None:
            collect(families)
            for where, count in dropped_lines().items():
                families.counter("bolide_log_lines_dropped_total", "Log lines that were not written.", count, log=where)

        figures = Exposition(labels, collect_all)
        pages: dict[str, Page] = {
            "/metrics": SharedPage(figures.page, figures.kind, self._world.monotonic).page,
            "/healthz": health.alive,
            "/readyz": health.ready,
        }
        self._server = MonitorServer(self._world, self._port, pages)
        await self._server.start()
        log.info("%s are served at http://%s", ", ".join(pages), host_port(self._host, self.number))

    async def stop(self) -> None:
        """Close the port. A second call does nothing."""
        if self._server is not None:
            await self._server.stop()
        self._port.close()
