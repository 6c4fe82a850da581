"""Nothing acknowledged is lost when the power fails, wherever it fails; and the test would notice a missing sync."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bolide.store.message_store import MessageStore
from bolide.testing.files import SimulatedFiles
from tests.store.scenario import ROOT, SHAPE, SYNC, Machine, Sent, missing, units_agree, workload

POINTS = 1000


@dataclass
class Point:
    """The disk just before one call, and what had been acknowledged by then."""

    call: str
    disk: SimulatedFiles
    acknowledged: int


def recorded(files: SimulatedFiles, turns: int, every: int) -> tuple[list[Point], list[Sent]]:
    """Run the workload once and keep the disk before every n-th call that changes it."""
    points: list[Point] = []
    machine: list[Machine] = []
    count = 0

    def keep(call: str) -> None:
        nonlocal count
        count += 1
        if count % every == 0:
            points.append(Point(call, files.clone(), len(machine[0].acknowledged) if machine else 0))

    files.before_change = keep
    machine.append(Machine(files))
    workload(machine[0], turns, seed=7)
    files.before_change = None
    return points, machine[0].acknowledged


def losses(point: Point, acknowledged: list[Sent], seed: int) -> list[str]:
    """What a power cut at this point loses of what was acknowledged before it."""
    disk = point.disk
    disk.power_cut(seed)
    store = MessageStore(disk, ROOT, SHAPE, SYNC)
    store.load(acknowledged[-1].at.store_timestamp)
    return missing(store, acknowledged[: point.acknowledged], thorough=False) + units_agree(store)


@pytest.mark.crash
def test_acknowledged_messages_survive_a_thousand_power_cuts() -> None:
    points, acknowledged = recorded(SimulatedFiles(), turns=180, every=1)
    assert len(points) >= POINTS, f"only {len(points)} points: lengthen the workload"
    step = len(points) / POINTS
    for number in range(POINTS):
        point = points[int(number * step)]
        lost = losses(point, acknowledged, seed=number % 7)
        assert not lost, f"cut number {number} before {point.call}: {lost[:3]}"


class NoDatasync(SimulatedFiles):
    """A disk behind a store that forgot to sync its files."""

    def datasync(self, handle: int) -> None:
        self._inode(handle)


class NoSyncDir(SimulatedFiles):
    """A disk behind a store that forgot to sync its folders."""

    def sync_dir(self, path: str) -> None:
        return


@pytest.mark.crash
@pytest.mark.parametrize("disk", [NoDatasync, NoSyncDir])
def test_a_store_that_does_not_sync_is_found_out(disk: type[SimulatedFiles]) -> None:
    points, acknowledged = recorded(disk(), turns=20, every=10)
    found = 0
    for number, point in enumerate(points):
        try:
            found += bool(losses(point, acknowledged, seed=number % 7))
        except Exception:  # a store that cannot even be opened is a loss, too
            found += 1
    assert found > len(points) // 4
