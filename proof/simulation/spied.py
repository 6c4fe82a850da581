"""Information that an attacker can gather by listening in the network of a set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bolide.node.broker import BrokerNode
from bolide.node.controller.node import ControllerNode
from bolide.replication.epochs import Epochs
from proof.simulation.cluster import Cluster
from proof.simulation.disk import Disk
from proof.simulation.replica_parts import switching_of
from proof.simulation.replicas import Replicas


class Spied:
    """Reads the state of the run."""

    def __init__(self, cluster: Cluster, replicas: Replicas, servers: Mapping[str, list[str]]) -> None:
        """`servers` contains the names of the controllers and name servers, by port."""
        self._cluster = cluster
        self._replicas = replicas
        self._servers = servers

    @property
    def brokers(self) -> list[str]:
        """Every machine with a broker."""
        return self._replicas.names

    def places(self, port: str) -> list[str]:
        """Return the machines that have such a port."""
        return self._servers.get(port) or self.brokers

    def set_named(self, name: str) -> Any:
        """Return a set from the leading controller, or None without a leader."""
        for controller in self._servers["controller"]:
            node = self._cluster.nodes.get(controller)
            found = node._controller.sets.get(name) if isinstance(node, ControllerNode) else None
            if found is not None:
                return found.value
        return None

    def set_of(self, node: str) -> str:
        """Return the set of a machine."""
        return self._replicas.set_of(node)

    def ip(self, name: str) -> str:
        """Return the address of a machine."""
        return self._cluster.hosts[name].ip

    def node_at(self, ip: str) -> str:
        """Return the broker's host with this address, or "" if there is none."""
        return next((node for node in self.brokers if self.ip(node) == ip), "")

    def epochs(self, node: str) -> Epochs:
        """Return the epochs of a running replica's log."""
        running = self._cluster.nodes.get(node)
        switching = switching_of(running) if isinstance(running, BrokerNode) else None
        return Epochs() if switching is None else switching.epoch_log.epochs

    def end(self, node: str) -> int:
        """Return the end of a replica's log; 0 if it does not run."""
        running = self._cluster.nodes.get(node)
        return int(running.store.log.written_offset) if isinstance(running, BrokerNode) else 0

    def log(self, node: str, begin: int, end: int) -> bytes:
        """Return bytes of a replica's first log file."""
        disk = self._cluster.disks[node]
        assert isinstance(disk, Disk)
        return disk.bytes_of(f"/store/commitlog/{0:020d}", begin, end - begin)
