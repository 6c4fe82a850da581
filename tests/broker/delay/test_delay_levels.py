"""Delayed messages: when each is delivered and as what, what a restart resumes, and what the file may say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.cursor.queue_cursor import BYTES_AT_ONCE, MAX_UNCONFIRMED, UNITS_AT_ONCE
from bolide.layout.ext_unit import is_ext_address
from bolide.layout.names import SCHEDULE_TOPIC
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.store.disk.files import FileFailed
from bolide.testing.files import SimulatedFiles
from tests.broker.delay.delaying import LEVELS, Delaying
from tests.broker.parts import NOW, again, message, properties_of, reply_of, send_request, text
from tests.store.parts import ColdFiles


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Delaying]:
    made = Delaying(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("level", [1, 3, 18])
def test_a_message_comes_when_its_time_has_come_and_no_earlier(parts: Delaying, level: int) -> None:
    parts.delayed(level)
    parts.tick(NOW + LEVELS[level - 1] - 1)
    assert parts.delivered() == []
    parts.tick(NOW + LEVELS[level - 1])
    (record,) = parts.delivered()
    (scheduled,) = parts.records(SCHEDULE_TOPIC, level - 1)
    assert (record.body, record.flag, record.born_timestamp) == (b"late", 4, 7)
    assert record.born_host == scheduled.born_host
    assert (record.queue_offset, record.reconsume_times) == (0, 0)
    stored = properties_of(record)
    assert (stored["DELAY"], stored["REAL_TOPIC"], stored["REAL_QID"]) == (str(level), "T", "2")
    assert (stored["TAGS"], stored["KEYS"], stored["UNIQ_KEY"]) == ("a", "k", "U")
    parts.tick(NOW + LEVELS[level - 1] + 100)
    assert len(parts.delivered()) == 1


@pytest.mark.parametrize("queue_id", ["x", "-1", "2147483648", "\u0663", "1" * 200])
def test_a_message_for_no_queue_holds_up_nobody(parts: Delaying, queue_id: str) -> None:
    """Only another's store can hold one: what a producer says of REAL_QID is written over."""
    properties = {"REAL_TOPIC": "T", "REAL_QID": queue_id}
    parts.writer.put(message(SCHEDULE_TOPIC, 0, b"astray", text(**properties)), NOW)
    parts.delayed(1)
    parts.tick(NOW + 5_000)
    assert [record.body for record in parts.delivered()] == [b"late"]


@pytest.mark.parametrize("lost", [False, True])
def test_where_units_have_extensions_these_hold_the_time(tmp_path: Path, lost: bool) -> None:
    parts = Delaying(tmp_path, enable_consume_queue_ext=True)
    parts.delayed(3)
    (unit,) = parts.store.units(SCHEDULE_TOPIC, 2, 0, 1)
    assert is_ext_address(unit[2])
    assert parts.store.tags_code(SCHEDULE_TOPIC, 2, unit[2]) == NOW + LEVELS[2]
    if lost:
        queue = parts.store.queues.get(SCHEDULE_TOPIC, 2)
        assert queue is not None and queue.ext is not None
        queue.ext.clear()
    parts.tick(NOW + LEVELS[2] - 1)
    assert parts.delivered() == []
    parts.tick(NOW + LEVELS[2])
    assert len(parts.delivered()) == 1
    parts.close()


def test_it_looks_every_tenth_of_a_second_and_at_once_while_there_is_more(parts: Delaying) -> None:
    for number in range(5):
        parts.delayed(1, b"%d" % number)
    parts.tick(NOW + 1000, budget=2)
    assert parts.service.due(NOW) == NOW + 1000
    assert [record.body for record in parts.delivered()] == [b"0", b"1"]
    parts.tick(NOW + 1000)
    assert parts.service.due(NOW) == NOW + 1100
    assert [record.body for record in parts.delivered()] == [b"0", b"1", b"2", b"3", b"4"]


def test_it_looks_at_nothing_while_no_message_waits(parts: Delaying) -> None:
    assert parts.service.due(NOW) is None
    parts.delayed(1)
    parts.settle()
    assert parts.service.due(NOW) is not None
    parts.tick(NOW + 1000)
    assert parts.service.due(NOW + 1000) is not None, "its progress is not in the file"
    parts.flush()
    parts.tick(NOW + 120_000)
    assert parts.service.due(NOW + 120_000) is None
    parts.delayed(2, now=NOW + 120_000)
    parts.settle()
    assert parts.service.due(NOW + 120_000) == NOW + 120_100


