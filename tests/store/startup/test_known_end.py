"""A start that finds damage refuses, says where, and changes nothing; only what nobody synced is cut without asking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bolide.layout.checkpoint import Checkpoint
from bolide.layout.record import encode_blank
from bolide.store.disk.checkpoint_file import load_checkpoint, write_checkpoint
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions
from bolide.store.startup.inventory import read_inventory
from bolide.testing.files import Stopped
from tests.store.damage import FAULTS, LOG, filled, overwrite, refused
from tests.store.scenario import ASYNC, ROOT, SHAPE, START, SYNC, Machine, Sent, missing


class TestDamage:
    @pytest.mark.parametrize("ending", ["a clean stop", "a kill", "a power cut"])
    @pytest.mark.parametrize("fault", FAULTS)
    def test_damaged_synced_record_prevents_startup(self, ending: str, fault: str) -> None:
        machine, sent = filled(ending)
        newest = sent[-1].at.physical_offset // 4096 * 4096
        target = next(one.at for one in sent if one.at.physical_offset >= newest)
        within, byte, says = FAULTS[fault]
        overwrite(machine.files, target.physical_offset + within, byte)
        refused(machine, rf"{newest:020} holds .*({says}).*physical offset {target.physical_offset}\)")

    @pytest.mark.parametrize("ending", ["a clean stop", "a kill", "a power cut"])
    def test_so_does_the_last_record_of_all(self, ending: str) -> None:
        machine, sent = filled(ending)
        if ending == "a kill":
            machine.store.queues.flush(True)
        overwrite(machine.files, sent[-1].at.physical_offset + 90, b"?")
        refused(machine, f"physical offset {sent[-1].at.physical_offset}.*, but ")

    def test_after_a_kill_good_records_behind_a_bad_one_refuse_although_nothing_was_synced(self) -> None:
        machine = Machine(options=ASYNC)
        machine.append(10)
        machine.write()
        overwrite(machine.files, machine.waiting[4].at.physical_offset + 90, b"?")
        refused(machine, "and 5 good records from [0-9]+ on follow it")

    def test_a_bad_blank_between_two_files(self) -> None:
        machine, sent = filled("a kill")
        newest = sent[-1].at.physical_offset // 4096 * 4096
        first = next(one.at for one in sent if one.at.physical_offset >= newest)
        before = [one.at for one in sent if one.at.end_offset <= newest][-1]
        overwrite(machine.files, before.end_offset + 4, b"\0\0\0\0")
        refused(machine, rf"bytes that are not a record.*good records from {first.physical_offset} on follow it")

    def test_the_newest_file_is_gone_after_a_clean_stop(self) -> None:
        machine, sent = filled("a clean stop")
        machine.files.remove(f"{LOG}/{machine.files.list_dir(LOG)[-1]}")
        end = sent[-1].at.end_offset
        refused(machine, f"at the last clean stop it reached {end}")

    @pytest.mark.parametrize("ending", ["a clean stop", "a kill"])
    def test_missing_log_prevents_startup(self, ending: str) -> None:
        machine, _ = filled(ending)
        machine.store.queues.flush(True)
        for name in machine.files.list_dir(LOG):
            machine.files.remove(f"{LOG}/{name}")
        refused(machine, "has no log file")


class TestTornTail:
    @pytest.mark.parametrize("at", [0, 5, 9])
    def test_a_power_cut_may_leave_holes_in_what_nobody_synced(self, at: int) -> None:
        machine = Machine()
        machine.turn(20)
        machine.append(10)
        machine.write()
        hole = machine.waiting[at].at
        overwrite(machine.files, hole.physical_offset, bytes(60))
        machine.power_cut(1)
        assert machine.store.end_offset == hole.physical_offset
        assert machine.report.truncated_bytes
        assert not missing(machine.store, machine.acknowledged)

    @pytest.mark.parametrize(
        ("ending", "options", "kept"),
        [("kill", ASYNC, True), ("power", ASYNC, False), ("power", SYNC, True), ("kill", SYNC, True)],
    )
    def test_unsynced_records_are_lost_only_by_power_loss_without_sync_flush(
        self, ending: str, options: StoreOptions, kept: bool
    ) -> None:
        """A master that lost nothing needs no slave to give up what it was sent."""
        machine = Machine(options=options)
        machine.turn(20)
        if ending == "kill":
            machine.files.process_crash()
        else:
            machine.files.power_cut(1)
        report = MessageStore(machine.files, ROOT, machine.shape, machine.options).load(machine.now + 1)
        assert (report.abnormal, report.kept_all) == (True, kept)

    def test_a_start_that_is_killed_on_the_way_does_not_make_damage_of_them(self) -> None:
        before = Machine()
        before.turn(20)
        before.append(10)
        before.write()
        hole = before.waiting[5].at
        overwrite(before.files, hole.physical_offset, bytes(60))
        before.files.power_cut(1)
        kills = 0
        for stop in range(400):
            files = before.files.clone()
            files.stop_after = files.calls + stop
            try:
                MessageStore(files, ROOT, SHAPE, before.options).load(before.now + 1)
            except Stopped:
                kills += 1
            else:
                break
            files.process_crash()
            store = MessageStore(files, ROOT, SHAPE, before.options)
            store.load(before.now + 2)
            assert store.end_offset == hole.physical_offset
            assert not missing(store, before.acknowledged)
        assert 10 < kills < 399

    def test_asynchronous_flush_names_what_was_synced_every_second(self) -> None:
        machine = Machine(options=ASYNC)
        machine.turn(20)
        machine.store.flush_soon()
        machine.tick(1000)
        machine.flush()
        machine.tick(1000)
        assert load_checkpoint(machine.files, ROOT).synced_end == machine.acknowledged[-1].at.end_offset
        machine.turn(20)
        cut = machine.files.clone()
        overwrite(machine.files, machine.acknowledged[19].at.physical_offset + 90, b"?")
        machine.files.power_cut(1)
        refused(machine, "it was synced up to")
        cut.power_cut(1)
        overwrite(cut, machine.acknowledged[25].at.physical_offset + 90, b"?")
        store = MessageStore(cut, ROOT, SHAPE, ASYNC)
        store.load(machine.now)
        assert store.end_offset == machine.acknowledged[25].at.physical_offset

    def test_checkpoint_of_another_run_is_ignored(self) -> None:
        machine = Machine(options=ASYNC)
        machine.turn(5)
        machine.files.process_crash()
        noted = replace(load_checkpoint(machine.files, ROOT), run_id=START - 1, synced_end=1 << 30)
        write_checkpoint(machine.files, ROOT, noted)
        machine.power_cut(1)
        assert machine.store.end_offset == machine.acknowledged[-1].at.end_offset

    def test_a_unit_beyond_all_files_is_no_witness(self) -> None:
        machine, sent = filled("a kill")
        machine.store.queues.flush(True)
        queue = machine.store.queues.get("T", 0)
        assert queue is not None
        queue.put(1 << 40, 100, 0, queue.max_offset, START, b"")
        queue.flush()
        machine.crash()
        assert not missing(machine.store, sent)


class TestAJavaStore:
    """`abort` without Bolide's mark: it is not known whether the process died or the machine."""

    def killed(self, flushed: Callable[[list[Sent]], int]) -> Machine:
        machine = Machine()
        for _ in range(40):
            machine.now += 10
            machine.turn(1)
        machine.store.queues.flush(True)
        machine.files.process_crash()
        handle = machine.files.open(f"{ROOT}/abort")
        machine.files.truncate(handle, 0)
        machine.files.write_at(handle, [b"4711"], 0)
        checkpoint = Checkpoint(physic_msg_timestamp=flushed(machine.acknowledged))
        write_checkpoint(machine.files, ROOT, checkpoint)
        return machine

    def test_a_tail_behind_the_last_flush_is_cut(self) -> None:
        machine = self.killed(lambda sent: sent[20].at.store_timestamp)
        lost = machine.acknowledged[30].at
        overwrite(machine.files, lost.physical_offset, bytes(int(machine.store.end_offset) - lost.physical_offset))
        machine.crash()
        assert machine.store.end_offset == lost.physical_offset

    def test_missing_flushed_records_prevent_startup(self) -> None:
        machine = self.killed(lambda sent: sent[35].at.store_timestamp)
        lost = machine.acknowledged[30].at
        overwrite(machine.files, lost.physical_offset, bytes(int(machine.store.end_offset) - lost.physical_offset))
        refused(machine, "queue files name records up to")

    def test_good_records_behind_a_bad_one_refuse(self) -> None:
        machine = self.killed(lambda sent: 0)
        overwrite(machine.files, machine.acknowledged[30].at.physical_offset + 90, b"?")
        refused(machine, "and 9 good records")

    def test_records_of_an_older_life_do_not(self) -> None:
        # RocketMQ cut the log once and did not wipe it; the new life has not reached the old records yet.
        machine = self.killed(lambda sent: 0)
        old = machine.acknowledged[34].at
        for one in machine.acknowledged[:30]:
            overwrite(machine.files, one.at.physical_offset + 56, (START + 100_000).to_bytes(8, "big"))
        first = machine.acknowledged[30].at.physical_offset
        overwrite(machine.files, first, b"\0" * (old.physical_offset - first))
        machine.crash()
        assert machine.store.end_offset == first


