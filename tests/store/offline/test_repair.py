"""After a repair the store starts and serves all other messages at their places; what it overwrote lies beside."""

from __future__ import annotations

import pytest

from bolide.store.disk.files import FileLocked
from bolide.store.errors import StoreDamaged
from bolide.store.message_store import MessageStore
from bolide.store.offline.repair import Plan, Repair
from bolide.store.offline.verify import verify_store
from bolide.testing.files import Stopped
from tests.store.damage import FAULTS, contents, filled, overwrite, refused
from tests.store.scenario import ROOT, SHAPE, Machine, Sent, missing, units_agree


def repaired(machine: Machine, cut: bool = False) -> Plan:
    """Plan, see that nothing changed, carry out, start."""
    machine.files.process_crash()
    before = contents(machine.files)
    work = Repair(machine.files, ROOT, SHAPE)
    plan = work.plan(cut)
    assert contents(machine.files) == before
    if plan.reason:
        folder = work.carry_out(plan, machine.now)
        assert machine.files.list_dir(folder)
    work.close()
    machine.power_cut(0)
    return plan


def in_newest(sent: list[Sent], skip: int = 0) -> Sent:
    newest = sent[-1].at.physical_offset // 4096 * 4096
    return [one for one in sent if one.at.physical_offset >= newest][skip]


@pytest.mark.parametrize("ending", ["a clean stop", "a kill"])
@pytest.mark.parametrize("fault", FAULTS)
def test_repair_loses_only_the_bad_record(ending: str, fault: str) -> None:
    machine, sent = filled(ending)
    target = in_newest(sent, 3)
    within, byte, says = FAULTS[fault]
    overwrite(machine.files, target.at.physical_offset + within, byte)
    refused(machine, says)
    plan = repaired(machine)
    (hole,) = plan.holes
    assert (hole.physical_offset, hole.size) == (target.at.physical_offset, target.at.size)
    assert hole.slots == [("T", target.put.queue_id, target.at.queue_offset)]
    others = [one for one in sent if one is not target]
    assert not missing(machine.store, others)
    assert not units_agree(machine.store)
    in_place = machine.store.record_at(target.at.physical_offset)
    assert in_place is not None and in_place.body.startswith(b"This message")
    machine.acknowledged = []
    machine.turn(5)
    machine.restart()
    assert not missing(machine.store, [*others, *machine.acknowledged])
    machine.store.close(machine.now)
    assert verify_store(machine.files, ROOT, SHAPE).findings == []


def test_several_holes_some_of_many_records() -> None:
    machine, sent = filled("a clean stop")
    newest = sent[-1].at.physical_offset // 4096 * 4096
    there = [one for one in sent if one.at.physical_offset >= newest]
    lost = [there[2], *there[5:8]]
    for one in lost:
        overwrite(machine.files, one.at.physical_offset, b"?" * one.at.size)
    plan = repaired(machine)
    assert sum(len(hole.slots) for hole in plan.holes) == 4
    assert plan.followers == len(there) - 6
    assert not missing(machine.store, [one for one in sent if one not in lost])
    assert not units_agree(machine.store)


def test_a_damaged_blank_is_made_again() -> None:
    machine, sent = filled("a clean stop")
    newest = sent[-1].at.physical_offset // 4096 * 4096
    before = [one.at for one in sent if one.at.end_offset <= newest][-1]
    overwrite(machine.files, before.end_offset + 4, b"\0\0\0\0")
    plan = repaired(machine)
    assert [hole.to_end_of_file for hole in plan.holes] == [True]
    assert not missing(machine.store, sent)


def test_the_log_can_be_cut_at_the_bad_record() -> None:
    machine, sent = filled("a clean stop")
    target = sent[20]
    overwrite(machine.files, target.at.physical_offset + 90, b"?")
    plan = repaired(machine, cut=True)
    assert (plan.followers, plan.holes) == (79, [])
    assert machine.store.end_offset == target.at.physical_offset
    assert not missing(machine.store, sent[:20])
    assert not units_agree(machine.store)
    (folder,) = [name for name in machine.files.list_dir(ROOT) if name.startswith("repair-")]
    assert sum(machine.files.size(f"{ROOT}/{folder}/{name}") for name in machine.files.list_dir(f"{ROOT}/{folder}"))


def test_the_last_record_of_all_can_only_be_cut() -> None:
    machine, sent = filled("a clean stop")
    overwrite(machine.files, sent[-1].at.physical_offset + 90, b"?")
    plan = repaired(machine)
    assert (plan.cut_bytes, plan.followers) == (sent[-1].at.size, 0)
    assert not missing(machine.store, sent[:-1])


def test_a_good_store_is_left_alone() -> None:
    machine, sent = filled("a clean stop")
    assert repaired(machine).reason == ""
    assert not missing(machine.store, sent)


