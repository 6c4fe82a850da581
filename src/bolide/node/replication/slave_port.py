"""The port at which slaves request the log of their master, with its TLS contexts and the proof of a slave's
identity."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.node.machine.node_world import NodeWorld
from bolide.node.ports.addresses import ANY, announced_ip, resolved
from bolide.node.ports.daemon_port import DaemonPort
from bolide.node.replication.log_tls import following_context, serving_context
from bolide.transport.raw_connection import RawConnection
from bolide.transport.raw_proven import Entering, ProvenPort
from bolide.transport.raw_tls import RawTls, Shaking

MOST_SAID: Final = 64


def log_address(options: BrokerOptions, world: NodeWorld) -> str:
    """Return the address to listen on for slaves. Without TLS it is never 0.0.0.0, because every client that reaches
    the port receives the whole log.

    Raises `ConfigError`.
    """
    if options.replication.ha_tls_enable or options.place.bind_address not in ANY:
        return options.place.bind_address
    if options.place.broker_ip2:
        return resolved("brokerIP2", options.place.broker_ip2, world)
    return announced_ip(options.place.bind_address, options.place.broker_ip1, world)


class SlavePort:
    """The port for slaves of one broker. The constructor binds it if this broker may serve its log."""

    def __init__(self, options: BrokerOptions, world: NodeWorld, port: int, log: logging.Logger) -> None:
        """`port`: listen port of the broker. Raises `CannotListen`."""
        self._options = options
        self._world = world
        self._log = log
        self.number = options.replication.ha_listen_port or port + 1
        self._serving = serving_context(options)
        self.following = following_context(options)
        """TLS context for the connection to a master."""
        self.contexts = (self._serving, self.following)
        """TLS contexts between the brokers of a set."""
        self._shaking: RawTls | ProvenPort | None = None
        self._said: dict[str, str] = {}
        self._bound: DaemonPort | None = None
        if options.serves_log:
            host = log_address(options, world)
            setting = f"haListenPort = {options.replication.ha_listen_port}, on {host} only without haTlsEnable"
            self._bound = DaemonPort(world, host, self.number, setting)

    async def serve(self, made: Callable[[], RawConnection]) -> None:
        """Accept slaves. `made` returns the protocol of a new connection. Raises `CannotListen`."""
        if self._bound is not None:
            await self._bound.serve(self._accepted(made))

    def _accepted(self, made: Callable[[], RawConnection]) -> Callable[[], RawConnection | Shaking | Entering]:
        options = self._options
        if self._serving is not None:
            tls = self._shaking = RawTls(self._serving, made, self._refused)
            return tls.accepted
        if options.access.inner_credentials is None:
            return made
        proven = self._shaking = ProvenPort(
            options.access.cluster_users,
            options.set_name,
            self._world,
            made,
            self._refused,
            required=options.access.cluster_authentication_enabled,
            seconds=options.replication.ha_housekeeping_interval / 1000,
        )
        return proven.accepted

    def _refused(self, peer: str, why: str) -> None:
        """Log a rejected slave once per reason, because it retries every few seconds."""
        host = peer.rpartition(":")[0]
        if self._said.get(host) != why:
            if len(self._said) >= MOST_SAID:
                self._said.clear()
            self._said[host] = why
            self._log.warning("rejecting the slave %s: %s", peer, why)

    def close(self) -> None:
        """Stop accepting slaves."""
        if self._bound is not None:
            self._bound.close()

    def stop(self) -> None:
        """Close the connections that have not identified themselves yet."""
        if self._shaking is not None:
            self._shaking.stop()