def test_a_restart_goes_on_where_the_file_says(parts: Delaying) -> None:
    for level in (1, 1, 2):
        parts.delayed(level)
    parts.tick(NOW + 1000)
    parts.flush()
    assert parts.progress() == {"1": 2}
    stored = parts.service.encode()
    parts.start_service(stored, NOW + 10_000)
    parts.tick(NOW + 20_000)  # down while the second level came due
    parts.flush()
    assert len(parts.delivered()) == 3
    assert parts.progress() == {"1": 2, "2": 1}
    assert parts.service.behind()[2] == (1, 1)


def test_progress_beyond_the_queue_is_set_back_before_anything_is_stored(parts: Delaying) -> None:
    """All messages of the level had expired, and a power cut took the units: its queue begins at 0 once more."""
    parts.start_service(b'{"offsetTable":{"1":1,"2":0}}')
    assert parts.service.cut(NOW)
    stored = parts.service.encode()
    parts.delayed(1)
    parts.start_service(stored)  # killed before anything else was written
    assert not parts.service.cut(NOW)
    parts.tick(NOW + 1000)
    assert len(parts.delivered()) == 1


def test_the_file_of_java_is_read_and_levels_beyond_the_table_are_passed_over(parts: Delaying) -> None:
    for _ in range(3):
        parts.delayed(1)
    parts.start_service(b'{"dataVersion":{"counter":1,"timestamp":5},"offsetTable":{1:2,19:7,0:3}}')
    parts.tick(NOW + 1000)
    assert len(parts.delivered()) == 1
    parts.flush()
    assert parts.progress() == {"1": 3}


def test_the_file_is_asked_for_every_ten_seconds_when_something_was_delivered(parts: Delaying) -> None:
    parts.tick(NOW + 10_000)
    assert "delayOffset" not in parts.effects.persists
    parts.delayed(1)
    parts.tick(NOW + 11_000)
    assert "delayOffset" not in parts.effects.persists
    parts.flush()
    parts.tick(NOW + 20_000)
    assert "delayOffset" in parts.effects.persists
    parts.effects.persists.clear()
    parts.tick(NOW + 30_000)
    assert "delayOffset" not in parts.effects.persists


def test_the_file_never_says_more_than_the_log_has(parts: Delaying) -> None:
    """A file ahead of the log would lose the message; a file that lags delivers it twice."""
    parts.delayed(1)
    parts.service.tick(NOW + 1000, 1000)  # appended, and in no file yet
    assert parts.progress() == {}
    parts.settle()
    parts.tick(NOW + 1100)
    assert parts.progress() == {}  # the file is synced, and a power cut would take the record that is not
    parts.flush()
    assert parts.progress() == {"1": 1}


def test_the_file_is_written_once_the_log_has_caught_up(parts: Delaying) -> None:
    parts.delayed(1)
    parts.tick(NOW + 10_000)
    parts.tick(NOW + 20_000)
    assert "delayOffset" not in parts.effects.persists
    parts.flush()
    parts.tick(NOW + 30_000)
    assert "delayOffset" in parts.effects.persists


def test_what_the_store_does_not_take_is_tried_again(parts: Delaying) -> None:
    parts.delayed(1)
    parts.store.log.max_message_size = 1  # refuses every body from now on
    parts.tick(NOW + 1000)
    assert parts.service.failures == 1 and parts.delivered() == []
    parts.store.log.max_message_size = 1 << 22
    parts.tick(NOW + 1100)
    assert len(parts.delivered()) == 1


def test_all_offsets_are_told(parts: Delaying) -> None:
    parts.delayed(1)
    parts.tick(NOW + 1000)
    parts.flush()
    answer = reply_of(parts.service.on_all(parts.channel, make_request(codes.GET_ALL_DELAY_OFFSET, 1), NOW))
    assert json.loads(answer.body)["offsetTable"] == {"1": 1}


class Failing(Delaying):
    """The parts on a disk whose writes can fail."""

    def __init__(self) -> None:
        self.files = SimulatedFiles()
        super().__init__(Path("/store"), files=self.files)

    def failed_turn(self, now: int) -> None:
        """A turn with a tick, whose write fails."""
        self.service.tick(now, 1000)
        self.files.fail_next("write_at")
        with pytest.raises(FileFailed):
            self.settle()
        self.files.faults_over()

    def bodies(self, queue_id: int = 2) -> list[bytes]:
        found = []
        for physical_offset, size, _ in self.store.units("T", queue_id, 0, 1 << 20):
            record = self.store.record_at(physical_offset, size)
            assert record is not None
            found.append(record.body)
        return found


@pytest.fixture
def failing() -> Iterator[Failing]:
    made = Failing()
    yield made
    made.close()


