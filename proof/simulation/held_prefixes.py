"""Checks that each replica of a run keeps the bytes that its set holds, whatever its master is."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from bolide.node.broker import BrokerNode
from proof.ledger import Finding
from proof.simulation.cluster import Cluster
from proof.simulation.disk import Disk
from proof.simulation.replica_parts import switching_of
from proof.simulation.replicas import Replicas

KEPT: Final = "a replica keeps what its set holds"


class _Known(NamedTuple):
    """State of a replica at the last check."""

    process: int
    disk: Disk
    held: int = 0
    """End offset of the bytes that its set holds."""
    crc: int = 0
    """The CRC of the log up to there."""


class Prefixes:
    """The bytes of each replica's log that its set holds."""

    def __init__(self, cluster: Cluster, replicas: Replicas) -> None:
        self.known: dict[str, _Known] = {}
        self._cluster = cluster
        self._replicas = replicas
        self._size = 0

    def look(self) -> list[Finding]:
        """Check every running replica against the last check."""
        return [finding for node in self._replicas.names for finding in self._look_at(node)]

    def _look_at(self, node: str) -> Iterator[Finding]:
        running, disk = self._cluster.nodes.get(node), self._cluster.disks[node]
        switching = switching_of(running) if isinstance(running, BrokerNode) else None
        if switching is None:
            return
        assert isinstance(running, BrokerNode)
        assert isinstance(disk, Disk)
        self._size = int(running.store.log.segment_size)
        end, process = int(running.store.log.written_offset), self._cluster.processes[node].number
        known = self.known.get(node)
        if known is None or known.disk is not disk:
            known = _Known(process, disk)
        held = known.held
        if known.process != process:  # a killed process loses confirmations that are not in its checkpoint
            held = min(held, switching.held.offset)
            known = _Known(process, disk, held, self._crc(disk, 0, held) if held < known.held else known.crc)
        if end < held:
            yield Finding(KEPT, f"{node} ends at {end}, and its set holds {held}")
            self.known[node] = _Known(process, disk)
            return
        if self._crc(disk, 0, held) != known.crc:
            yield Finding(KEPT, f"{node} has other bytes below {held}, which its set holds")
        now = max(held, min(switching.held.offset, end))
        self.known[node] = _Known(process, disk, now, self._crc(disk, 0, now))

    def end_of(self, node: str) -> int:
        """Return where the log of a replica ends that runs, or how much its set held of it at the last look."""
        running = self._cluster.nodes.get(node)
        if isinstance(running, BrokerNode):
            return int(running.store.log.written_offset)
        return self.known[node].held if node in self.known else 0

    def _crc(self, disk: Disk, begin: int, end: int) -> int:
        crc = 0
        while begin < end:
            stop = min(end, begin - begin % self._size + self._size)
            path = f"/store/commitlog/{begin - begin % self._size:020d}"
            crc = zlib.crc32(disk.bytes_of(path, begin % self._size, stop - begin), crc)
            begin = stop
        return crc
