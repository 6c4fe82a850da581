"""Long bodies on their way into the log: they are not copied."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from bolide.layout.record import APART, encode_record
from bolide.store.disk.files import FileFailed
from bolide.store.options import StoreOptions
from proof.kit.small import TINY, shape_of
from tests.store.scenario import START, Machine, message, missing

BIG = shape_of(TINY, mapped_file_size_commit_log=1 << 20)
LONG = StoreOptions(max_message_size=200_000)


class TestLongBodies:
    """Bodies that are written from where they are."""

    def test_long_bodies_are_stored_like_short_ones_by_one_write(self) -> None:
        machine = Machine(options=LONG, shape=BIG)
        calls: list[str] = []
        sizes = [10, APART - 1, APART, 150_000, 7, APART + 1, 0]
        put = [message(number, size=size) for number, size in enumerate(sizes)]
        stored = [machine.store.append(one, START) for one in put]
        machine.files.before_change = calls.append
        machine.write()
        assert calls.count("write_at") == 1
        for one, at in zip(put, stored, strict=True):
            data = machine.store.log.segments.read(at.physical_offset, at.size)
            w = BytesWriter()
            place = {"queue_offset": at.queue_offset, "physical_offset": at.physical_offset}
            encode_record(w, one, store_timestamp=at.store_timestamp, **place)
            assert data == w.getvalue()

    def test_long_bodies_roll_to_the_next_file(self) -> None:
        machine = Machine(options=LONG, shape=BIG)
        stored = [machine.store.append(message(number, size=150_000), START) for number in range(9)]
        machine.write()
        assert stored[-1].physical_offset > 1 << 20
        for number, at in enumerate(stored):
            record = machine.store.record_at(at.physical_offset)
            assert record is not None and record.body == message(number, size=150_000).body

    def test_a_write_that_fails_leaves_nothing_of_them(self) -> None:
        machine = Machine(options=LONG, shape=BIG)
        machine.turn(2)
        end = machine.store.end_offset
        starts = [machine.store.append(message(number, size=100_000), START).physical_offset for number in range(3)]
        machine.files.fail_next("write_at")
        wiped: list[str] = []
        machine.files.before_change = wiped.append
        with pytest.raises(FileFailed):
            machine.write()
        assert wiped.count("write_at") == 1 + len(starts) + 1, "each record, the last one first, then all"
        assert machine.store.end_offset == end
        machine.turn(3)
        assert not missing(machine.store, machine.acknowledged)