def test_what_a_failed_write_took_back_is_delivered_again(failing: Failing) -> None:
    for level in (1, 2, 1):
        failing.delayed(level, b"level %d" % level)
    failing.failed_turn(NOW + 5_000)
    assert failing.bodies() == []
    assert failing.service.behind()[1] == (0, 2) and failing.service.behind()[2] == (0, 1)
    # Where the deliveries were, something else is stored now: its confirmation is not theirs.
    failing.answer(send_request(body=b"x" * 2_000))
    failing.flush()
    assert failing.progress() == {}
    failing.tick(NOW + 6_000)
    assert sorted(failing.bodies()) == [b"level 1", b"level 1", b"level 2"]
    failing.flush()
    assert failing.progress() == {"1": 2, "2": 1}


def test_a_store_that_could_not_write_is_left_alone_for_a_second(failing: Failing) -> None:
    failing.delayed(1)
    failing.failed_turn(NOW + 1_000)
    assert failing.service.due(NOW + 1_001) == NOW + 2_000
    failing.tick(NOW + 1_999)
    assert failing.bodies() == []
    failing.tick(NOW + 2_000)
    assert failing.bodies() == [b"late"]


def test_what_was_written_before_is_not_delivered_twice(failing: Failing) -> None:
    failing.delayed(1, b"first")
    failing.tick(NOW + 1_000)
    failing.delayed(1, b"second", NOW + 1_000)
    failing.failed_turn(NOW + 2_000)
    failing.tick(NOW + 4_000)
    assert failing.bodies() == [b"first", b"second"]


def test_what_was_written_of_a_turn_whose_second_write_failed_stays(failing: Failing) -> None:
    """The turn fills a file of the log and begins the next: two writes."""
    bodies = [b"%d" % number * 300_000 for number in range(4)]
    for body in bodies:
        failing.delayed(1, body)
    writes: list[str] = []

    def second_write_fails(call: str) -> None:
        if call == "write_at":
            writes.append(call)
            if len(writes) == 2:
                failing.files.fail_next("write_at")

    failing.service.tick(NOW + 1_000, 1000)
    failing.files.before_change = second_write_fails
    with pytest.raises(FileFailed):
        failing.settle()
    failing.files.before_change = None
    failing.settle()
    assert failing.bodies() == bodies[:2]
    failing.tick(NOW + 3_000)
    assert failing.bodies() == bodies


def test_a_turn_that_came_to_no_write_may_still_fail(failing: Failing) -> None:
    """Something else raised between the append and the write: the next turn writes both, or loses both."""
    failing.delayed(1)
    failing.service.tick(NOW + 1_000, 1000)
    failing.failed_turn(NOW + 1_100)
    failing.tick(NOW + 3_000)
    assert failing.bodies() == [b"late"]


def test_a_write_that_fails_as_the_store_closes_is_delivered_at_the_next_start() -> None:
    first = Failing()
    first.delayed(1)
    first.service.tick(NOW + 1_000, 1000)
    first.files.fail_next("write_at")
    with pytest.raises(FileFailed):
        first.close()
    assert first.progress() == {}


def test_a_crowd_is_delivered_in_turns_without_a_pause(parts: Delaying) -> None:
    for number in range(UNITS_AT_ONCE + 3):
        parts.delayed(1, b"%d" % number)
    parts.settle()
    parts.tick(NOW + 1000)
    assert parts.store.max_queue_offset("T", 2) == UNITS_AT_ONCE
    assert parts.service.due(NOW + 1000) == NOW + 1000
    parts.tick(NOW + 1000)
    assert parts.store.max_queue_offset("T", 2) == UNITS_AT_ONCE + 3
    assert parts.service.due(NOW + 1000) == NOW + 1100


def test_a_long_level_keeps_no_other_waiting(parts: Delaying) -> None:
    for number in range(20):
        parts.delayed(1, b"%d" % number)
    parts.delayed(2, b"other")
    parts.tick(NOW + 5_000, budget=4)
    parts.tick(NOW + 5_000, budget=4)
    assert b"other" in [record.body for record in parts.delivered()]


