"""The scrub finds every damage once, and names it; it finds nothing in a healthy store."""

from __future__ import annotations

import random

import pytest

from bolide.layout.index_file import ENTRY_SIZE, HEADER_SIZE, entry_position
from bolide.layout.queue_unit import UNIT_SIZE
from bolide.layout.record import OFFSET_PHYSICAL
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import BytesUnreadable
from bolide.store.scrub.finding import DamageKind
from bolide.testing.files import SimulatedFiles
from proof.kit.small import TINY, shape_of
from tests.layout.records import message_of
from tests.store.scenario import ROOT, SHAPE, Machine, message, workload
from tests.store.scrub.scrubbed import (
    SEGMENT,
    WEEK,
    Scrubbed,
    filled,
    flip,
    log_place,
    only,
    unit_place,
)

UNIT = {"offset": 7, "size": 11, "tag hash": 19}
"""A byte of each field of a unit."""
ENTRY = {"hash": 3, "offset": 10, "time": 15, "chain": 19}
RECORD = {"length": 2, "magic": 5, "queue id": 15, "queue offset": 27, "its own offset": 35, "body": 90}


def test_healthy_store_has_no_findings() -> None:
    scrubbed = filled()
    assert scrubbed.one_pass() == []
    status = scrubbed.scrub.status()
    assert status.done == status.total == scrubbed.machine.store.end_offset
    assert (status.records, status.units, status.entries) == (100, 100, 200)
    assert scrubbed.news == []


def test_healthy_store_after_restarts_and_crashes_has_no_findings() -> None:
    machine = Machine()
    workload(machine, 120, 3)
    scrubbed = Scrubbed(machine)
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().records == len({one.at.physical_offset for one in machine.acknowledged})


