"""Who becomes master (DefaultElectPolicy.java)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bolide.controller.liveness import Heartbeat
from bolide.controller.replica_set import ReplicaSet


def elect(one: ReplicaSet, alive: Mapping[int, Heartbeat], designated: int | None, unclean: bool) -> int | None:
    """The best of the replicas in sync that live, or, if `unclean` and there is none, of all that live; None for none.

    designated: only this one will do. Otherwise a master that lives stays; else the replica with the newest epoch is
    elected, among equals that with the longest log, then that with the lowest priority number.
    """
    found = _elect(one.master, one.in_sync, alive, designated)
    if found is None and unclean:
        found = _elect(one.master, one.replicas, alive, designated)
    return found


def _elect(
    master: int | None, candidates: Iterable[int], alive: Mapping[int, Heartbeat], designated: int | None
) -> int | None:
    living = [broker_id for broker_id in candidates if broker_id in alive]
    if designated is not None:
        return designated if designated in living else None
    if master in living:
        return master
    return min(living, key=lambda broker_id: _rank(broker_id, alive[broker_id]), default=None)


def _rank(broker_id: int, heartbeat: Heartbeat) -> tuple[int, int, int, int]:
    return -heartbeat.epoch, -heartbeat.max_offset, heartbeat.priority, broker_id