def test_one_turn_stores_no_more_than_some_megabytes(tmp_path: Path) -> None:
    parts = Delaying(tmp_path)
    body = b"x" * (BYTES_AT_ONCE // 8)
    for _ in range(10):
        parts.delayed(1, body)
    parts.tick(NOW + 1000)
    assert parts.store.max_queue_offset("T", 2) == 7
    assert parts.service.due(NOW + 1000) == NOW + 1000
    parts.tick(NOW + 1000)
    assert parts.store.max_queue_offset("T", 2) == 10
    parts.close()


def test_records_that_are_not_in_memory_are_read_in_the_pool(failing: Failing) -> None:
    failing.delayed(1)
    failing.delayed(2, b"other")
    for folder in ("/store/commitlog", f"/store/consumequeue/{SCHEDULE_TOPIC}/0"):
        failing.store.queues.flush(True)
        failing.files.cold.update(f"{folder}/{name}" for name in failing.files.list_dir(folder))
    ticks = 0
    while len(failing.bodies()) < 2 and ticks < 9:
        ticks += 1
        failing.tick(NOW + 5_000)
        for extents, then in failing.effects.take().loads:
            for extent in extents:
                failing.files.warm(extent.path, extent.offset, extent.size)
            then(NOW + 5_000)
            assert failing.service.due(NOW) == NOW + 5_000
    assert sorted(failing.bodies()) == [b"late", b"other"]
    assert ticks > 1


class CountingFiles(ColdFiles):
    """Remembers which cold bytes were read with the loop waiting for them."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[str] = []

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        path = self._paths[handle]
        if self.cold and any((path, at) not in self.warmed for at in range(offset, offset + size)):
            self.waited.append(path)
        return super().read_at(handle, size, offset)


def test_what_was_loaded_is_delivered_though_more_is_due_by_then(tmp_path: Path) -> None:
    files = CountingFiles()
    parts = Delaying(tmp_path, files=files)
    parts.delayed(1, b"first")
    files.cold = True
    parts.tick(NOW + 1_000)
    ((extents, then),) = parts.effects.take().loads
    parts.delayed(1, b"second")  # its bytes are cold, and lie right behind
    for extent in extents:
        files.warm(extent.path, extent.offset, extent.size)
    then(NOW + 5_000)
    parts.service.tick(NOW + 5_000, 1000)
    assert files.waited == []
    assert len(parts.effects.loads) == 1
    files.cold = False
    parts.settle()
    assert [record.body for record in parts.delivered()] == [b"first"]
    parts.close()


def test_a_topic_that_is_none_holds_up_nobody(parts: Delaying) -> None:
    """Only a log from another's hand has one: it is left out, and said."""
    parts.delayed(1, b"bad")
    (record,) = parts.records(SCHEDULE_TOPIC, 0)
    for topic in ("../../T", "SCHEDULE_TOPIC_XXXX", "T\0", "x" * 128):
        parts.writer.put(again(record, SCHEDULE_TOPIC, 0, text(REAL_TOPIC=topic, REAL_QID="2", DELAY="none")), NOW)
    parts.delayed(1, b"good")
    parts.tick(NOW + 5_000)
    assert [record.body for record in parts.delivered()] == [b"bad", b"good"]
    assert "names no queue" in parts.store.maintenance.take_problem()


def test_a_log_that_waits_for_the_disk_makes_deliveries_wait(failing: Failing) -> None:
    failing.delayed(1)
    failing.store.replicated_offset = failing.store.end_offset
    for _ in range(MAX_UNCONFIRMED // 900_000 + 1):
        failing.answer(send_request(body=b"x" * 900_000))
    end = failing.store.end_offset
    failing.tick(NOW + 1_000)
    assert failing.store.end_offset == end and failing.service.due(NOW + 1_000) == NOW + 1_100
    failing.store.replicated_offset = -1
    failing.tick(NOW + 1_100)
    assert failing.bodies() == [b"late"]


def test_a_slave_delivers_nothing_and_a_master_goes_on_where_the_last_one_was(parts: Delaying) -> None:
    parts.delayed(1, b"first")
    parts.delayed(1, b"second")
    parts.role.become("SLAVE", 1, NOW)
    parts.service.role_changed(parts.role, NOW)
    assert parts.service.due(NOW) is None
    parts.tick(NOW + 2_000)
    assert parts.delivered() == []
    parts.service.follow(b'{"offsetTable":{1:1}}')  # the master delivered one
    parts.role.become("SYNC_MASTER", 0, NOW + 2_000)
    parts.service.role_changed(parts.role, NOW + 2_000)
    assert parts.service.due(NOW + 2_000) == NOW + 2_000
    parts.tick(NOW + 2_000)
    assert [record.body for record in parts.delivered()] == [b"second"]


def test_what_was_delivered_and_is_not_certain_is_delivered_again_after_a_change_of_roles(parts: Delaying) -> None:
    parts.delayed(1)
    parts.service.tick(NOW + 2_000, 1000)
    for role in ("SLAVE", "ASYNC_MASTER"):
        parts.role.become(role, 1, NOW + 2_000)
        parts.service.role_changed(parts.role, NOW + 2_000)
    parts.tick(NOW + 2_000)
    assert len(parts.delivered()) == 2