@pytest.mark.parametrize(
    "shape",
    [
        shape_of({**TINY, "enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 256}),
        shape_of({**TINY, "store_version": "4.9"}),
        shape_of({**TINY, "enabled_append_prop_crc": True, "force_verify_prop_crc": True}),
    ],
    ids=["with extensions", "of 4.9", "with a CRC of properties"],
)
def test_healthy_store_of_another_shape_has_no_findings(shape: StoreShape) -> None:
    scrubbed = Scrubbed(Machine(shape=shape))
    for _ in range(20):
        scrubbed.machine.turn(7)
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    status = scrubbed.scrub.status()
    assert (status.records, status.units) == (140, 140)


def test_damaged_extension_is_found() -> None:
    shape = shape_of({**TINY, "enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 256})
    scrubbed = Scrubbed(Machine(shape=shape))
    scrubbed.machine.turn(40)
    scrubbed.seal()
    flip(scrubbed, f"consumequeue_ext/T/1/{256:020}", 9)
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path[:15]) == (DamageKind.UNIT, "consumequeue/T/")


def test_light_queues_are_checked() -> None:
    shape = shape_of({**TINY, "enable_lmq": True, "enable_multi_dispatch": True})
    scrubbed = Scrubbed(Machine(shape=shape))
    store = scrubbed.machine.store
    for number in range(20):
        names = "%LMQ%a,%LMQ%b"
        properties = f"UNIQ_KEY\x01K{number}\x02INNER_MULTI_DISPATCH\x01{names}\x02".encode()
        put = message_of("T", b"body", properties, number % 2, light_queues=names.split(","))
        store.append(put, scrubbed.machine.now)
    scrubbed.machine.write()
    scrubbed.machine.flush()
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().units == 60
    scrubbed.machine.now += WEEK
    flip(scrubbed, f"consumequeue/%LMQ%b/0/{0:020}", 3 * UNIT_SIZE + 7)
    assert only(scrubbed.one_pass()).path == f"consumequeue/%LMQ%b/0/{0:020}"


def test_windows_within_one_file_leave_nothing_out() -> None:
    shape = shape_of({**TINY, "mapped_file_size_commit_log": 64 << 20})
    scrubbed = Scrubbed(Machine(shape=shape))
    machine = scrubbed.machine
    for number in range(45):
        put = message(number, size=1 << 20)
        machine.store.append(put, machine.now)
        machine.write()
        machine.flush()
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    status = scrubbed.scrub.status()
    assert (status.records, status.units, status.entries) == (45, 45, 90)
    machine.now += WEEK
    flip(scrubbed, f"commitlog/{0:020}", 40 << 20)
    flip(scrubbed, f"consumequeue/T/1/{200:020}", 11)
    assert sorted(one.kind for one in scrubbed.one_pass()) == [DamageKind.RECORD, DamageKind.UNIT]
    machine.now += WEEK
    flip(scrubbed, f"commitlog/{0:020}", 40 << 20)
    flip(scrubbed, f"consumequeue/T/1/{200:020}", 11)
    first, last = (int(machine.store.units("T", number % 3, number // 3, 1)[0][0]) for number in (10, 31))
    scrubbed.overwrite(f"commitlog/{0:020}", first, bytes(last - first))
    found = only(scrubbed.one_pass())
    assert (found.kind, found.position, found.size) == (DamageKind.RECORD, first, last - first)


def test_burst_of_damage_is_found_whatever_it_hits() -> None:
    scrubbed = filled()
    scrubbed.one_pass()
    choice = random.Random(5)
    files = scrubbed.machine.files
    for folder in ("commitlog", "consumequeue/T/0", "index"):
        name = files.list_dir(f"{ROOT}/{folder}")[1]
        for _ in range(25):
            path = f"{folder}/{name}"
            before = scrubbed.content(path)
            # times and hosts, together 44 bytes of a record, have no checksum
            size = choice.choice([60, 100] if folder == "commitlog" else [20, 60, 100])
            # only bytes that are in use
            position = choice.randrange(104, 1200) if folder == "index" else choice.randrange(180 - size // 2)
            damage = choice.choice([bytes(size), b"\xff" * size, choice.randbytes(size)])
            scrubbed.overwrite(path, position, damage)
            scrubbed.machine.now += WEEK
            findings = scrubbed.one_pass()
            scrubbed.overwrite(path, 0, before)
            assert findings or damage == before[position : position + size], (path, position, damage)
            if folder != "commitlog":
                assert {one.path for one in findings} == {path}


@pytest.mark.parametrize("field", RECORD)
@pytest.mark.parametrize("number", [0, 40, 41])
def test_damaged_record_is_found(field: str, number: int) -> None:
    scrubbed = filled()
    target = scrubbed.machine.acknowledged[number].at
    path, position = log_place(target.physical_offset)
    flip(scrubbed, path, position + RECORD[field])
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path, found.position, found.size) == (DamageKind.RECORD, path, position, target.size)
    assert found.log_offset == target.physical_offset
    assert scrubbed.news == [f"damage: {found}"]


def test_damaged_topic_is_a_damaged_record() -> None:
    scrubbed = filled()
    target = scrubbed.machine.acknowledged[50].at
    path, position = log_place(target.physical_offset)
    topic = scrubbed.content(path).index(b"\x01T\x00", position)
    flip(scrubbed, path, topic + 1)
    found = only(scrubbed.one_pass())
    assert (found.kind, found.position, found.size) == (DamageKind.RECORD, position, target.size)


@pytest.mark.parametrize("number", [1, 10, 31])
@pytest.mark.parametrize("byte", [RECORD["queue id"], RECORD["queue offset"], RECORD["queue offset"] - 1])
def test_record_that_names_any_other_place_is_the_only_finding(number: int, byte: int) -> None:
    scrubbed = filled()
    path, position = log_place(scrubbed.machine.acknowledged[number].at.physical_offset)
    for bit in range(8):
        flip(scrubbed, path, position + byte, bit)
        scrubbed.machine.now += WEEK
        found = only(scrubbed.one_pass())
        flip(scrubbed, path, position + byte, bit)
        assert (found.kind, found.position) == (DamageKind.RECORD, position), bit


def test_record_that_names_the_unit_of_an_older_one_is_damaged() -> None:
    scrubbed = filled()
    last = scrubbed.machine.acknowledged[99]
    assert (last.put.queue_id, last.at.queue_offset) == (0, 33)
    path, position = log_place(last.at.physical_offset)
    flip(scrubbed, path, position + RECORD["queue offset"])
    found = only(scrubbed.one_pass())
    assert (found.kind, found.position) == (DamageKind.RECORD, position)


def test_record_whose_store_time_is_not_that_of_its_entries_is_damaged() -> None:
    scrubbed = filled()
    target = scrubbed.machine.acknowledged[50].at
    path, position = log_place(target.physical_offset)
    flip(scrubbed, path, position + 61, 1)  # 131 seconds
    found = only(scrubbed.one_pass())
    assert (found.kind, found.position, found.size) == (DamageKind.RECORD, position, target.size)


def test_entry_that_points_to_a_later_file_is_the_only_finding() -> None:
    scrubbed = filled()
    path = f"index/{scrubbed.machine.files.list_dir(f'{ROOT}/index')[0]}"
    position = entry_position(SHAPE.index_slots, 9)
    scrubbed.overwrite(path, position + 4, (SEGMENT + 40).to_bytes(8, "big"))
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path, found.position) == (DamageKind.ENTRY, path, position)


def test_record_that_calls_itself_rolled_back_is_the_only_finding() -> None:
    scrubbed = filled()
    target = scrubbed.machine.acknowledged[22].at
    path, position = log_place(target.physical_offset)
    flip(scrubbed, path, position + 39, 2)
    flip(scrubbed, path, position + 39, 3)
    found = only(scrubbed.one_pass())
    assert (found.kind, found.position, found.size) == (DamageKind.RECORD, position, target.size)


def test_damaged_last_record_of_the_sealed_log_is_one_finding() -> None:
    scrubbed = filled()
    target = scrubbed.machine.acknowledged[-1].at
    path, position = log_place(target.physical_offset)
    scrubbed.overwrite(path, position + 3, bytes([57]))  # a length that is too short
    found = only(scrubbed.one_pass())
    assert (found.kind, found.position, found.size) == (DamageKind.RECORD, position, target.size)


def test_zeroed_records_are_one_finding() -> None:
    scrubbed = filled()
    first, last = scrubbed.machine.acknowledged[30].at, scrubbed.machine.acknowledged[33].at
    path, position = log_place(first.physical_offset)
    size = last.end_offset - first.physical_offset
    scrubbed.overwrite(path, position, bytes(size))
    found = only(scrubbed.one_pass())
    assert (found.kind, found.position, found.size) == (DamageKind.RECORD, position, size)


def test_zeros_from_a_record_to_the_end_of_its_file_are_found() -> None:
    scrubbed = filled()
    target = scrubbed.machine.acknowledged[25].at
    path, position = log_place(target.physical_offset)
    scrubbed.overwrite(path, position, bytes(SEGMENT - position))
    found = only(scrubbed.one_pass())
    assert (found.kind, found.position, found.size) == (DamageKind.RECORD, position, SEGMENT - position)


@pytest.mark.parametrize("field", UNIT)
@pytest.mark.parametrize("number", [0, 7, 55])
def test_damaged_unit_is_found(field: str, number: int) -> None:
    scrubbed = filled()
    target = scrubbed.machine.acknowledged[number]
    path, position = unit_place(target)
    flip(scrubbed, path, position + UNIT[field])
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path, found.position, found.size) == (DamageKind.UNIT, path, position, UNIT_SIZE)
    assert found.log_offset == target.at.physical_offset


@pytest.mark.parametrize("field", ENTRY)
@pytest.mark.parametrize("number", [2, 30, 63])
def test_damaged_index_entry_is_found(field: str, number: int) -> None:
    scrubbed = filled()
    path = f"index/{scrubbed.machine.files.list_dir(f'{ROOT}/index')[1]}"
    position = entry_position(SHAPE.index_slots, number)
    flip(scrubbed, path, position + ENTRY[field], 1)
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path, found.position, found.size) == (DamageKind.ENTRY, path, position, ENTRY_SIZE)


@pytest.mark.parametrize("position", [7, 35, 39, HEADER_SIZE + 3, HEADER_SIZE + 4 * 15 + 3])
def test_damaged_header_or_slot_of_a_full_index_file_is_found(position: int) -> None:
    scrubbed = filled()
    path = f"index/{scrubbed.machine.files.list_dir(f'{ROOT}/index')[0]}"
    flip(scrubbed, path, position)
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path) == (DamageKind.ENTRY, path)
    assert found.position <= position < found.position + found.size


def test_every_flipped_bit_is_at_most_one_finding_that_contains_it() -> None:
    scrubbed = filled()
    scrubbed.one_pass()
    choice = random.Random(11)
    files = scrubbed.machine.files
    folders = ["commitlog", *(f"consumequeue/T/{queue}" for queue in range(3)), "index"]
    paths = [f"{folder}/{name}" for folder in folders for name in files.list_dir(f"{ROOT}/{folder}")]
    sealed = scrubbed.machine.store.maintenance.sealed.offset
    hits = 0
    for _ in range(150):
        path = choice.choice(paths)
        position = choice.randrange(len(scrubbed.content(path)))
        if path.startswith("commitlog") and int(path[10:]) + position >= sealed:
            continue
        bit = choice.randrange(8)
        flip(scrubbed, path, position, bit)
        scrubbed.machine.now += WEEK
        findings = scrubbed.one_pass()
        flip(scrubbed, path, position, bit)
        assert len(findings) <= 1, (path, position, [str(one) for one in findings])
        # A record and its index entry differ: without a checksum of the record's properties, the entry is named.
        hits += sum(one.path == path and one.position <= position < one.position + one.size for one in findings)
    assert hits > 75


def test_missing_log_file_is_found() -> None:
    scrubbed = filled()
    scrubbed.machine.files.remove(f"{ROOT}/commitlog/{SEGMENT:020}")
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path, found.position, found.size) == (
        DamageKind.MISSING,
        f"commitlog/{SEGMENT:020}",
        0,
        SEGMENT,
    )


def test_missing_queue_file_is_found() -> None:
    scrubbed = filled()
    scrubbed.machine.files.remove(f"{ROOT}/consumequeue/T/1/{200:020}")
    found = scrubbed.one_pass()
    assert {(one.kind, one.path) for one in found} == {(DamageKind.MISSING, f"consumequeue/T/1/{200:020}")}


class BadSectors(SimulatedFiles):
    """A disk that fails each read of some bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: dict[str, tuple[int, int]] = {}

    def scan(self, path: str, offset: int, size: int) -> bytes:
        begin, end = self.bad.get(path.removeprefix(f"{ROOT}/"), (0, 0))
        if offset < end and begin < offset + size:
            raise BytesUnreadable(f"cannot read {path}: Input/output error")
        return super().scan(path, offset, size)


def test_unreadable_bytes_of_the_log_are_found() -> None:
    disk = BadSectors()
    shape = shape_of({**TINY, "mapped_file_size_commit_log": 1 << 16})
    scrubbed = Scrubbed(Machine(disk, shape=shape))
    for _ in range(100):
        scrubbed.machine.turn(3)
    scrubbed.seal()
    path = f"commitlog/{0:020}"
    disk.bad[path] = (8192, 12288)
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path) == (DamageKind.UNREADABLE, path)
    assert "Input/output error" in found.sentence
    starts = [one.at for one in scrubbed.machine.acknowledged]
    lost = [one for one in starts if one.physical_offset < 12288 and one.end_offset > 8192]
    assert (found.position, found.size) == (
        lost[0].physical_offset,
        lost[-1].end_offset - lost[0].physical_offset,
    )
    disk.bad.clear()
    scrubbed.machine.now += WEEK
    assert scrubbed.one_pass() == []


@pytest.mark.parametrize("folder", ["consumequeue/T/1", "index"])
def test_unreadable_bytes_of_queue_and_index_are_found(folder: str) -> None:
    disk = BadSectors()
    scrubbed = Scrubbed(Machine(disk))
    for _ in range(30):
        scrubbed.machine.turn(5)
    scrubbed.seal()
    path = f"{folder}/{disk.list_dir(f'{ROOT}/{folder}')[1]}"
    disk.bad[path] = (0, 4096)
    found = scrubbed.one_pass()
    assert {(one.kind, one.path) for one in found} == {(DamageKind.UNREADABLE, path)}


def test_read_that_fails_once_is_found() -> None:
    scrubbed = filled()
    error = BytesUnreadable("cannot read the file: Input/output error")
    scrubbed.machine.files.fail_next("scan", error)
    scrubbed.machine.files.fail_next("scan", error)  # the page, after the chunk
    found = only(scrubbed.one_pass())
    assert (found.kind, found.path, found.sentence) == (DamageKind.UNREADABLE, f"commitlog/{0:020}", str(error))
    scrubbed.machine.now += WEEK
    assert scrubbed.one_pass() == []


def test_own_offset_is_at_the_place_that_the_tests_damage() -> None:
    assert RECORD["its own offset"] == OFFSET_PHYSICAL + 7
