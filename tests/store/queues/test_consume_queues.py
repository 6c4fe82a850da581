"""The table of queues: what goes where, starting from a folder, topics that go away."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from bolide.dispatch.row import Dispatch
from bolide.store.disk.files import FileFailed
from bolide.store.disk.segments import HandleCache
from bolide.store.queues.consume_queues import AT_ONCE, FEW, MAX_WAITING, OLDEST, QUEUE_COST, ConsumeQueues
from bolide.testing.files import SimulatedFiles
from tests.store.parts import SHAPE, OwnFiles, Parts, put_of


def record(topic: str, queue_id: int, queue_offset: int, physical_offset: int, sys_flag: int = 0) -> Dispatch:
    return Dispatch(
        topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        size=100,
        tags_code=5,
        store_timestamp=1000,
        sys_flag=sys_flag,
    )


def open_queues(root: Path, limit: int = 4) -> ConsumeQueues:
    files = OwnFiles()
    return ConsumeQueues(files, str(root), SHAPE, HandleCache(files, limit))


def test_hundreds_of_queues_with_four_handles(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    for number in range(900):
        assert queues.put(record(f"T{number % 30}", number % 10, number // 30, number * 100))
    queues.flush()
    assert len(queues.topics()) == 30
    again = open_queues(tmp_path)
    again.load()
    assert again.recover() == 90_000
    assert {len(again.queue_ids(f"T{number}")) for number in range(30)} == {1}
    assert sum(int(queue.max_offset) for queue in again.all_queues()) == 900


def test_flush_writes_only_what_waits(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queues.put(record("T", 0, 0, 0))
    queues.flush()
    path = tmp_path / "consumequeue/T/0" / f"{0:020d}"
    before = path.stat().st_mtime_ns
    queues.flush(True)
    assert path.stat().st_mtime_ns == before
    queues.put(record("T", 0, 1, 100))
    queues.flush()
    assert path.read_bytes()[20:40] == struct.pack(">qiq", 100, 100, 5)


def test_a_round_of_flushing_takes_some_queues_at_a_time_and_ends(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    for number in range(10):
        queues.put(record("T", number, 0, number * 100))
    assert not queues.flush_some(4)
    queues.put(record("T", 10, 0, 1000))  # the next round's
    assert not queues.flush_some(4)
    queues.delete_topic("other")
    assert queues.flush_some(4)
    assert [queue.queue_id for queue in queues.all_queues() if queue.dirty] == [10]
    assert queues.flush_some(4)
    assert not any(queue.dirty for queue in queues.all_queues())


def simulated_queues() -> tuple[SimulatedFiles, ConsumeQueues]:
    files = SimulatedFiles()
    files.make_dir("/data")
    shape = replace(SHAPE, consume_queue_segment_size=20_000)
    return files, ConsumeQueues(files, "/data", shape, HandleCache(files, 64))


def test_flush_round_writes_the_oldest_queues_and_a_full_flush_all() -> None:
    files, queues = simulated_queues()
    for number in range(3 * FEW):
        queues.put(record("T", number, 0, number * 100))
    assert queues.flush_some(3 * FEW, False)
    assert [queue.queue_id for queue in queues.all_queues() if queue.dirty] == list(range(OLDEST, 3 * FEW))
    before = files.calls
    for number in range(3 * FEW):
        queues.put(record("T", number, 1, (3 * FEW + number) * 100))
    assert files.calls == before, "a put writes nothing"
    assert queues.flush_some(3 * FEW, False)
    assert (
        min(queue.queue_id for queue in queues.all_queues() if queue.dirty and queue.queue_id >= OLDEST) == 2 * OLDEST
    )
    assert queues.flush_some(3 * FEW, True)
    assert not any(queue.dirty for queue in queues.all_queues())
    assert all(queue.max_offset == 2 for queue in queues.all_queues())


def test_total_of_unwritten_units_is_limited() -> None:
    _, queues = simulated_queues()
    for number in range(AT_ONCE + 10):
        queues.put(record("T", number, 0, number * 100))
    queues.make_room()
    assert queues._waiting.units == AT_ONCE + 10, "little waits"
    queues._waiting.units += MAX_WAITING // 20 - (AT_ONCE + 10) * (1 + QUEUE_COST // 20) + 1
    queues.make_room()
    assert len([queue for queue in queues.all_queues() if queue.dirty]) == 10


def test_a_whole_round_has_also_what_came_while_an_earlier_one_was_under_way() -> None:
    _, queues = simulated_queues()
    for number in range(10):
        queues.put(record("T", number, 0, number * 100))
    assert not queues.flush_some(4)  # as when all queues together keep too much
    for number in range(10):
        queues.put(record("T", number, 1, 1000 + number * 100))
    queues.begin_round(True)
    while not queues.flush_some(4):
        pass
    assert not any(queue.dirty for queue in queues.all_queues())


def test_a_full_tail_that_cannot_be_written_stops_what_follows_and_loses_nothing() -> None:
    files, queues = simulated_queues()
    for number in range(399):
        queues.put(record("T", 0, number, number * 100))
    files.fail_next("open")
    assert queues.put(record("T", 0, 399, 39_900)), "it is kept in memory"
    files.fail_next("open")
    with pytest.raises(FileFailed):
        queues.make_room()
    queues.make_room()
    assert not queues.stuck
    assert queues.put(record("T", 0, 400, 40_000))
    queue = queues.get("T", 0)
    assert queue is not None
    assert [queue.unit(number) for number in (0, 399, 400)] == [(0, 100, 5), (39_900, 100, 5), (40_000, 100, 5)]
    assert queues._waiting.units == 1
    queues.delete_topic("T")
    assert queues._waiting.units == 0


def test_a_topic_deleted_between_two_flushes_is_not_written(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    for number in range(3):
        queues.put(record("T", number, 0, number * 100))
    queues.put(record("U", 0, 0, 300))
    assert not queues.flush_some(1)
    queues.delete_topic("T")
    queues.flush()
    assert not (tmp_path / "consumequeue/T").exists()
    assert (tmp_path / "consumequeue/U/0" / f"{0:020d}").exists()


def test_records_of_no_queue(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    assert not queues.put(record("T", 0, 0, 0, sys_flag=4))
    assert not queues.put(record("T", 0, 0, 0, sys_flag=12))
    assert queues.get("T", 0) is None
    assert queues.queue_ids("T") == []
    assert queues.max_physical_offset() == -1


def test_names_that_are_no_queues_are_left_alone(tmp_path: Path) -> None:
    for name in ("x", "007", "-1", "1"):
        (tmp_path / "consumequeue/T" / name).mkdir(parents=True)
    (tmp_path / "consumequeue/file").write_bytes(b"")
    queues = open_queues(tmp_path)
    queues.load()
    assert queues.queue_ids("T") == [1]


def test_truncate_reaches_all_queues_beyond(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    for number in range(40):
        queues.put(record("T", number % 4, number // 4, number * 100))
    queues.truncate(2000)
    assert [int(queue.max_offset) for queue in queues.all_queues()] == [5, 5, 5, 5]
    assert queues.max_physical_offset() == 2000


def test_a_deleted_topic_leaves_nothing_and_may_come_back(tmp_path: Path) -> None:
    parts = Parts(tmp_path, shape=replace(SHAPE, enable_consume_queue_ext=True))
    for number in range(12):
        parts.append(put_of("T", number % 2, b"body", tags="a"))
    parts.dispatch()
    parts.queues.flush()
    parts.append(put_of("T", 0, b"waiting", tags="a"))
    parts.dispatch()
    parts.queues.delete_topic("T")
    assert list((tmp_path / "consumequeue").iterdir()) == []
    assert list((tmp_path / "consumequeue_ext").iterdir()) == []
    parts.queues.flush()
    parts.next.clear()
    parts.append(put_of("T", 0, b"new", tags="a"))
    assert parts.dispatch() == [("T", 0, 1)]


def test_bitmaps_are_asked_for_when_switched_on(tmp_path: Path) -> None:
    files = OwnFiles()
    shape = replace(SHAPE, enable_consume_queue_ext=True, enable_calc_filter_bit_map=True)
    asked: list[Dispatch] = []

    def calc(d: Dispatch) -> bytes:
        asked.append(d)
        return b"\x01\x02"

    queues = ConsumeQueues(files, str(tmp_path), shape, HandleCache(files, 4), calc)
    queues.put(record("T", 0, 0, 0))
    queue = queues.get("T", 0)
    assert queue is not None
    assert queue.ext is not None
    unit = queue.unit(0)
    assert unit is not None
    found = queue.ext.unit(unit[2])
    assert found is not None
    assert (found.bitmap, found.tags_code, len(asked)) == (b"\x01\x02", 5, 1)


FOREIGN = [("../../out", 0), ("a/b", 0), ("n\0l", 0), ("", 0), (".", 0), ("..", 0), ("x" * 256, 0), ("T", -1)]


@pytest.mark.parametrize(("topic", "queue_id"), FOREIGN)
def test_a_name_that_leads_elsewhere_gets_no_queue(tmp_path: Path, topic: str, queue_id: int) -> None:
    queues = open_queues(tmp_path / "store")
    for number in range(3):
        assert not queues.put(record(topic, queue_id, number, number * 100))
    assert queues.put(record("T", 0, 0, 300))
    queues.flush()
    assert queues.topics() == ["T"] and queues.refused_records == 3
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(["store", "consumequeue", "T", "0", f"{0:020d}"])
    first, *_ = refusals = queues.take_refusals()
    assert len(refusals) == 3 and queues.take_refusals() == []
    assert "at offset 0 of the log" in first and str(tmp_path) in first


def test_the_names_that_rocketmq_allows_have_queues(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    names = ["T", "%RETRY%" + "g" * 248, "%LMQ%a.b", "T\u00fc", "..."]
    for number, name in enumerate(names):
        assert queues.put(record(name, 0, 0, number * 100))
    queues.flush()
    assert queues.refused_records == 0
