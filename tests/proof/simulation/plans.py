"""Plans with a set of a master and its slaves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from proof.simulation.cluster import Cluster, Simulation
from proof.simulation.disk import Disk
from proof.simulation.plan import Action, Plan, Value
from proof.simulation.run import Run

SET: dict[str, Value] = {
    "brokers": 1, "name_servers": 1, "producers": 1, "retries": 0, "queues": 1, "push": 1, "orderly": 0, "pull": 0,
    "broadcast": 0, "filtered": 0, "failing": 0.0, "most_retries": 16, "slaves": 1, "in_sync": 2, "fast_port": True,
}  # fmt: skip
SETTINGS: dict[str, Value] = {"flush_disk_type": "SYNC_FLUSH", "mapped_file_size_commit_log": 1 << 16}


def send(at: float, number: int, how: str = "single", **of: Value) -> Action:
    fields: dict[str, Value] = {
        "id": number,
        "producer": 0,
        "topic": "Orders",
        "how": how,
        "size": 100,
        "tag": "",
        "n": 1,
    }
    return Action(at, "send", {**fields, **of})


def sends(first: float, last: float) -> list[Action]:
    return [send(at, round(at * 10)) for at in (first + step / 2 for step in range(int((last - first) * 2)))]


def plan(*actions: Action, seed: int = 1, seconds: float = 60.0, **cluster: Value) -> Plan:
    return Plan(seed, seconds, SETTINGS, {**SET, **cluster}, tuple(sorted(actions, key=lambda action: action.at)))


def promote(at: float, **of: Value) -> Action:
    return Action(at, "promote", {"broker": 0, "how": "power", "seed": 5, "down": 1.0, "back": 5.0, **of})


def run_beside(tried: Plan, beside: Callable[[Run, Cluster], Coroutine[Any, Any, None]]) -> Run:
    """Run a plan, and what a test does to the cluster meanwhile."""
    simulation = Simulation(tried.seed, disk=lambda name, seed: Disk(seed))
    run = Run(tried, simulation.cluster)

    async def scenario(cluster: Cluster) -> None:
        run.faults.spawn(beside(run, cluster))
        await run.scenario(cluster)

    simulation.run(scenario)
    return run
