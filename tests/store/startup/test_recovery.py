"""Where recovery begins, where it ends the log, and what it leaves behind."""

from __future__ import annotations

import pytest

from bolide.layout.checkpoint import decode_checkpoint
from bolide.store.disk.checkpoint_file import load_checkpoint
from bolide.store.disk.files import FileFailed
from bolide.store.disk.jobs import sync_files
from bolide.store.options import StoreOptions
from bolide.store.startup.recovery import RecoveryReport
from bolide.testing.files import SimulatedFiles
from tests.store.scenario import ASYNC, ROOT, SHAPE, Machine, message, missing, units_agree

LOG = f"{ROOT}/commitlog"


def overwrite(files: SimulatedFiles, offset: int, data: bytes) -> None:
    """Damage the log at a physical offset."""
    start = offset - offset % SHAPE.commit_log_segment_size
    handle = files.open(f"{LOG}/{start:020}")
    files.write_at(handle, [data], offset - start)
    files.close(handle)


def log_tail(machine: Machine) -> bytes:
    """What the newest log file holds behind the end of the log."""
    end = int(machine.store.end_offset)
    return machine.store.log.segments.read(end, 4096 - end % 4096)


class TestTornTail:
    @pytest.mark.parametrize("torn", [b"\x00\x00\x01\x00\xda\xa3\x20\xa7" + b"torn" * 20, b"garbage", b"\xff" * 300])
    def test_garbage_behind_the_last_record_is_wiped(self, torn: bytes) -> None:
        machine = Machine()
        machine.turn(10)
        end = int(machine.store.end_offset)
        overwrite(machine.files, end, torn)
        machine.crash()
        assert (machine.report.log_end, machine.report.truncated_bytes) == (end, len(torn))
        assert not any(log_tail(machine))
        assert not missing(machine.store, machine.acknowledged)

    def test_half_a_record_is_cut_off_and_the_next_one_takes_its_place(self) -> None:
        machine = Machine()
        machine.turn(5)
        end = machine.store.end_offset
        machine.append(1)
        machine.write()
        overwrite(machine.files, int(machine.store.end_offset) - 30, bytes(30))
        machine.crash()
        assert machine.store.end_offset == end
        machine.turn(1)
        assert machine.acknowledged[-1].at.physical_offset == end
        machine.crash()
        assert not missing(machine.store, machine.acknowledged)

    def test_an_old_record_behind_the_end_does_not_come_back(self) -> None:
        # Three records of one size; a power cut lost a part of the middle one. Were the third one left, the next
        # append of that size would end exactly where it begins.
        machine = Machine()
        for number in (0, 3, 6):
            machine.store.append(message(number, size=50), machine.now)
        machine.write()
        size = int(machine.store.end_offset) // 3
        overwrite(machine.files, size + 90, b"?")
        machine.power_cut(1)
        assert machine.store.end_offset == size
        machine.store.append(message(9, size=50), machine.now)
        machine.write()
        machine.crash()
        assert machine.store.end_offset == 2 * size
        assert machine.store.max_queue_offset("T", 0) == 2

    def test_a_body_whose_crc_is_wrong_is_passed_when_told_not_to_look(self) -> None:
        machine = Machine(options=StoreOptions(check_crc_on_recover=False))
        machine.turn(10)
        end = machine.store.end_offset
        overwrite(machine.files, machine.acknowledged[5].at.physical_offset + 90, b"?")
        machine.crash()
        assert machine.store.end_offset == end

    def test_files_beyond_the_end_are_deleted(self) -> None:
        machine = Machine()
        machine.turn(20)
        machine.append(80)
        machine.write()
        files = machine.files.list_dir(LOG)
        lost = machine.waiting[20].at
        overwrite(machine.files, lost.physical_offset + 4, b"?")
        machine.power_cut(1)
        assert machine.store.end_offset == lost.physical_offset
        assert machine.files.list_dir(LOG) == files[:2]
        assert not units_agree(machine.store)
        machine.number = 40
        machine.turn(100)
        machine.crash()
        assert not missing(machine.store, machine.acknowledged)

    def test_units_of_what_the_log_lost_go(self) -> None:
        # With asynchronous flush queues may name what a power cut takes from the log.
        machine = Machine(options=ASYNC)
        machine.turn(30)
        machine.tick(61_000)
        machine.store.flush_soon()
        machine.flush()
        machine.tick()
        machine.append(10)
        machine.write()
        machine.dispatch()
        machine.store.queues.flush(True)
        lost = machine.acknowledged[33].at
        overwrite(machine.files, lost.physical_offset + 90, b"?")
        machine.power_cut(1)
        assert machine.store.end_offset == lost.physical_offset
        assert not units_agree(machine.store)
        assert not missing(machine.store, machine.acknowledged[:33])
        assert machine.store.queues.max_physical_offset() <= lost.physical_offset

    def test_a_blank_with_no_file_behind_it(self) -> None:
        machine = Machine()
        machine.turn(28)
        machine.store.append(message(28, size=3000), machine.now)
        machine.write()
        machine.files.process_crash()
        machine.files.remove(f"{LOG}/{4096:020}")
        machine.crash()
        assert machine.store.end_offset == 4096, "the log ends with its file"
        machine.turn(20)
        machine.crash()
        assert not missing(machine.store, machine.acknowledged)


