"""The message store as a whole: life and death, the failed sync, what waits for what."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.store.disk.files import FileFailed, FileLocked, RealFiles
from bolide.store.errors import ServiceNotAvailable
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queues import AT_ONCE, MAX_WAITING
from tests.layout.records import message_of
from tests.store.scenario import ALL, ROOT, SHAPE, START, Machine, message, missing


class TestLife:
    def test_a_closed_store_takes_nothing_and_closing_twice_is_fine(self) -> None:
        machine = Machine()
        machine.turn(3)
        machine.store.close(machine.now)
        machine.store.close(machine.now)
        assert not machine.store.writable() and not machine.store.readable()
        with pytest.raises(ServiceNotAvailable, match="closed"):
            machine.append()

    def test_the_names_of_its_folders_are_certain_before_a_file_is_in_them(self) -> None:
        machine = Machine()
        machine.files.power_cut(0)
        assert {"commitlog", "consumequeue", "index"} <= set(machine.files.list_dir(ROOT))

    def test_two_stores_on_one_folder_are_refused(self, tmp_path: object) -> None:
        machine = Machine()
        with pytest.raises(FileLocked):
            MessageStore(machine.files, ROOT, SHAPE).load(START)
        machine.turn(1)
        store = MessageStore(RealFiles(), f"{tmp_path}/deep/store", SHAPE)
        store.load(START)
        with pytest.raises(FileLocked):
            MessageStore(RealFiles(), f"{tmp_path}/deep/store", SHAPE).load(START)
        store.append(message(1), START)
        store.close(START)
        store = MessageStore(RealFiles(), f"{tmp_path}/deep/store", SHAPE)
        assert not store.load(START).abnormal
        assert store.max_queue_offset("T", 1) == 1, "closing wrote, synced and dispatched what was pending"
        store.close(START)

    def test_the_abort_file_holds_the_process_id(self) -> None:
        machine = Machine()
        mark = f"4711\nbolide boot-0 {machine.now} SYNC\n"
        assert machine.files.read_file(f"{ROOT}/abort") == mark.encode()
        assert machine.files.read_file(f"{ROOT}/lock") == b"lock"

    def test_a_deleted_topic_starts_again_at_zero(self) -> None:
        machine = Machine()
        machine.turn(9)
        machine.store.delete_topic("T")
        assert machine.store.queue_ids("T") == []
        machine.acknowledged.clear()
        assert [sent.at.queue_offset for sent in machine.append(3)] == [0, 0, 0]
        machine.write()
        machine.flush()
        machine.restart()
        assert not missing(machine.store, machine.acknowledged)

    def test_records_of_names_that_lead_elsewhere_stop_nothing(self, tmp_path: Path) -> None:
        """An older door took them, and they are in the log: it serves, closes and starts all the same."""
        root = tmp_path / "a" / "store"
        for _ in range(3):
            store = MessageStore(RealFiles(), str(root), SHAPE)
            store.load(START)
            before = store.max_queue_offset("T", 1)
            for topic in ("../../../out", "n\0l"):
                store.append(message_of(topic, b"b"), START)
            store.append(message(1), START)
            store.write_pending()
            store.flushed(store.end_offset)
            store.dispatch(100, START)
            assert store.max_queue_offset("T", 1) == before + 1
            store.tick(START + 100_000)
            store.close(START + 100_000)
        assert not (tmp_path / "out").exists() and not (tmp_path / "a" / "out").exists()
        (root / "abort").write_bytes(b"1")
        store = MessageStore(RealFiles(), str(root), SHAPE)
        assert store.load(START).abnormal
        assert store.max_queue_offset("T", 1) == 3 and store.queues.refused_records > 0
        store.close(START)


class TestWatermark:
    def test_messages_are_readable_only_once_on_disk(self) -> None:
        machine = Machine()
        machine.append(1)
        machine.write()
        assert machine.store.dispatch(ALL, START) == []
        target = machine.store.flush_target(START)
        machine.store.sync_commit_log(target)
        assert machine.store.dispatch(ALL, START) == [], "only `flushed`, on the loop, moves the watermark"
        machine.store.flushed(target)
        (arrival,) = machine.store.dispatch(ALL, START)
        assert (arrival.topic, arrival.queue_id, arrival.max_offset) == ("T", 0, 1)

    def test_a_record_belongs_to_a_queue_before_and_after_it_is_dispatched(self) -> None:
        machine = Machine()
        store = machine.store
        places = [("T", sent.put.queue_id, sent.at.queue_offset, sent.at.physical_offset) for sent in machine.append(5)]
        assert [store.holds(*place) for place in places] == [True] * 5
        machine.write()
        target = store.flush_target(START)
        store.sync_commit_log(target)
        store.flushed(target)
        for dispatched in range(6):
            assert [store.holds(*place) for place in places] == [True] * 5, dispatched
            for topic, queue_id, queue_offset, physical_offset in places:
                assert not store.holds(topic, queue_id, queue_offset, physical_offset + 1)
                assert not store.holds(topic, queue_id, queue_offset + 1, physical_offset)
                assert not store.holds(topic, queue_id + 1, queue_offset, physical_offset)
                assert not store.holds("Other", queue_id, queue_offset, physical_offset)
            store.dispatch(1, START)
        assert not store.holds("T", -1, 0, 0) and not store.holds("T", 0, -1, places[0][3])

    def test_write_during_a_sync_waits_for_the_next_sync(self) -> None:
        machine = Machine()
        machine.append(1)
        machine.write()
        target = machine.store.flush_target(START)
        machine.append(1)
        machine.write()
        machine.store.sync_commit_log(target)
        machine.store.flushed(target)
        machine.dispatch()
        assert (len(machine.acknowledged), len(machine.waiting)) == (1, 1)

    def test_dispatch_keeps_to_its_budget(self) -> None:
        machine = Machine()
        machine.append(10)
        machine.write()
        machine.store.flushed(machine.store.written_offset)
        counts = [len(machine.store.dispatch(4, START)) for _ in range(4)]
        assert counts == [4, 4, 2, 0]

    def test_a_failed_sync_stops_the_store_for_good(self) -> None:
        machine = Machine()
        machine.turn(5)
        machine.append(5)
        machine.write()
        target = machine.store.flush_target(START)
        machine.files.fail_next("datasync")
        with pytest.raises(FileFailed) as failure:
            machine.store.sync_commit_log(target)
        machine.store.stop_writing(str(failure.value))
        assert machine.store.flush_target(START) == -1, "never tried again: the kernel may say yes to pages it lost"
        assert not machine.store.writable() and machine.store.readable()
        with pytest.raises(ServiceNotAvailable):
            machine.append()
        machine.dispatch()
        assert len(machine.acknowledged) == 5
        synced = len(machine.files.synced)
        machine.store.close(machine.now)
        assert len(machine.files.synced) == synced, "closing syncs nothing either"
        assert machine.files.size(f"{ROOT}/abort") >= 0
        machine.power_cut(0)
        assert not missing(machine.store, machine.acknowledged)

    def test_a_write_that_fails_in_any_way_is_taken_back(self) -> None:
        machine = Machine()
        machine.turn(3)
        end = machine.store.end_offset
        taken_back: list[int] = []
        machine.store.on_taken_back.append(taken_back.append)
        machine.append(3)
        machine.files.fail_next("write_at", MemoryError())  # type: ignore[arg-type]  # a fault of another kind
        with pytest.raises(MemoryError):
            machine.write()
        assert (machine.store.end_offset, taken_back) == (end, [end])
        machine.waiting.clear()
        machine.turn(3)
        assert [sent.at.queue_offset for sent in machine.acknowledged] == [0, 0, 0, 1, 1, 1]
        assert not missing(machine.store, machine.acknowledged)


class TestManyQueues:
    def test_ticks_flush_queues_in_steps(self) -> None:
        machine = Machine()
        for number in range(40):
            machine.append(1, f"T{number}")
        machine.write()
        machine.flush()
        machine.now += 1000
        seen = []
        while machine.store.due(machine.now) <= machine.now:
            machine.store.tick(machine.now)
            machine.run_jobs()
            seen.append(sum(not queue.dirty for queue in machine.store.queues.all_queues()))
        assert seen[:3] == [16, 32, 40]
        assert machine.store.maintenance.checkpoint.logics_physical_offset > 0
        machine.power_cut(1)
        assert not missing(machine.store, machine.acknowledged)

    def test_a_sync_covers_what_came_while_dispatch_wrote_the_oldest(self) -> None:
        machine = Machine()
        count = AT_ONCE + 6
        for number in range(count):
            machine.append(1, f"T{number}")
        machine.turn()
        machine.store.queues._waiting.units += MAX_WAITING // 20
        machine.turn()  # much waits: some queues are written, of the others it is the turn next
        machine.store.queues._waiting.units -= MAX_WAITING // 20
        for _ in range(60):
            machine.append(1, f"T{count - 1}")
        machine.turn()
        machine.tick(61_000)
        machine.tick(0)
        machine.crash()
        assert not missing(machine.store, machine.acknowledged, False)


class TestOptions:
    def test_the_ratios_have_javas_bounds(self) -> None:
        options = StoreOptions(disk_space_clean_forcibly_ratio=99, disk_space_warning_level_ratio=10)
        assert (options.clean_forcibly_ratio, options.warning_ratio) == (0.85, 0.35)

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            ({"delete_when": "25"}, "deleteWhen = '25' is not allowed: it must be hours"),
            ({"delete_when": "x"}, "deleteWhen"),
            ({"flush_disk_type": "MAYBE"}, "flushDiskType = 'MAYBE' .* must be ASYNC_FLUSH or SYNC_FLUSH"),
            ({"file_reserved_time": 0}, "fileReservedTime = '0' is not allowed: .* from 1 to"),
            ({"check_crc_on_recover": 1}, "checkCRCOnRecover = '1' is not allowed: it must be true or false"),
        ],
    )
    def test_nonsense_is_refused(self, wrong: dict[str, object], says: str) -> None:
        with pytest.raises(ConfigError, match=says):
            StoreOptions(**wrong)  # type: ignore[arg-type]  # wrong on purpose
