"""A truncation keeps a copy of the truncated bytes, and the store starts with the rest."""

from __future__ import annotations

import pytest

from bolide.store.errors import StoreDamaged
from bolide.store.offline.truncate import Truncation, TruncationPlan
from bolide.store.offline.verify import verify_store
from bolide.testing.files import SimulatedFiles, Stopped
from tests.store.damage import contents, filled
from tests.store.scenario import ROOT, SHAPE, Machine, Sent, missing, units_agree

ENDINGS = ("a clean stop", "a kill")
FILE = SHAPE.commit_log_segment_size


def truncated(machine: Machine, at: int) -> tuple[TruncationPlan, str]:
    """Plan, see that nothing changed, carry out, start."""
    machine.files.process_crash()
    before = contents(machine.files)
    work = Truncation(machine.files, ROOT, SHAPE)
    plan = work.plan_at(at)
    assert contents(machine.files) == before
    folder = work.carry_out(plan, machine.now)
    work.close()
    machine.power_cut(0)
    return plan, folder


def kept_bytes(machine: Machine, folder: str) -> bytes:
    names = sorted(machine.files.list_dir(folder))
    return b"".join(machine.files.read_file(f"{folder}/{name}") or b"" for name in names)


def log_of(machine: Machine) -> bytes:
    return bytes(machine.store.log.segments.read(0, int(machine.store.end_offset)))


def kept(sent: list[Sent], end: int) -> list[Sent]:
    return [one for one in sent if one.at.end_offset <= end]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("which", [3, -2, "a file"])
def test_truncated_bytes_are_copied_and_the_store_starts_with_the_rest(ending: str, which: int | str) -> None:
    machine, sent = filled(ending)
    target = next(one for one in sent if one.at.physical_offset >= FILE) if isinstance(which, str) else sent[which]
    at = int(target.at.physical_offset)
    plan, folder = truncated(machine, at + 20)
    assert (plan.log_end, plan.followers) == (at, len(sent) - len(kept(sent, at)))
    assert target.put.body in kept_bytes(machine, folder)
    assert machine.store.end_offset == at
    assert not missing(machine.store, kept(sent, at))
    assert not units_agree(machine.store)
    machine.acknowledged = []
    machine.turn(5)
    machine.restart()
    assert not missing(machine.store, [*kept(sent, at), *machine.acknowledged])
    machine.store.close(machine.now)
    assert verify_store(machine.files, ROOT, SHAPE).findings == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_offset_0_moves_the_whole_log_aside(ending: str) -> None:
    machine, _ = filled(ending)
    first = machine.files.read_file(f"{ROOT}/commitlog/{0:020}")
    _, folder = truncated(machine, 0)
    assert machine.files.read_file(f"{folder}/commitlog/{0:020}") == first
    assert machine.store.end_offset == 0
    machine.acknowledged = []
    machine.turn(5)
    machine.restart()
    assert not missing(machine.store, machine.acknowledged)


def test_plan_shows_confirmed_bytes_and_the_held_offset_survives() -> None:
    machine, sent = filled("a clean stop")
    machine.restart()
    whole, at = int(machine.store.end_offset), int(sent[10].at.physical_offset)
    machine.store.maintenance.held = lambda: whole - 100
    machine.tick(61_000)
    machine.files.write_file(f"{ROOT}/brokerIdentity", b"C#broker-a#2")
    plan, _ = truncated(machine, at)
    assert plan.confirmed_bytes == whole - 100 - at
    assert plan.replica == "replica 2 of broker-a in C"
    assert machine.store.maintenance.checkpoint.held_offset == at


def test_offset_after_the_end_is_rejected() -> None:
    machine, _ = filled("a clean stop")
    end = int(machine.store.end_offset)
    work = Truncation(machine.files, ROOT, SHAPE)
    assert work.plan_at(end).reason == ""
    with pytest.raises(StoreDamaged, match=f"ends at {end}, before offset {end + 1}"):
        work.plan_at(end + 1)
    work.close()


@pytest.mark.parametrize("whole", [False, True])
def test_crash_leaves_every_message_in_the_log_or_in_the_copy(whole: bool) -> None:
    machine, sent = filled("a clean stop")
    at = 0 if whole else int(sent[10].at.physical_offset)
    stop, done = 0, False
    while not done:
        files = machine.files.clone()
        files.stop_after = files.calls + stop
        try:
            work = Truncation(files, ROOT, SHAPE)
            work.carry_out(work.plan_at(at), machine.now)
            done = True
        except Stopped:
            stop += 1
        files.stop_after = None
        files.process_crash()
        folders = [name for name in files.list_dir(ROOT) if name.startswith("repair-")]
        aside = b"".join(all_under(files, f"{ROOT}/{name}") for name in folders)
        made = Machine(files=files, now=machine.now)
        gone = [one for one in sent if made.store.record_at(one.at.physical_offset) is None]
        assert all(one.put.body in aside for one in gone)
        assert gone or not done
    assert stop > 5


def all_under(files: SimulatedFiles, folder: str) -> bytes:
    """The bytes of the files of a folder, and of the folders in it."""
    data = files.read_file(folder)
    if data is not None:
        return data
    return b"".join(all_under(files, f"{folder}/{name}") for name in sorted(files.list_dir(folder)))
