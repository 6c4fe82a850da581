"""The age of the oldest message that a group has not consumed, and that nobody waits for the disk to know it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.operator.lag_times import READS_AT_ONCE, ROUND_MS, TRIES, LagTimes
from bolide.store.disk.files import FileFailed
from tests.broker.parts import NOW, Parts, send_request
from tests.store.parts import ColdFiles


class CountedFiles(ColdFiles):
    """Files that count reads of the log, and that can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.failing = False

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        self.reads += 1
        if self.failing:
            raise FileFailed("EIO")
        return super().read_warm(handle, size, offset)


class Lagging(Parts):
    def __init__(self, folder: Path) -> None:
        self.disk = CountedFiles()
        super().__init__(folder, self.disk)
        self.lag = LagTimes(self.store, self.offsets, self.effects, NOW)
        self.now = NOW
        self.loads = 0

    def stored(self, topic: str, queue_id: int, at: int) -> None:
        self.answer(send_request(topic, e=str(queue_id)), at)

    def committed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.offsets.commit(group, topic, queue_id, offset, self.now)

    def round(self, now: int, loads: bool = True) -> None:
        """Let the service work until it waits for the next round."""
        self.now = now
        while (due := self.lag.due(now)) is None or due <= now:
            if due is not None:
                self.lag.tick(now, 1000)
            for extents, then in self.effects.take().loads:
                self.loads += 1
                for extent in extents if loads else ():
                    self.disk.warm(extent.path, extent.offset, extent.size)
                then(now)

    def age(self, topic: str = "T", group: str = "g") -> int:
        return self.lag.age(topic, group, self.now)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Lagging]:
    made = Lagging(tmp_path)
    yield made
    made.close()


def fill(parts: Lagging) -> None:
    """Three messages in queue 0 of T, one second apart, and one in queue 1 that is older."""
    parts.stored("T", 1, NOW)
    for number in range(3):
        parts.stored("T", 0, NOW + 1_000 * (number + 1))


def test_age_is_that_of_the_oldest_message_not_consumed(parts: Lagging) -> None:
    fill(parts)
    parts.committed("g", "T", 0, 1)
    parts.committed("g", "T", 1, 1)
    parts.committed("all", "T", 0, 3)
    parts.round(NOW + 10_000)
    assert (parts.age(), parts.age(group="all"), parts.age(group="none")) == (8_000, 0, 0)
    parts.now += 500
    assert parts.age() == 8_500, "it grows between rounds"
    parts.committed("g", "T", 0, 2)
    parts.committed("g", "T", 1, 0)
    parts.round(NOW + 20_000)
    assert parts.age() == 20_000, "the queue that is furthest behind counts"
    parts.committed("g", "T", 0, 3)
    parts.committed("g", "T", 1, 1)
    parts.round(NOW + 30_000)
    assert parts.age() == 0
    assert parts.loads == 0


def test_round_starts_every_ten_seconds_and_reads_only_what_moved(parts: Lagging) -> None:
    fill(parts)
    parts.committed("g", "T", 0, 1)
    parts.committed("g", "T", 1, 0)
    parts.round(NOW)
    assert parts.lag.due(NOW) == NOW + ROUND_MS
    parts.disk.reads = 0
    parts.round(NOW + ROUND_MS)
    assert parts.disk.reads == 0
    parts.committed("g", "T", 0, 2)
    parts.round(NOW + 2 * ROUND_MS)
    assert parts.disk.reads > 0
    assert parts.age() == 2 * ROUND_MS


def test_messages_not_in_memory_are_loaded_by_the_pool(parts: Lagging) -> None:
    fill(parts)
    parts.committed("g", "T", 0, 0)
    parts.disk.cold = True
    parts.store.log.tail.clear()
    parts.lag.tick(NOW + 5_000, 1000)
    assert parts.lag.due(NOW + 5_000) is None, "the loop does not wait for the disk"
    parts.round(NOW + 5_000)
    assert (parts.loads, parts.age()) == (1, 4_000)


def test_messages_that_leave_memory_again_are_left_to_the_next_round(parts: Lagging) -> None:
    fill(parts)
    parts.committed("g", "T", 0, 0)
    parts.disk.cold = True
    parts.store.log.tail.clear()
    parts.round(NOW + 5_000, loads=False)
    assert (parts.loads, parts.age()) == (TRIES, 0)
    parts.round(NOW + 15_000)
    assert parts.age() == 14_000


def test_failing_disk_does_not_end_a_round(parts: Lagging) -> None:
    fill(parts)
    parts.committed("g", "T", 0, 0)
    parts.disk.failing = True
    parts.store.log.tail.clear()
    parts.round(NOW + 5_000)
    assert parts.age() == 0
    parts.disk.failing = False
    parts.round(NOW + 15_000)
    assert parts.age() == 14_000


def test_many_queues_take_several_steps(parts: Lagging) -> None:
    fill(parts)
    for number in range(READS_AT_ONCE + 1):
        parts.committed(f"g{number}", "T", 0, 0)
    parts.lag.tick(NOW + 5_000, 1000)
    assert parts.lag.due(NOW + 5_000) == NOW + 5_000
    assert parts.lag.age("T", "g0", NOW + 5_000) == 0, "a round is shown once it is whole"
    parts.round(NOW + 5_000)
    assert {parts.age(group=f"g{number}") for number in range(READS_AT_ONCE + 1)} == {4_000}


def test_deleted_topic_and_removed_group_have_no_age(parts: Lagging) -> None:
    fill(parts)
    parts.committed("g", "T", 0, 0)
    parts.committed("h", "T", 0, 0)
    parts.round(NOW + 5_000)
    parts.offsets.remove_group("h", NOW)
    parts.round(NOW + 15_000)
    assert (parts.age(), parts.age(group="h")) == (14_000, 0)
    parts.lag.forget_topic("T")
    assert parts.age() == 0


def test_offset_before_the_oldest_message_counts_from_that(parts: Lagging) -> None:
    fill(parts)
    parts.committed("g", "T", 0, 0)
    queue = parts.store.queues.get("T", 0)
    assert queue is not None
    queue.min_offset = 2
    parts.round(NOW + 5_000)
    assert parts.age() == 2_000
