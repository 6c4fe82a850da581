"""Each user of a store checks its format first; a broker stamps it before it changes anything."""

from __future__ import annotations

import json

import pytest

from bolide.layout.store_format import FORMAT, NAME, StoreTooNew, stamp
from bolide.store.disk.files import FileFailed
from bolide.store.disk.format_stamp import check_format, stamp_format
from bolide.store.message_store import MessageStore
from bolide.store.offline.inspect import inspect_store
from bolide.store.offline.repair import Repair
from bolide.store.offline.truncate import Truncation
from bolide.store.offline.verify import verify_store
from bolide.testing.files import SimulatedFiles
from tests.store.scenario import ROOT, SHAPE, Machine

NEWER = json.dumps({"format": FORMAT + 1, "since": "9.0.0"}).encode()


def test_start_stamps_the_store_once() -> None:
    machine = Machine()
    assert machine.files.read_file(f"{ROOT}/{NAME}") == stamp()
    assert check_format(machine.files, ROOT) == FORMAT
    written = machine.files.modified_ms(f"{ROOT}/{NAME}")
    machine.restart()
    assert machine.files.modified_ms(f"{ROOT}/{NAME}") == written
    assert machine.files.size(f"{ROOT}/{NAME}.bak") == -1


def test_stamp_survives_a_power_cut() -> None:
    machine = Machine()
    machine.power_cut(0)
    assert machine.files.read_file(f"{ROOT}/{NAME}") == stamp()


def test_store_without_a_stamp_gets_one() -> None:
    machine = Machine()
    machine.turn(3)
    machine.store.close(machine.now)
    machine.files.remove(f"{ROOT}/{NAME}")
    machine.crash()
    assert machine.files.read_file(f"{ROOT}/{NAME}") == stamp()


def times(files: SimulatedFiles) -> dict[str, tuple[int, int]]:
    """Sizes and times of what is in the folder."""
    paths = [f"{ROOT}/{name}" for name in files.list_dir(ROOT)]
    return {path: (files.size(path), files.modified_ms(path)) for path in paths}


def test_newer_store_is_refused_and_left_as_it_is() -> None:
    machine = Machine()
    machine.turn(3)
    machine.store.close(machine.now)
    files = machine.files
    files.write_file(f"{ROOT}/{NAME}", NEWER)
    before = times(files)
    with pytest.raises(StoreTooNew, match=f"{ROOT} has store format {FORMAT + 1}"):
        MessageStore(files, ROOT, SHAPE).load(machine.now)
    for use in (inspect_store, verify_store):
        with pytest.raises(StoreTooNew):
            use(files, ROOT, SHAPE)
    repair = Repair(files, ROOT, SHAPE)
    with pytest.raises(StoreTooNew):
        repair.plan(cut=False)
    repair.close()
    truncation = Truncation(files, ROOT, SHAPE)
    with pytest.raises(StoreTooNew):
        truncation.plan_at(0)
    truncation.close()
    assert times(files) == before
    files.write_file(f"{ROOT}/{NAME}", stamp())
    MessageStore(files, ROOT, SHAPE).load(machine.now)


class Refusing(SimulatedFiles):
    """A disk without room for the stamp."""

    def write_file(self, path: str, data: bytes) -> None:
        raise FileFailed(f"cannot write {path}: the disk is full")


def test_store_that_cannot_be_stamped_does_not_start() -> None:
    files = Refusing()
    store = MessageStore(files, ROOT, SHAPE)
    with pytest.raises(FileFailed, match=NAME):
        store.load(1)
    assert files.list_dir(ROOT) == ["lock"]


def test_older_stamp_is_raised() -> None:
    files = SimulatedFiles()
    files.make_dir(ROOT)
    stamp_format(files, ROOT)
    assert check_format(files, ROOT) == FORMAT
