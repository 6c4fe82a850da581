"""A copy of a running store: clean, complete, and never ahead of its log, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from bolide.errors import ConnectionLost
from bolide.node.loop.table_sums import TableSums
from bolide.store.disk.files import DiskFull, FileFailed
from bolide.store.offline.repair import Repair
from bolide.store.raw_log import RawLog
from bolide.store.snapshot import SnapshotFailed, Source, StoreSnapshot
from bolide.testing.files import SimulatedFiles, Stopped
from tests.store.copying import COPY, OFFSETS, SEGMENT, Broker, Traffic, faults
from tests.store.scenario import ASYNC, ROOT, SHAPE, SYNC, Machine, missing


def filled(turns: int = 240) -> Broker:
    """A running store with several log files, with units and entries in files and in memory."""
    machine = Machine()
    for number in range(turns):
        machine.turn()
        if number % 9 == 0:
            machine.tick(1000)
        if number == turns - 20:
            machine.tick(61_000)
    return Broker(machine)


def test_copy_of_an_idle_store() -> None:
    broker = filled()
    store = broker.machine.store
    report = broker.snapshot()
    assert faults(broker, broker.machine.acknowledged, report) == []
    assert (report.log_begin, report.log_end) == (0, store.written_offset)
    assert report.linked_files == store.written_offset // SEGMENT
    assert broker.files.list_dir(f"{COPY}.partial") == []


@pytest.mark.parametrize("seed", range(40))
def test_copy_under_traffic_is_clean_and_complete(seed: int) -> None:
    broker = filled()
    before = list(broker.machine.acknowledged)
    traffic = Traffic(broker, seed, (0.02, 0.1, 0.4)[seed % 3])
    report = broker.snapshot(traffic)
    assert faults(broker, before, report) == []


def test_copy_of_an_empty_store() -> None:
    broker = Broker(Machine())
    report = broker.snapshot()
    assert faults(broker, [], report) == []
    assert report.log_end == 0


def test_log_that_ends_with_a_file() -> None:
    """The newest file with records is full: no later file shows that it is sealed, so it is copied."""
    broker = filled(20)
    machine = broker.machine
    while machine.store.log.end_offset // SEGMENT == 0:
        machine.turn()
    machine.store.log.make_room(1)
    end = int(machine.store.end_offset)
    assert end % SEGMENT != 0
    report = broker.snapshot()
    assert faults(broker, machine.acknowledged, report) == []


def test_changes_before_the_start_are_in_the_copied_tables() -> None:
    broker = filled()
    broker.machine.turn()
    offsets = broker.files.read_file(f"{ROOT}/{OFFSETS}")
    report = broker.snapshot()
    assert broker.files.read_file(f"{report.folder}/{OFFSETS}") != offsets


def test_only_what_belongs_to_a_store_is_copied() -> None:
    broker = filled()
    for name in ("brokerIdentity", "brokerIdentity-life", "truncated/1", "repair-2/x", "config/a.json.bak"):
        broker.files.make_dir(f"{ROOT}/{name}".rpartition("/")[0])
        broker.files.write_file(f"{ROOT}/{name}", b"other")
    broker.files.write_file(f"{ROOT}/epochFileCheckpoint", b"epochs")
    broker.files.write_file(f"{ROOT}/config/timercheck", b"timer")
    report = broker.snapshot()
    assert broker.files.list_dir(report.folder) == [
        "checkpoint", "commitlog", "config", "consumequeue", "derived.json", "epochFileCheckpoint", "index", "lock",
        "store-format",
    ]  # fmt: skip
    assert broker.files.list_dir(f"{report.folder}/config") == [
        "consumerOffset.json", "consumerOffset.json.crc", "timercheck"
    ]  # fmt: skip


# -- faults --


def nothing_left(broker: Broker) -> bool:
    return broker.files.list_dir("/data") == ["store"]


class At:
    """Do something at the call with this number."""

    def __init__(self, number: int, act: object) -> None:
        self.left = number
        self.act = act

    def __call__(self, name: str) -> None:
        self.left -= 1
        if self.left == 0:
            assert callable(self.act)
            self.act()


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("number", [1, 5, 40, 80, 120, 200, 300])
def test_ctrl_c_leaves_nothing(number: int) -> None:
    broker = filled()
    with pytest.raises(KeyboardInterrupt):
        broker.snapshot(At(number, interrupt))
    assert nothing_left(broker)
    assert broker.machine.store.log.segments.read(0, 4) == broker.machine.store.log.record_bytes(0)[:4]


CALLS = ["make_dir", "link", "open", "write_at", "write_file", "datasync", "rename", "sync_dir"]


@pytest.mark.parametrize("call", CALLS)
def test_failed_call_leaves_nothing(call: str) -> None:
    broker = filled()
    broker.files.write_file(f"{ROOT}/epochFileCheckpoint", b"epochs")
    failed: list[str] = []

    def fail(name: str) -> None:
        if name == call and not failed:
            failed.append(name)
            broker.files.fail_next(call)

    with pytest.raises(FileFailed, match="simulated I/O error"):
        broker.snapshot(fail)
    assert nothing_left(broker)


def test_full_disk_leaves_nothing() -> None:
    broker = filled()
    broker.files.capacity = broker.files.used() + 3 * SEGMENT
    with pytest.raises(DiskFull):
        broker.snapshot()
    assert nothing_left(broker)
    broker.machine.turn()


def test_disk_that_the_broker_needs_is_not_filled() -> None:
    broker = filled()
    broker.limit, broker.files.use = 0.85, 0.86
    with pytest.raises(DiskFull, match=r"the disk of /data/store is 86% full, and above 85% the broker"):
        broker.snapshot()
    assert nothing_left(broker)
    broker.files.use = 0.84
    assert faults(broker, broker.machine.acknowledged, broker.snapshot()) == []


def test_existing_folders_are_kept() -> None:
    broker = filled()
    for name, text in ((COPY, "exists: give a new folder"), (f"{COPY}.partial", "another copy is in progress")):
        broker.files.make_dir(name)
        with pytest.raises(SnapshotFailed, match=text):
            broker.snapshot()
        assert broker.files.list_dir("/data") == sorted(["store", name.rpartition("/")[2]])
        broker.files.remove(name)
    with pytest.raises(SnapshotFailed, match="is in the store that it would copy"):
        broker.snapshot(folder=f"{ROOT}/backup")


@pytest.mark.parametrize("which", ["other run", "other boot", "no marker"])
def test_only_the_store_of_the_running_broker_is_copied(which: str) -> None:
    broker = filled()
    if which == "other run":
        broker.machine.store.maintenance.run_id += 1
    elif which == "other boot":
        broker.files.boots += 1
    else:
        broker.files.remove(f"{ROOT}/abort")
    with pytest.raises(SnapshotFailed, match="is not the store of the running broker: run the command on the broker's"):
        broker.snapshot()
    assert nothing_left(broker)


def restarted(broker: Broker) -> None:
    broker.machine.now += 1000
    broker.machine.restart()


def truncated(broker: Broker) -> None:
    machine = broker.machine
    machine.run_jobs()
    RawLog(machine.store).cut(int(machine.acknowledged[100].at.end_offset), machine.now)


@pytest.mark.parametrize("question", [2, 3, 4])
@pytest.mark.parametrize("event", [restarted, truncated])
def test_restart_or_truncation_during_a_copy_ends_it(question: int, event: Callable[[Broker], None]) -> None:
    broker = filled()
    broker.before = lambda: event(broker) if broker.asked == question else None
    with pytest.raises(SnapshotFailed, match="was restarted, or truncated its log, during the copy, which was removed"):
        broker.snapshot()
    assert broker.files.list_dir("/data") == ["store"]


def test_broker_that_stops_during_a_copy_ends_it() -> None:
    broker = filled()

    def stop() -> None:
        if broker.asked == 3:
            raise ConnectionLost("cannot connect to 127.0.0.1:10911")

    broker.before = stop
    with pytest.raises(SnapshotFailed, match="stopped responding during the copy, which was removed: cannot connect"):
        broker.snapshot()
    assert nothing_left(broker)


def test_missing_log_file_is_reported() -> None:
    broker = filled()
    broker.files.remove(f"{ROOT}/commitlog/{2 * SEGMENT:020}")
    with pytest.raises(SnapshotFailed, match=f"commitlog has no file {2 * SEGMENT:020}, and no copy was made"):
        broker.snapshot()
    assert nothing_left(broker)


def test_log_file_that_expires_during_a_copy_is_left_out() -> None:
    broker = filled()
    traffic = Traffic(broker, 1, 0.0)
    broker.before = lambda: traffic.expire() if broker.asked in (2, 3, 4) else None
    report = broker.snapshot()
    assert report.log_begin == 2 * SEGMENT
    assert broker.files.list_dir(f"{COPY}/commitlog")[0] == f"{2 * SEGMENT:020}"
    assert faults(broker, broker.machine.acknowledged, report) == []


def test_retention_that_passes_the_checkpoint_ends_the_copy() -> None:
    """Units that exist in memory only belong to expired records. Without them queues would end too early."""
    broker = filled()
    store = broker.machine.store

    def expire() -> None:
        if broker.asked == 3:
            for _ in range(40):
                broker.machine.turn()
            store.log.segments.delete_before(int(store.end_offset))

    broker.before = expire
    with pytest.raises(SnapshotFailed, match="are newer than the copied checkpoint"):
        broker.snapshot()
    assert nothing_left(broker)


def test_retention_that_needs_a_later_checkpoint_ends_the_copy() -> None:
    """The store had no checkpoint when it was copied; the units of files deleted since then are not in the copy."""
    machine = Machine()
    for _ in range(120):
        machine.turn()
    broker = Broker(machine)
    traffic = Traffic(broker, 1, 0.0)

    def expire() -> None:
        if broker.asked == 3:
            machine.tick(60_000)
            traffic.expire()

    broker.before = expire
    with pytest.raises(SnapshotFailed, match="are newer than the copied checkpoint"):
        broker.snapshot()
    assert machine.store.min_physical_offset() > 0 and nothing_left(broker)


def test_damaged_table_is_not_copied() -> None:
    broker = filled()
    broker.files.write_file(f"{ROOT}/config/topics.json", b'{"a":1}')
    broker.files.write_file(f"{ROOT}/config/topics.json.crc", broker.files.read_file(f"{ROOT}/{OFFSETS}.crc") or b"")
    with pytest.raises(SnapshotFailed, match="topics.json is damaged, and no copy was made: its checksum"):
        broker.snapshot()
    assert nothing_left(broker)


def test_table_that_is_replaced_during_its_read_is_reread() -> None:
    broker = filled()

    def replace() -> None:
        broker.between_reads = lambda: None
        for _ in range(4):
            broker.machine.turn()
            broker.save()

    broker.between_reads = replace
    report = broker.snapshot()
    assert broker.between_reads is not replace
    assert faults(broker, broker.machine.acknowledged, report) == []


def recreated(broker: Broker) -> None:
    """Delete a topic and send to a new one of its name; the table of offsets is written later."""
    machine = broker.machine
    machine.store.delete_topic("T")
    broker.deleted.add("T")
    for _ in range(4):
        machine.turn()


def test_offsets_of_a_topic_deleted_while_tables_are_copied_are_dropped() -> None:
    broker = filled()
    wheel = f"{ROOT}/timerwheel"
    broker.files.write_file(wheel, b"old" * 4000)

    def delete() -> None:
        broker.between_reads = lambda: None
        recreated(broker)
        broker.files.write_file(wheel, bytes(8000) + b"new" * 1000)

    broker.between_reads = delete
    report = broker.snapshot()
    assert faults(broker, [], report) == []
    assert broker.asked == 6, "tables were copied twice"
    assert broker.files.read_file(f"{COPY}/timerwheel") == broker.files.read_file(wheel)
    store = Machine(files=broker.files, root=COPY, now=broker.machine.now).store
    assert sum(int(store.max_queue_offset("T", queue)) for queue in range(3)) == 4


def test_topics_deleted_in_each_attempt_end_the_copy() -> None:
    broker = filled()
    broker.between_reads = lambda: recreated(broker)
    with pytest.raises(SnapshotFailed, match="topics were deleted in each attempt to copy the tables; the copy"):
        broker.snapshot()
    assert nothing_left(broker)


def test_damaged_tail_of_the_log_is_not_copied() -> None:
    broker = filled()
    sent = broker.machine.acknowledged[-1]
    broker.machine.store.log.segments.write(sent.at.physical_offset + 90, [b"\xff"])
    with pytest.raises(SnapshotFailed, match="the copy is not a valid store and was removed: the log of"):
        broker.snapshot()
    assert nothing_left(broker)


@pytest.mark.parametrize("seed", range(6))
def test_complete_copy_survives_a_power_failure(seed: int) -> None:
    broker = filled()
    report = broker.snapshot()
    broker.files.power_cut(seed)
    assert faults(broker, broker.machine.acknowledged, report) == []


def test_machine_that_stops_at_any_call_leaves_a_complete_copy_or_none() -> None:
    of = filled(60)
    position, count = of.position(), 0
    of.files.write_file(f"{ROOT}/epochFileCheckpoint", b"epochs")
    for stop in range(10_000):
        files = of.files.clone()
        files.stop_after = files.calls + stop
        source = Source(ROOT, lambda: position, partial(TableSums, files), f"{ROOT}/epochFileCheckpoint", 1.0)
        work = StoreSnapshot(files, source, COPY, SHAPE, SYNC, of.machine.now, lambda *_: None)
        try:
            report = work.run()
        except Stopped:
            report = work.report
        else:
            break
        for seed in (1, stop + 2):  # 1: everything survives, as after a kill
            left = files.clone()
            left.power_cut(seed)
            assert set(left.list_dir("/data")) <= {"store", "copy", "copy.partial"}
            if "copy" in left.list_dir("/data"):
                count += 1
                assert faults(Broker(of.machine, left), of.machine.acknowledged, report) == []
    assert count > 0


# -- shared files --


def shared(broker: Broker) -> list[str]:
    files, folder = broker.files, f"{ROOT}/commitlog"
    return [name for name in files.list_dir(folder) if files.links(f"{folder}/{name}") > 1]


def contents(files: SimulatedFiles, root: str) -> dict[str, bytes | None]:
    folder = f"{root}/commitlog"
    return {name: files.read_file(f"{folder}/{name}") for name in files.list_dir(folder)}


def test_only_files_below_the_synced_end_are_shared() -> None:
    broker = filled()
    broker.snapshot()
    assert shared(broker) == broker.files.list_dir(f"{ROOT}/commitlog")[: len(shared(broker))]
    assert int(shared(broker)[-1]) + SEGMENT < broker.machine.store.flushed_offset


@pytest.mark.parametrize("where", ["in a file", "end of a file"])
def test_truncation_of_either_store_does_not_change_the_other(where: str) -> None:
    broker = filled()
    report = broker.snapshot()
    machine = broker.machine
    end = 3 * SEGMENT if where == "end of a file" else int(machine.acknowledged[100].at.end_offset)
    copied = contents(broker.files, COPY)
    machine.run_jobs()
    RawLog(machine.store).cut(end, machine.now)
    assert contents(broker.files, COPY) == copied
    machine.acknowledged = [sent for sent in machine.acknowledged if sent.at.end_offset <= end]
    for _ in range(20):
        machine.turn()
    machine.restart()  # a start rejects a store whose newest file is shared
    assert contents(broker.files, COPY) == copied
    assert missing(machine.store, machine.acknowledged) == []

    original = contents(broker.files, ROOT)
    copy = Machine(files=broker.files, root=COPY, now=machine.now)
    RawLog(copy.store).cut(SEGMENT, copy.now)
    for _ in range(20):
        copy.turn()
    copy.restart()
    assert contents(broker.files, ROOT) == original
    assert report.log_end > copy.store.end_offset


@pytest.mark.parametrize("cut", [True, False])
def test_repair_of_a_store_does_not_change_its_copy(cut: bool) -> None:
    broker = filled()
    broker.snapshot()
    machine = broker.machine
    rot = machine.acknowledged[40].at.physical_offset + 90  # on a disk that both share
    machine.store.log.segments.write(rot, [b"\xff"])
    copied = contents(broker.files, COPY)
    assert copied == contents(broker.files, ROOT) | {max(copied): copied[max(copied)]}
    machine.store.close(machine.now)
    work = Repair(broker.files, ROOT, SHAPE)
    plan = work.plan(cut)
    assert plan.reason
    work.carry_out(plan, machine.now)
    work.close()
    assert contents(broker.files, COPY) == copied


def test_recovery_that_goes_back_to_a_shared_file_takes_a_copy_of_it() -> None:
    machine = Machine(options=ASYNC)
    while machine.store.end_offset < 2 * SEGMENT:
        machine.tick(1000)
        machine.turn()
    machine.store.flush_soon()
    machine.flush()
    broker = Broker(machine)
    broker.snapshot()
    assert f"{SEGMENT:020}" in shared(broker)
    copied = contents(broker.files, COPY)
    # The last checkpoint does not cover the first record of the newest file, so its loss is not damage.
    machine.store.log.segments.write(2 * SEGMENT + 4, [bytes(4)])
    machine.power_cut(1)
    assert machine.store.end_offset == 2 * SEGMENT
    machine.crash()
    machine.turn()
    machine.restart()
    assert contents(broker.files, COPY) == copied
