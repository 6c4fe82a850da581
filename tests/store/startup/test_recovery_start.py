"""Where recovery begins to read the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bolide.layout.checkpoint import Checkpoint
from bolide.store.disk.checkpoint_file import load_checkpoint, write_checkpoint
from bolide.store.errors import StoreDamaged
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions
from bolide.testing.files import SimulatedFiles
from tests.store.scenario import ROOT, SHAPE, START, Machine, missing, units_agree

LOG = f"{ROOT}/commitlog"
FEW = StoreOptions(flush_disk_type="SYNC_FLUSH", clean_start_check_size=700)
LONGEST_TURN = 500


def overwrite(files: SimulatedFiles, offset: int, data: bytes) -> None:
    """Damage the log at a physical offset."""
    start = offset - offset % SHAPE.commit_log_segment_size
    handle = files.open(f"{LOG}/{start:020}")
    files.write_at(handle, [data], offset - start)
    files.close(handle)


class TestWhereItBegins:
    def test_after_a_clean_stop_only_the_newest_file_is_read(self) -> None:
        machine = Machine()
        machine.turn(300)
        machine.restart()
        assert machine.report.scanned_from == machine.store.end_offset // 4096 * 4096
        assert machine.report.dispatched == 0

    @pytest.mark.parametrize("elapsed", [0, 1000])
    def test_after_a_clean_stop_it_is_the_end_of_a_long_file(self, elapsed: int) -> None:
        machine = Machine(options=FEW)
        for _ in range(120):
            machine.turn(2)
            if elapsed:
                machine.tick(elapsed)  # the next file is there once this one is half full
            starts = [sent.at.physical_offset for sent in machine.acknowledged]
            end = int(machine.store.end_offset)
            file = end // 4096 * 4096
            machine.restart()
            begin = machine.report.scanned_from
            assert begin in starts and file <= begin
            assert begin == file or end - begin >= FEW.clean_start_check_size
            assert end - begin < 2 * FEW.clean_start_check_size + LONGEST_TURN
            assert machine.report.dispatched == 0
        assert not missing(machine.store, machine.acknowledged) and not units_agree(machine.store)

    def test_records_read_at_startup_are_checked(self) -> None:
        machine = Machine(options=FEW)
        machine.turn(60)
        for _ in range(20):
            machine.turn(2)
        last = machine.acknowledged[-4].at
        machine.store.close(machine.now)
        overwrite(machine.files, last.physical_offset + 90, b"?")
        with pytest.raises(StoreDamaged, match=f"physical offset {last.physical_offset}"):
            machine.restart()

    @pytest.mark.parametrize("spoilt", ["noted", "head", "first", "queue", "index"])
    def test_the_newest_file_is_read_whole_where_its_end_does_not_do(self, spoilt: str) -> None:
        machine = Machine(options=FEW)
        while machine.store.log.check_from < 4096 + 1500:
            machine.turn(2)
        noted = int(machine.store.log.check_from)
        file = noted // 4096 * 4096
        machine.store.close(machine.now)
        text = machine.files.read_file(f"{ROOT}/derived.json")
        assert text is not None and b'"checkFrom": [%d, ' % noted in text
        if spoilt == "noted":
            machine.files.write_file(f"{ROOT}/derived.json", text.replace(b"[%d," % noted, b"[%d," % (noted + 1)))
        elif spoilt in ("head", "first"):
            overwrite(machine.files, (noted if spoilt == "head" else file) + 4, b"????")
        elif spoilt == "queue":
            for name in machine.files.list_dir(f"{ROOT}/consumequeue/T/1"):
                machine.files.remove(f"{ROOT}/consumequeue/T/1/{name}")
            machine.files.remove(f"{ROOT}/consumequeue/T/1")
        else:
            for name in machine.files.list_dir(f"{ROOT}/index"):
                machine.files.remove(f"{ROOT}/index/{name}")
        if spoilt in ("head", "first"):
            with pytest.raises(StoreDamaged, match=f"physical offset {noted if spoilt == 'head' else file}\\)"):
                machine.restart()
            return
        machine.restart()
        assert machine.report.scanned_from == (file if spoilt == "noted" else 0)
        assert not missing(machine.store, machine.acknowledged) and not units_agree(machine.store)

    @pytest.mark.parametrize("following", [-1, 1 << 40, 1 << 80])
    def test_next_start_of_checks_is_within_the_log(self, following: int) -> None:
        machine = Machine(options=FEW)
        while machine.store.log.check_from < 4096 + 700:
            machine.turn(2)
        noted, end = int(machine.store.log.check_from), int(machine.store.end_offset)
        two = b"[%d, %d]" % (noted, int(machine.store.log.next_check_from))
        machine.store.close(machine.now)
        text = machine.files.read_file(f"{ROOT}/derived.json")
        assert text is not None and two in text
        machine.files.write_file(f"{ROOT}/derived.json", text.replace(two, b"[%d, %d]" % (noted, following)))
        machine.restart()
        assert machine.report.scanned_from == noted
        assert machine.store.log.next_check_from == end

    def test_later_start_indexes_unindexed_records(self) -> None:
        machine = Machine(options=FEW)
        machine.turn(5)
        machine.options = StoreOptions(clean_start_check_size=700, index_file_write_enable=False)
        machine.restart()
        while machine.store.log.check_from % 4096 < 1500:
            machine.turn(2)
        machine.options = FEW
        machine.restart()
        file = int(machine.store.end_offset) // 4096 * 4096
        assert machine.report.scanned_from == file
        assert not missing(machine.store, [one for one in machine.acknowledged if one.at.physical_offset >= file])

    def test_after_a_crash_it_is_the_file_of_the_last_thorough_flush(self) -> None:
        machine = Machine()
        machine.turn(150)
        machine.tick(61_000)
        flushed = load_checkpoint(machine.files, ROOT).logics_physical_offset
        assert flushed == machine.acknowledged[-1].at.physical_offset
        machine.turn(150)
        machine.crash()
        # The index, of which files newer than the checkpoint are deleted, may need more.
        assert machine.report.scanned_from <= flushed
        assert machine.report.dispatched == machine.report.records
        assert not missing(machine.store, machine.acknowledged)

    def test_a_queue_whose_units_a_power_cut_tore_is_made_again(self) -> None:
        machine = Machine()
        machine.turn(60)
        machine.tick(61_000)
        machine.turn(240)
        machine.tick(1000)
        folder = f"{ROOT}/consumequeue/T/1"
        for name in machine.files.list_dir(folder)[3:7]:
            handle = machine.files.open(f"{folder}/{name}")
            machine.files.write_at(handle, [bytes(57)], 60)
            machine.files.close(handle)
        machine.crash()
        assert not missing(machine.store, machine.acknowledged)
        assert not units_agree(machine.store)

    def test_a_checkpoint_of_4x_is_judged_by_its_times(self) -> None:
        machine = Machine()
        machine.turn(100)
        machine.now += 100_000
        machine.turn(100)
        machine.store.close(machine.now)
        times = replace(Checkpoint(), physic_msg_timestamp=START + 50_000, logics_msg_timestamp=START + 100_000)
        write_checkpoint(machine.files, ROOT, times)
        machine.files.close(machine.files.open(f"{ROOT}/abort", True))
        shape = replace(SHAPE, index_enabled=False, store_version="4.9")
        store = MessageStore(machine.files, ROOT, shape)
        report = store.load(machine.now)
        first_late = machine.acknowledged[100].at.physical_offset
        assert report.abnormal
        assert report.scanned_from == (first_late - 1) // 4096 * 4096

    def test_a_log_of_another_file_size_is_refused(self) -> None:
        machine = Machine()
        machine.turn(1)
        machine.store.close(machine.now)
        store = MessageStore(machine.files, ROOT, replace(SHAPE, commit_log_segment_size=8192))
        with pytest.raises(StoreDamaged, match="4096 bytes but the configured file size is 8192"):
            store.load(machine.now)
        MessageStore(machine.files, ROOT, SHAPE).load(machine.now)  # the lock was given back

    def test_a_torn_checkpoint_costs_time_only(self) -> None:
        machine = Machine()
        machine.turn(100)
        machine.tick(61_000)
        handle = machine.files.open(f"{ROOT}/checkpoint")
        machine.files.truncate(handle, 20)
        machine.crash()
        assert machine.report.scanned_from == 0
        assert not missing(machine.store, machine.acknowledged)
