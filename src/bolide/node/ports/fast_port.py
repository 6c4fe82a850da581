"""The fast port of a broker, `listenPort` - 2 (RocketMQ's VIP channel).

Slaves of RocketMQ query the topics of their master at this port, and a restarted master of RocketMQ queries the timer's
state of its slave there. RocketMQ has no setting for the port, so configurations written for RocketMQ do not mention
it.
"""

from __future__ import annotations

import logging
from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.node.ports.daemon_port import CannotListen, DaemonPort
from bolide.world.contract import World

DISTANCE: Final = 2


def fast_port(options: BrokerOptions, port: int, world: World, log: logging.Logger) -> DaemonPort | None:
    """Bind the fast port of the broker at `port`. Return None if the broker does not need one.

    Raises `CannotListen` if `fastPortEnable` is true. If it is not set, a port in use is only logged: only brokers of
    RocketMQ need the fast port, and the set may not have any.
    """
    wanted = options.place.fast_port_enable
    if wanted == "false" or (not wanted and not options.use_of_fast_port):
        return None
    try:
        if port <= DISTANCE:  # Port 0 would be any free port.
            raise CannotListen(
                f"listenPort = {port} is too low for the fast port, listenPort - 2: choose a higher port"
            )
        return DaemonPort(world, options.place.bind_address, port - DISTANCE, "the fast port, listenPort - 2")
    except CannotListen as error:
        if wanted:
            raise
        log.warning("%s. Without it %s; fastPortEnable = false ends this warning", error, options.use_of_fast_port)
        return None
