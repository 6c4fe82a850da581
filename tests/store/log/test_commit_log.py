"""The commit log: limits, blanks, the batch, what a failed write takes back, and the rules of flushing."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from bolide.layout.broker_message import BrokerMessage
from bolide.layout.record import BLANK_MAGIC, decode_record
from bolide.layout.shape import StoreShape
from bolide.store.background.running_flags import DISK_FULL
from bolide.store.disk.files import DiskFull, FileFailed, RealFiles, SyncFailed
from bolide.store.disk.segments import RESERVE_FIRST, HandleCache
from bolide.store.errors import MessageIllegal, ServiceNotAvailable
from bolide.store.log.commit_log import CommitLog
from bolide.store.log.files_ahead import RESERVE_STEP
from bolide.store.options import StoreOptions
from bolide.testing.files import SimulatedFiles
from tests.layout.records import message_of
from tests.store.scenario import ASYNC, SHAPE, START, Machine, message, missing

FOUR_PAGES = StoreOptions(flush_disk_type="ASYNC_FLUSH", flush_commit_log_least_pages=4)


def put(topic: str = "T", body: bytes = b"b", properties: bytes = b"") -> BrokerMessage:
    return message_of(topic, body, properties, born_timestamp=START)


class TestLimits:
    @pytest.mark.parametrize(
        ("illegal", "said"),
        [
            (put(body=bytes(1001)), "1001 bytes, more than maxMessageSize 1000"),
            (put(properties=bytes(32768)), "32768 bytes, more than 32767"),
            (put(topic="t" * 128), "128 bytes: 1 to 127"),
            (put(topic=""), "0 bytes"),
            (put(properties=bytes(3000), body=bytes(1000)), "4092 bytes, more than 4088"),
        ],
    )
    def test_illegal_message_is_rejected_without_a_change(self, illegal: BrokerMessage, said: str) -> None:
        machine = Machine(options=StoreOptions(max_message_size=1000))
        with pytest.raises(MessageIllegal, match=said) as refusal:
            machine.store.append(illegal, machine.now)
        assert refusal.value.code == 13
        assert machine.store.end_offset == 0
        machine.turn()
        assert not missing(machine.store, machine.acknowledged)

    def test_a_long_retry_topic_is_stored_as_v2(self) -> None:
        machine = Machine()
        topic = "%RETRY%" + "g" * 200
        at = machine.store.append(put(topic), START)
        machine.write()
        machine.flush()
        record = machine.store.record_at(at.physical_offset)
        assert record is not None
        assert (record.magic & 0xFFFFFFFF, record.topic) == (0xDAA320AB, topic)

    def test_a_batch_that_no_file_holds_is_refused_whole(self) -> None:
        machine = Machine()
        with pytest.raises(MessageIllegal, match="smaller batches"):
            machine.store.append_batch([message(n, size=500) for n in range(8)], START)
        assert machine.store.end_offset == 0


class TestFiles:
    def test_a_record_that_does_not_fit_goes_to_the_next_file_behind_a_blank(self) -> None:
        machine = Machine()
        first = machine.store.append(message(0, size=3000), START)
        second = machine.store.append(message(1, size=3000), START)
        assert second.physical_offset == 4096
        machine.write()
        blank = machine.store.log.segments.read(first.end_offset, 8)
        assert int.from_bytes(blank[:4], "big") == 4096 - first.end_offset
        assert int.from_bytes(blank[4:], "big", signed=True) == BLANK_MAGIC
        machine.flush()
        assert machine.store.dispatched_offset == second.end_offset

    def test_every_file_keeps_eight_bytes_for_the_blank(self) -> None:
        machine = Machine()
        overhead = machine.store.append(message(3, size=0), START).size
        machine = Machine()
        exact = machine.store.append(message(3, size=4096 - 8 - overhead), START)
        assert exact.end_offset == 4088
        machine = Machine()
        with pytest.raises(MessageIllegal):
            machine.store.append(message(3, size=4096 - 7 - overhead), START)

    def test_a_batch_stays_in_one_file(self) -> None:
        machine = Machine()
        machine.append(28)
        places = machine.store.append_batch([message(n) for n in range(100, 108)], START)
        assert places[0].physical_offset == 4096
        assert [place.physical_offset for place in places[1:]] == [place.end_offset for place in places[:-1]]

    def test_turn_is_one_write_per_file_created_ahead(self) -> None:
        machine = Machine()
        machine.turn(20)
        (job,) = machine.store.jobs()
        assert job.name == "make a log file"
        job.run()
        machine.store.job_done(job)
        calls: list[str] = []
        machine.files.before_change = calls.append
        machine.append(16)
        assert machine.store.end_offset > 4096
        machine.write()
        assert calls == ["write_at", "write_at"], "one write a file; the file itself was there already"
        assert machine.store.jobs() == []

    def test_when_the_pool_is_late_the_file_is_made_on_the_spot(self) -> None:
        machine = Machine()
        machine.turn(20)
        (job,) = machine.store.jobs()
        machine.turn(20)
        job.run()
        machine.store.job_done(job)
        machine.turn(30)
        assert not missing(machine.store, machine.acknowledged)


class TestRecordContent:
    def test_timestamps_never_go_back(self) -> None:
        machine = Machine()
        times = [machine.store.append(message(n), START + at).store_timestamp for n, at in enumerate((5, 3, 9))]
        assert times == [START + 5, START + 5, START + 9]

    def test_prepared_and_rolled_back_take_no_queue_offset(self) -> None:
        machine = Machine()
        offsets = []
        for bits in (0, 4, 0xC, 8):
            half = put()
            half.sys_flag = bits
            offsets.append(machine.store.append(half, START).queue_offset)
        assert offsets == [0, 0, 0, 1]

    def test_the_tags_code_of_a_delayed_message_is_its_time(self) -> None:
        machine = Machine()
        delayed = message_of("SCHEDULE_TOPIC_XXXX", b"b", b"DELAY\x013\x02", 2, delay_level=3)
        machine.store.append(delayed, START + 7)
        machine.write()
        machine.flush()
        assert machine.store.units("SCHEDULE_TOPIC_XXXX", 2, 0, 1)[0][2] == START + 7 + 10_000

    def test_the_crc_property_covers_the_record_before_it(self) -> None:
        files = SimulatedFiles()
        machine = Machine(files, shape=replace(SHAPE, append_property_crc=True))
        at = machine.store.append(put(properties=b"a\x01b"), START)
        machine.write()
        data = machine.store.log.record_bytes(at.physical_offset)
        assert len(data) == at.size
        digits = data[-11:-1].decode()
        crc = zlib.crc32(data[:-20]) & 0x7FFFFFFF
        assert data[-20:] == b"__CRC32#\x01" + digits.encode() + b"\x02"
        assert int(digits[::-1]) == crc
        assert decode_record(data, 0).properties.startswith(b"a\x01b\x02__CRC32#\x01")


class TestFailedWrite:
    @pytest.mark.parametrize("full", [True, False])
    def test_failed_write_is_undone_completely(self, full: bool) -> None:
        machine = Machine()
        machine.turn(5)
        end = machine.store.end_offset
        offsets = [machine.store.next_queue_offset("T", queue) for queue in range(3)]
        told: list[int] = []
        machine.store.on_taken_back.append(told.append)
        machine.append(5)
        machine.files.fail_next("write_at", DiskFull("no room") if full else None)
        with pytest.raises(FileFailed):
            machine.write()
        assert machine.store.end_offset == machine.store.written_offset == end
        assert told == [end]
        assert [machine.store.next_queue_offset("T", queue) for queue in range(3)] == offsets
        assert bool(machine.store.flags.bits & DISK_FULL) == full
        machine.waiting.clear()
        if full:
            with pytest.raises(ServiceNotAvailable, match="disk is full") as refusal:
                machine.append()
            assert refusal.value.code == 14
            machine.tick(60_000)  # the cleaner finds room again
        machine.turn(5)
        machine.crash()
        assert not missing(machine.store, machine.acknowledged)
        assert len(machine.acknowledged) == 10

    def test_a_full_disk_at_a_new_file_is_an_answer_not_a_crash(self) -> None:
        machine = Machine(SimulatedFiles(capacity=4096 + 3000))
        with pytest.raises(ServiceNotAvailable, match="full"):
            for _ in range(100):
                machine.turn(1)
        assert machine.acknowledged
        assert not missing(machine.store, machine.acknowledged)
        machine.files.capacity = None
        machine.tick(60_000)
        machine.turn(50)
        machine.crash()
        assert not missing(machine.store, machine.acknowledged)

    def test_the_second_of_two_files_fails(self) -> None:
        machine = Machine()
        machine.turn(24)
        machine.append(14)

        def fail_second(call: str) -> None:
            if machine.store.written_offset >= 4096:
                machine.files.before_change = None
                machine.files.fail_next("write_at")

        machine.files.before_change = fail_second
        with pytest.raises(FileFailed):
            machine.write()
        assert machine.store.written_offset == machine.store.end_offset == 4096
        machine.flush()
        machine.waiting.clear()
        assert len(machine.acknowledged) > 24
        machine.turn(10)
        machine.power_cut(0)
        assert not missing(machine.store, machine.acknowledged)


class TestNewFile:
    def test_unsynced_new_file_ends_the_store(self) -> None:
        """The kernel may have dropped what it could not write, and a second sync would report success."""
        for made_ahead in (False, True):
            machine = Machine()
            machine.turn(20)
            machine.files.fail_next("datasync")
            if made_ahead:
                while machine.store.writable():
                    machine.append()
                    machine.write()
                    machine.run_jobs()
            else:
                with pytest.raises(ServiceNotAvailable, match="sync"):
                    machine.append(40)
            assert "sync" in machine.store.failure
            machine.files.synced.clear()
            machine.tick(1000)
            machine.run_jobs()
            with pytest.raises(ServiceNotAvailable):
                machine.append()
            assert machine.store.flush_target(machine.now) == -1
            assert machine.files.synced == [], "nothing is synced a second time"

    def test_unsynced_folder_ends_the_store(self) -> None:
        machine = Machine()
        machine.turn(20)
        machine.files.fail_next("sync_dir", SyncFailed("cannot sync the folder"))
        with pytest.raises(ServiceNotAvailable):
            machine.append(40)
        assert "folder" in machine.store.failure

    @pytest.mark.slow
    def test_blocks_are_reserved_in_steps_ahead_of_the_writer(self) -> None:
        size = 4 * RESERVE_STEP
        machine = Machine(shape=replace(SHAPE, commit_log_segment_size=size))
        log = machine.store.log
        assert log.ahead.next_blocks(log.end_offset) is None
        machine.turn(1)
        first = log.ahead.next_blocks(log.end_offset)
        assert first is None, "the file was made with its first blocks"
        reserved, last = RESERVE_FIRST, RESERVE_FIRST
        while reserved < size:
            log.end_offset = reserved - last // 2 + 1
            step = log.ahead.next_blocks(log.end_offset)
            assert step is not None and step.offset == reserved, "one stretch behind the other"
            assert step.size == min(2 * last if reserved > RESERVE_FIRST else last, RESERVE_STEP, size - reserved)
            assert log.ahead.next_blocks(log.end_offset) is None, "asked for once"
            reserved, last = int(step.offset + step.size), int(step.size)
        log.end_offset = size
        assert log.ahead.next_blocks(log.end_offset) is None, "the file is full"

    def test_a_store_with_three_messages_takes_little_of_the_disk(self, tmp_path: Path) -> None:
        machine = Machine(RealFiles(), shape=StoreShape(), root=str(tmp_path))  # type: ignore[arg-type]  # a real disk
        machine.turn(3)
        machine.run_jobs()
        machine.restart()
        machine.turn(1)
        machine.run_jobs()
        log = tmp_path / "commitlog" / ("0" * 20)
        assert log.stat().st_size == 1 << 30, "as long as Java's"
        blocks = sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*"))
        assert blocks < 64 << 20
        machine.store.close(machine.now)

    @pytest.mark.slow
    def test_blocks_that_are_refused_are_asked_for_again_further_on(self) -> None:
        machine = Machine(shape=replace(SHAPE, commit_log_segment_size=1 << 30))
        log = machine.store.log
        machine.turn(1)
        log.end_offset = RESERVE_FIRST - 100
        machine.files.fail_next("reserve", DiskFull("no room for them"))
        machine.run_jobs()
        assert "no room for them" in machine.store.maintenance.take_problem()
        assert log.ahead.next_blocks(log.end_offset) is None
        assert machine.store.writable(), "there may be room for a message still"
        log.end_offset += RESERVE_FIRST + 1
        step = log.ahead.next_blocks(log.end_offset)
        assert step is not None and step.size == RESERVE_FIRST


class TestFlushRules:
    def log(self, options: StoreOptions) -> CommitLog:
        files = SimulatedFiles()
        files.make_dir("/s/commitlog")
        log = CommitLog(
            files, "/s/commitlog", replace(SHAPE, commit_log_segment_size=1 << 20), options, HandleCache(files)
        )
        log.start_at(0, 0, START)
        return log

    def write(self, log: CommitLog, size: int) -> None:
        big = put(body=bytes(size - 92))
        log.make_room(log.check(big))
        log.append(big, 0, START)
        log.write_pending()

    def test_sync_flush_wants_every_write_on_disk_one_sync_at_a_time(self) -> None:
        log = self.log(StoreOptions())
        assert log.flush_target(START) == -1
        self.write(log, 200)
        target = log.flush_target(START)
        assert target == log.written_offset
        self.write(log, 200)
        assert log.flush_target(START) == -1, "one is under way"
        log.sync()
        log.synced(target, True)
        assert log.flushed_offset == target < log.written_offset
        assert log.flush_target(START) == log.written_offset

    def test_async_flush_takes_anything_after_an_interval(self) -> None:
        """What a loss of power costs is half a second, however little is sent."""
        log = self.log(ASYNC)
        assert log.due(START) == -1
        self.write(log, 200)
        assert log.due(START) == START + 500
        assert log.flush_target(START + 499) == -1
        assert log.flush_target(START + 500) == 200
        log.sync()
        log.synced(200, True)
        self.write(log, 200)
        assert log.flush_target(START + 1_000) == 400

    def test_async_flush_waits_for_the_interval_and_enough_pages(self) -> None:
        log = self.log(FOUR_PAGES)
        self.write(log, 3 * 4096)
        assert log.flush_target(START + 500) == -1, "three pages are too few"
        assert log.due(START + 500) == START + 1000
        self.write(log, 2 * 4096)
        assert log.flush_target(START + 900) == -1, "not yet time"
        assert log.flush_target(START + 1000) == log.written_offset

    def test_async_flush_takes_anything_after_the_thorough_interval(self) -> None:
        log = self.log(FOUR_PAGES)
        self.write(log, 200)
        assert log.flush_target(START + 9_999) == -1
        assert log.flush_target(START + 10_600) == 200
        log.sync()
        log.synced(200, True)
        assert log.due(START) == -1, "clean"

    def test_not_timed_means_as_soon_as_enough_pages_are_dirty(self) -> None:
        log = self.log(StoreOptions(flush_disk_type="ASYNC_FLUSH", flush_commit_log_timed=False))
        self.write(log, 3 * 4096)
        assert log.flush_target(START + 1) == -1
        self.write(log, 2 * 4096)
        assert log.flush_target(START + 1) == log.written_offset

    def test_a_sync_under_way_goes_on_when_its_file_is_deleted(self) -> None:
        """The flush thread is in the middle of it: retention takes the file, and another file gets opened."""
        machine = Machine()
        machine.append(60)
        machine.write()
        log = machine.store.log
        target = log.flush_target(machine.now)
        path = log.segments.path_at(0)
        log.segments.delete_before(4096)
        machine.store.sync_commit_log(target)
        assert path in machine.files.synced
        machine.store.flushed(target)
        assert log.flushed_offset == target
        assert path not in [opened for opened, _ in machine.files._handles.values()]

    def test_a_sync_covers_every_file_between(self) -> None:
        machine = Machine()
        machine.append(60)
        machine.write()
        machine.files.synced.clear()
        machine.flush()
        assert [path.rpartition("/")[2] for path in machine.files.synced] == [
            f"{start:020}" for start in range(0, int(machine.store.end_offset), 4096)
        ]


def test_async_flush_confirms_what_is_written() -> None:
    machine = Machine(options=ASYNC)
    machine.append(3)
    assert machine.store.confirm_offset == 0
    machine.write()
    assert machine.store.confirm_offset == machine.store.end_offset
    machine.dispatch()
    assert len(machine.acknowledged) == 3
    machine.crash()
    assert not missing(machine.store, machine.acknowledged), "the page cache survives the process"


def test_replicas_hold_the_confirm_offset_back() -> None:
    machine = Machine()
    sent = machine.append(3)
    machine.store.replicated_offset = 0
    machine.write()
    machine.flush()
    assert machine.store.confirm_offset == 0
    assert not machine.acknowledged
    machine.store.replicated_offset = sent[1].at.end_offset
    machine.dispatch()
    assert len(machine.acknowledged) == 2


class TestStoreTimes:
    def stored(self, machine: Machine, now: int) -> int:
        return int(machine.store.append(put(), now).store_timestamp)

    def test_store_timestamps_follow_a_set_clock(self) -> None:
        machine = Machine()
        assert self.stored(machine, START) == START
        machine.store.clock_set(-3_600_000)
        assert self.stored(machine, START + 10) == START + 10 - 3_600_000
        machine.store.clock_set(5_000)
        assert self.stored(machine, START + 20) == START + 5_020

    def test_store_timestamps_ignore_a_small_step_back(self) -> None:
        machine = Machine()
        assert self.stored(machine, START) == START
        machine.store.clock_set(-1_000)
        assert self.stored(machine, START) == START
        assert self.stored(machine, START - 1) == START - 1_001

    def test_a_start_does_not_wait_for_a_clock_that_was_ahead(self) -> None:
        machine = Machine()
        day = 86_400_000
        self.stored(machine, START + day)
        machine.turn()
        machine.store.close(START + day)
        again = Machine(machine.files)
        assert self.stored(again, START) == START
