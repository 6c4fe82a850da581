"""Creates the monitoring port of a node if it is enabled. Its modules are not imported otherwise."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bolide.broker.options.process import ProcessOptions
from bolide.controller.options import ControllerOptions
from bolide.namesrv.options import NamesrvOptions
from bolide.world.contract import World

if TYPE_CHECKING:
    from bolide.node.metrics.monitoring import Monitoring


def made_monitoring(
    options: ProcessOptions | NamesrvOptions | ControllerOptions, bind_address: str, world: World, life: AsyncExitStack
) -> Monitoring | None:
    """Return the port, bound to metricsPromExporterHost or `bind_address`; `life` closes it.

    Return None if metricsExporterType is DISABLE. Raises `CannotListen`.
    """
    if options.metrics_exporter_type == "DISABLE":
        return None
    from bolide.node.metrics.monitoring import Monitoring

    host = options.metrics_prom_exporter_host or bind_address
    made = Monitoring(world, host, options.metrics_prom_exporter_port)
    life.push_async_callback(made.stop)
    return made