def test_old_bytes_behind_the_filler_of_a_file_mean_nothing() -> None:
    machine = Machine()
    machine.turn(20)
    end = int(machine.store.end_offset)
    record = machine.store.log.segments.read(0, machine.acknowledged[0].at.size)
    fake = record[:28] + (end + 200).to_bytes(8, "big") + record[36:]
    overwrite(machine.files, end, encode_blank(4096 - end % 4096))
    overwrite(machine.files, end + 200, fake)
    machine.crash()
    assert not missing(machine.store, machine.acknowledged)


@pytest.mark.parametrize(
    "text",
    [
        *("[", "null", "[[" * 60_000, '{"logEnd": "x"}', '{"logEnd": 1, "queues": {"T": {"x": [0, 1]}}}'),
        *('{"queues": {"T": {"0": [0]}}}', '{"queues": {"T": {"0": [0, "1"]}}}', '{"queues": {"T": 5}}'),
        '{"index": [[]]}',
    ],
)
def test_an_inventory_that_makes_no_sense_is_none(text: str) -> None:
    machine = Machine()
    machine.turn(20)
    machine.store.close(machine.now)
    machine.files.write_file(f"{ROOT}/derived.json", text.encode())
    assert read_inventory(machine.files, ROOT) is None
    again = MessageStore(machine.files, ROOT, SHAPE)
    again.load(machine.now)
    assert again.max_queue_offset("T", 0) == 7
    again.close(machine.now)