class TestCheckpoint:
    def test_checkpoint_never_covers_unsynced_data(self) -> None:
        machine = Machine()
        machine.turn(50)
        machine.tick(61_000)
        before = load_checkpoint(machine.files, ROOT)
        machine.turn(50)
        machine.now += 61_000
        machine.store.tick(machine.now)
        (job,) = [job for job in machine.store.jobs() if job.name.startswith("sync")]
        machine.files.fail_next("datasync")
        with pytest.raises(Exception, match="simulated"):
            job.run()
        machine.store.job_done(job, "simulated")
        machine.tick(61_000)
        machine.tick(61_000)
        after = load_checkpoint(machine.files, ROOT)
        assert after.logics_physical_offset == before.logics_physical_offset
        assert after.physic_msg_timestamp >= before.physic_msg_timestamp

    def test_a_clean_stop_writes_javas_fields(self) -> None:
        machine = Machine()
        machine.now += 5
        machine.turn(3)
        machine.store.close(machine.now)
        data = machine.files.read_file(f"{ROOT}/checkpoint")
        assert data is not None
        assert len(data) == 4096
        checkpoint = decode_checkpoint(data)
        last = machine.acknowledged[-1].at
        assert checkpoint.physic_msg_timestamp == checkpoint.logics_msg_timestamp == last.store_timestamp
        assert checkpoint.logics_physical_offset == last.physical_offset
        assert machine.files.size(f"{ROOT}/abort") == -1

    def test_checkpoint_survives_an_immediate_power_loss(self) -> None:
        machine = Machine()
        machine.turn(50)
        machine.tick(61_000)
        machine.turn(5)
        machine.power_cut(0)
        assert (
            load_checkpoint(machine.files, ROOT).logics_physical_offset == machine.acknowledged[49].at.physical_offset
        )


def test_startup_syncs_records_it_makes_readable() -> None:
    # Written, not synced, never answered; after the crash consumers see it and commit later offsets.
    machine = Machine()
    machine.append(3)
    machine.write()
    machine.crash()
    assert machine.store.max_queue_offset("T", 2) == 1
    machine.power_cut(0)
    assert machine.store.max_queue_offset("T", 2) == 1


def test_the_checkpoint_never_says_more_than_the_log_has_on_disk() -> None:
    machine = Machine(options=ASYNC)
    for _ in range(40):
        machine.append(3)
        machine.write()
        machine.dispatch()  # what an asynchronous flush has not synced yet
    synced = int(machine.store.flushed_offset)
    machine.tick(1000)
    machine.tick(61_000)
    noted = load_checkpoint(machine.files, ROOT)
    assert noted.logics_physical_offset <= max(synced - 1, 0)
    machine.power_cut(0)
    assert machine.report.log_end == synced
    machine.turn(3)
    machine.flush()
    assert not units_agree(machine.store)