def test_a_store_in_use_is_refused() -> None:
    machine = Machine()
    with pytest.raises(FileLocked):
        Repair(machine.files, ROOT, SHAPE)


def test_a_lost_log_begins_empty_once_its_queues_are_set_aside() -> None:
    machine, _ = filled("a clean stop")
    for name in machine.files.list_dir(f"{ROOT}/commitlog"):
        machine.files.remove(f"{ROOT}/commitlog/{name}")
    assert repaired(machine).no_log
    store = MessageStore(machine.files, ROOT, SHAPE)
    assert store.topics_in_queues() == []


def member(ending: str = "a kill") -> Machine:
    """The store of replica 2 of a set, with a bad record in the log."""
    machine, sent = filled(ending)
    for name, text in (
        ("brokerIdentity", "C#broker-a#2"),
        ("brokerIdentity-life", "1-a#"),
        ("epochFileCheckpoint", "1\n0\n1-0\n"),
    ):
        machine.files.write_file(f"{ROOT}/{name}", text.encode())
    overwrite(machine.files, in_newest(sent, 3).at.physical_offset + 4, b"\x00")
    machine.files.process_crash()
    return machine


def test_replica_of_a_set_gives_up_its_identity_and_the_log_from_the_damage_on() -> None:
    machine = member()
    work = Repair(machine.files, ROOT, SHAPE)
    plan = work.plan(False)
    assert (plan.member, plan.holes, plan.no_log) == ("replica 2 of broker-a", [], False)
    assert plan.log_end > 0
    assert plan.cut_bytes > 0
    folder = work.carry_out(plan, machine.now)
    work.close()
    assert started(machine) == plan.log_end, "only what is valid stays"
    assert machine.files.read_file(f"{ROOT}/brokerIdentity") is None
    assert machine.files.read_file(f"{ROOT}/epochFileCheckpoint") == b"1\n0\n1-0\n"
    assert machine.files.read_file(f"{folder}/brokerIdentity") == b"C#broker-a#2"
    assert {"brokerIdentity-life", f"{plan.log_end:020}-{plan.cut_bytes}"} <= set(machine.files.list_dir(folder))


def test_replica_without_a_valid_record_sets_everything_aside() -> None:
    machine = member()
    names = sorted(machine.files.list_dir(f"{ROOT}/commitlog"))
    overwrite(machine.files, 4, b"\x00")
    log = {path: data for path, data in contents(machine.files).items() if "/commitlog/" in path}
    work = Repair(machine.files, ROOT, SHAPE)
    plan = work.plan(False)
    assert (plan.member, plan.no_log) == ("replica 2 of broker-a", True)
    folder = work.carry_out(plan, machine.now)
    work.close()
    assert started(machine) == 0
    assert len(log) == len(names)
    assert all(machine.files.read_file(path.replace(ROOT, folder, 1)) == data for path, data in log.items())
    assert {"brokerIdentity", "epochFileCheckpoint", "checkpoint"} <= set(machine.files.list_dir(folder))


def test_last_copy_of_a_set_is_repaired_in_place_and_keeps_its_identity() -> None:
    machine = member()
    work = Repair(machine.files, ROOT, SHAPE)
    plan = work.plan(False, last_copy=True)
    assert (plan.member, len(plan.holes)) == ("", 1)
    work.carry_out(plan, machine.now)
    work.close()
    machine.power_cut(0)
    assert machine.store.end_offset > 0
    assert machine.files.read_file(f"{ROOT}/brokerIdentity") == b"C#broker-a#2"


def started(machine: Machine) -> int | None:
    """Where the log ends after a start; None if the start is refused."""
    store = MessageStore(machine.files, ROOT, machine.shape, machine.options)
    try:
        store.load(machine.now)
    except StoreDamaged:
        machine.files.process_crash()
        return None
    end = int(store.end_offset)
    store.close(machine.now)
    return end


@pytest.mark.parametrize("whole", [False, True])
def test_death_during_the_repair_of_a_replica_never_leaves_its_identity_on_a_shorter_log(whole: bool) -> None:
    stop = 0
    while True:
        machine = member()
        if whole:
            overwrite(machine.files, 4, b"\x00")
        work = Repair(machine.files, ROOT, SHAPE)
        plan = work.plan(False)
        machine.files.stop_after = machine.files.calls + stop
        try:
            work.carry_out(plan, machine.now)
            done = True
        except Stopped:
            done = False
        machine.files.stop_after = None
        machine.files.process_crash()
        end = started(machine)
        if end is None:
            again = Repair(machine.files, ROOT, SHAPE)
            rest = again.plan(False)
            assert rest.reason, stop
            again.carry_out(rest, machine.now)
            again.close()
            end = started(machine)
        assert (end, machine.files.read_file(f"{ROOT}/brokerIdentity")) == (plan.log_end, None), stop
        if done:
            return
        stop += 1
