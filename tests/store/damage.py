"""Damage of a log on a simulated disk, and the refusal to start on it."""

from __future__ import annotations

import pytest

from bolide.store.errors import StoreDamaged
from bolide.store.message_store import MessageStore
from bolide.testing.files import SimulatedFiles
from tests.store.scenario import ROOT, SHAPE, Machine, Sent

LOG = f"{ROOT}/commitlog"
FAULTS = {
    "the size": (2, b"\x10", "bytes that are not a record|parts do not add up"),
    "the magic": (5, b"?", "bytes that are not a record"),
    "the body": (90, b"?", "does not match its CRC"),
    "its own offset": (30, b"\x01", "calls itself"),
}


def overwrite(files: SimulatedFiles, offset: int, data: bytes) -> None:
    """Damage the log at a physical offset."""
    start = offset - offset % SHAPE.commit_log_segment_size
    handle = files.open(f"{LOG}/{start:020}")
    files.write_at(handle, [data], offset - start)
    files.close(handle)


def contents(files: SimulatedFiles) -> dict[str, bytes | None]:
    """What must be as it was after a refusal."""
    names = [f"{LOG}/{name}" for name in files.list_dir(LOG)]
    return {path: files.read_file(path) for path in [*names, f"{ROOT}/abort", f"{ROOT}/derived.json"]}


def refused(machine: Machine, says: str) -> None:
    """The store does not start, twice over, and is as it was."""
    machine.files.process_crash()
    before = contents(machine.files)
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=says) as error:
            MessageStore(machine.files, ROOT, machine.shape, machine.options).load(machine.now)
        assert f"bolide store repair {ROOT}" in str(error.value)
        assert contents(machine.files) == before


def filled(ending: str) -> tuple[Machine, list[Sent]]:
    """A store of 100 messages that ended so."""
    machine = Machine()
    machine.turn(50)
    machine.tick()
    machine.turn(50)
    machine.tick(100)
    if ending == "a clean stop":
        machine.store.close(machine.now)
    elif ending == "a power cut":
        machine.tick()
        machine.files.power_cut(1)
    return machine, machine.acknowledged