def test_records_wiped_after_the_last_whole_file_stay_wiped() -> None:
    size = SHAPE.commit_log_segment_size
    machine = Machine()
    while int(machine.store.end_offset) % size < size - 900:
        machine.turn(1)
    machine.append(8)
    machine.write()
    overwrite(machine.files, size, bytes(64))  # the first record of the second file never was on disk, others were
    machine.power_cut(1)
    assert machine.report.log_end == size and machine.report.truncated_bytes
    machine.power_cut(0)
    assert machine.report.log_end == size and machine.report.truncated_bytes == 0, "a second cut brings nothing back"


class HalfWipes(SimulatedFiles):
    """From some write on, every write of the log stops half way and fails."""

    good = 1 << 30

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        if LOG not in self._handles[handle][0]:
            return super().write_at(handle, buffers, offset)
        self.good -= 1
        if self.good == 0:
            super().write_at(handle, buffers, offset)  # the batch itself: it is all there, and yet the call fails
            raise FileFailed("cannot write: simulated I/O error")
        if self.good < -self.wipes:
            data = b"".join(buffers)
            super().write_at(handle, [data[: len(data) // 2]], offset)
            raise FileFailed("cannot write: simulated I/O error")
        super().write_at(handle, buffers, offset)

    wipes = 0
    """Writes after the first bad one that still succeed."""


@pytest.mark.parametrize("wipes", range(7))
def test_a_wipe_that_fails_half_way_leaves_no_damage(wipes: int) -> None:
    machine = Machine(HalfWipes())
    assert isinstance(machine.files, HalfWipes)
    machine.turn(3)
    machine.append(5)
    machine.files.good, machine.files.wipes = 1, wipes
    with pytest.raises(FileFailed):
        machine.write()
    machine.files.good = 1 << 30
    machine.crash()
    assert not missing(machine.store, machine.acknowledged)


def test_names_that_a_killed_process_made_are_synced_by_the_next() -> None:
    machine = Machine()
    machine.turn(4)
    machine.tick(1000)
    machine.tick(61_000)
    machine.append(3, "U")
    machine.write()
    machine.flush()
    machine.tick(1000)  # the new queues are flushed, and neither they nor their folders synced
    machine.crash()
    for _ in range(30):
        machine.turn(1)
    machine.tick(1000)
    machine.tick(61_000)
    machine.tick(1000)
    machine.power_cut(0)
    assert machine.report.scanned_from > 0
    assert not missing(machine.store, machine.acknowledged) and not units_agree(machine.store)


def derived_files(files: SimulatedFiles) -> dict[str, bytes | None]:
    folders = [f"{ROOT}/index", *(f"{ROOT}/consumequeue/T/{queue_id}" for queue_id in range(3))]
    paths = [f"{folder}/{name}" for folder in folders for name in files.list_dir(folder)]
    return {path: files.read_file(path) for path in paths}


def test_records_wiped_by_a_killed_start_do_not_return() -> None:
    machine = Machine(options=ASYNC)
    for _ in range(10):
        machine.turn(4)
    machine.store.log.sync_all()
    machine.tick(1000)
    machine.tick(61_000)
    machine.append(4)
    machine.write()
    machine.dispatch()
    machine.tick(1000)
    for path in derived_files(machine.files):  # the kernel wrote these early, and the record of the log not yet
        machine.files.datasync(machine.files.open(path))
    before = derived_files(machine.files)
    machine.power_cut(0)
    machine.crash()
    machine.store.close(machine.now)
    after = derived_files(machine.files)
    assert before != after
    machine.files.power_cut(0)
    assert derived_files(machine.files) == after


def test_log_files_stay_removed_once_the_files_of_queues_follow() -> None:
    machine = Machine()
    while len(machine.store.log.segments.segment_starts()) < 30:
        machine.turn(5)
    machine.tick(1000)
    names = machine.files.list_dir(LOG)
    for name in names[:28]:
        machine.files.remove(f"{LOG}/{name}")  # and the process is killed before it syncs the folder
    machine.files.process_crash()
    disks: list[SimulatedFiles] = []
    units = machine.files.list_dir(queue := f"{ROOT}/consumequeue/T/0")
    machine.files.before_change = lambda call: disks.append(machine.files.clone())
    machine.crash()
    for disk in disks:
        disk.power_cut(0)
    assert disks[-1].list_dir(queue) != units
    assert all(disk.list_dir(LOG) == names[28:] for disk in disks if disk.list_dir(queue) != units)


def overtaken(synced: bool) -> tuple[Machine, list[int]]:
    """A store whose broker has deleted log files after its checkpoint, and the ends of its queues. `synced`: whether
    the units are on disk."""
    machine = Machine()
    machine.turn(3)
    machine.tick(1000)
    covered = machine.store.maintenance.checkpoint.logics_physical_offset
    for _ in range(40):
        machine.append(1, "U")
        machine.write()
        machine.flush()
    while len(machine.store.log.segments.segment_starts()) < 12:
        machine.turn()
    store = machine.store
    store.queues.flush()
    if synced:
        sync_files(machine.files, *store.handles.take_unsynced())
    machine.acknowledged = machine.acknowledged[-5:]
    store.log.segments.delete_before(machine.acknowledged[0].at.physical_offset)
    assert store.min_physical_offset() > covered > 0
    return machine, queue_ends(machine)


def queue_ends(machine: Machine) -> list[int]:
    return [int(machine.store.next_queue_offset(topic, queue)) for topic in ("T", "U") for queue in range(3)]


@pytest.mark.parametrize("seed", range(6))
def test_no_queue_ends_before_records_that_retention_deleted_after_the_checkpoint(seed: int) -> None:
    for synced in (True, False):
        machine, before = overtaken(synced)
        if synced:
            machine.power_cut(seed)
        else:
            machine.crash()
        for _ in range(2):
            assert queue_ends(machine) == before
            assert not missing(machine.store, machine.acknowledged)
            assert not units_agree(machine.store)
            machine.power_cut(seed)  # before the first checkpoint of the new run
        machine.tick(1000)
        machine.power_cut(seed)
        assert queue_ends(machine) == before
        first = machine.append(1, "U")[0]
        assert first.at.queue_offset in before[3:], "not an offset that a consumer has passed"


def test_failed_write_is_wiped_before_the_next() -> None:
    machine = Machine(HalfWipes())
    assert isinstance(machine.files, HalfWipes)
    machine.turn(3)
    machine.append(5)
    machine.files.good = 1
    with pytest.raises(FileFailed):
        machine.write()
    machine.append(1)
    with pytest.raises(FileFailed):
        machine.write()  # half of this one over the front of the others would look like damage
    machine.files.good = 1 << 30
    machine.crash()
    assert not missing(machine.store, machine.acknowledged)


def test_a_kill_after_a_checkpoint_leaves_each_key_in_the_index_once() -> None:
    machine = Machine()
    for _ in range(8):
        machine.turn()
        machine.tick(1000)
    for _ in range(15):
        machine.tick(5000)
    machine.turn(4)
    machine.store.index.flush()
    machine.crash()
    for sent in machine.acknowledged:
        found = machine.store.index.query("T", sent.put.properties.uniq_key, 64, 0, 1 << 60)
        assert found == [sent.at.physical_offset]


def test_sentence_leaves_out_what_did_not_happen() -> None:
    report = RecoveryReport()
    assert report.sentence() == "it has no messages yet"
    report.log_end = 500
    assert report.sentence() == "opened after a clean stop, its log ends at 500"
    report.abnormal, report.records, report.scanned_from, report.truncated_bytes = True, 3, 40, 7
    assert report.sentence() == (
        "opened after a crash, its log ends at 500, 3 records read from 40, 7 torn bytes wiped"
    )
    torn = RecoveryReport()
    torn.truncated_bytes = 9
    assert torn.sentence() == "opened after a clean stop, its log ends at 0, 9 torn bytes wiped"
