"""Every queue unit, extension unit and index entry of every golden store points to a record, or is known filler."""

from __future__ import annotations

from collections import Counter

from bolide.dispatch.row import Dispatch, in_index, in_queue, index_keys, scan_records
from bolide.layout.checkpoint import decode_checkpoint
from bolide.layout.ext_unit import ext_offset, is_ext_address, read_ext_size, read_ext_unit
from bolide.layout.hashes import index_hash
from bolide.layout.index_file import (
    ENTRY_SIZE,
    decode_index_header,
    entry_position,
    entry_seconds,
    index_file_size,
    read_entry,
    slot_position,
)
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE, read_unit
from tests.golden.stores import GoldenStore


def dispatches(golden: GoldenStore) -> dict[int, Dispatch]:
    found = {}
    for _, data in golden.commit_log():
        for d in scan_records(data, 0, len(data), golden.shape, True, 1 << 40).dispatches:
            found[int(d.physical_offset)] = d
    return found


def test_every_queue_unit_is_known(golden: GoldenStore) -> None:
    records = dispatches(golden)
    kinds: Counter[str] = Counter()
    pointed = set()
    for topic, queue_id, segments in golden.queues():
        ext = (
            dict(golden.segments(f"consumequeue_ext/{topic}/{queue_id}"))
            if golden.shape.enable_consume_queue_ext
            else {}
        )
        for start, data in segments:
            assert len(data) == golden.shape.consume_queue_segment_size
            for at in range(0, len(data), UNIT_SIZE):
                physical_offset, size, tags_code = read_unit(data, at)
                if (physical_offset, size, tags_code) == (0, 0, 0):
                    kinds["empty"] += 1
                    continue
                if size == PRE_BLANK_SIZE:
                    kinds["pre-blank"] += 1
                    continue
                d = records.get(physical_offset)
                assert d is not None, f"{topic} {queue_id} unit {start + at}: unknown"
                assert in_queue(d)
                assert (d.topic, d.queue_id, d.size) == (topic, queue_id, size)
                assert d.queue_offset * UNIT_SIZE == start + at
                if ext:
                    assert is_ext_address(tags_code)
                    where = ext_offset(tags_code)
                    ext_size = golden.shape.consume_queue_ext_segment_size
                    unit = read_ext_unit(ext[where // ext_size * ext_size], where % ext_size)
                    assert unit.store_timestamp == d.store_timestamp
                    tags_code = unit.tags_code
                assert tags_code == d.tags_code
                kinds["record"] += 1
                pointed.add(physical_offset)
    assert kinds["record"] > 400
    wanted = {at for at, d in records.items() if in_queue(d)}
    if not golden.killed:
        assert pointed == wanted


def test_every_extension_unit_is_known(golden: GoldenStore) -> None:
    if not golden.shape.enable_consume_queue_ext:
        assert not (golden.root / "consumequeue_ext").exists()
        return
    units = 0
    for topic, queue_id, segments in golden.queues("consumequeue_ext"):
        addresses = set()
        for _, data in golden.segments(f"consumequeue/{topic}/{queue_id}"):
            addresses |= {ext_offset(read_unit(data, at)[2]) for at in range(0, len(data), UNIT_SIZE)}
        for start, data in segments:
            at = 0
            while (size := read_ext_size(data, at)) > 0:
                assert start + at in addresses
                at += size
                units += 1
            # What is left is nothing, or the mark of a full file and nothing.
            assert not any(data[at + 2 :])
            assert size in (0, -1)
    assert units > 400


def test_every_index_entry_is_known(golden: GoldenStore) -> None:
    records = dispatches(golden)
    keys = {
        at: [index_hash(key) for key in index_keys(d.topic, d.uniq_key, d.keys, d.tags, golden.shape.tags_in_index)]
        for at, d in records.items()
        if in_index(d)
    }
    found: dict[int, list[int]] = {}
    slots = golden.shape.index_slots
    for name, data in golden.index_files():
        assert len(name) == 17
        assert len(data) == index_file_size(slots, golden.shape.index_entries)
        header = decode_index_header(data)
        assert header.encode() == data[:40]
        newest: dict[int, int] = {}
        for number in range(1, header.index_count):
            entry = read_entry(data, entry_position(slots, number))
            d = records[int(entry.physical_offset)]
            assert entry.key_hash in keys[int(entry.physical_offset)]
            found.setdefault(int(entry.physical_offset), []).append(int(entry.key_hash))
            if number > 1:
                assert entry.seconds == entry_seconds(header.begin_timestamp, d.store_timestamp)
            slot = entry.key_hash % slots
            assert entry.previous == newest.get(slot, 0)
            newest[slot] = number
        assert header.slot_count == len(newest)
        for slot in range(slots):
            assert int.from_bytes(data[slot_position(slot) : slot_position(slot) + 4], "big") == newest.get(slot, 0)
        assert not any(data[entry_position(slots, 0) : entry_position(slots, 0) + ENTRY_SIZE])
        assert not any(data[entry_position(slots, header.index_count) :])
    if not golden.killed:
        assert found == {at: hashes for at, hashes in keys.items() if hashes}


def test_checkpoint_names_times_of_the_log(golden: GoldenStore) -> None:
    data = (golden.root / "checkpoint").read_bytes()
    checkpoint = decode_checkpoint(data)
    assert checkpoint.encode() == data
    times = [entry["storeTimestamp"] for entry in golden.log()]
    assert checkpoint.physic_msg_timestamp in times
    assert checkpoint.logics_msg_timestamp in times
    headers = [decode_index_header(data) for _, data in golden.index_files()]
    assert checkpoint.index_msg_timestamp in [header.end_timestamp for header in headers]
    assert checkpoint.min_timestamp == min(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp) - 3000
    if golden.shape.store_version == "4.9":
        assert checkpoint.logics_physical_offset == 0
    else:
        # Even after a clean stop 5.5.0 leaves it some records before the end of the log.
        assert checkpoint.logics_physical_offset in [entry["physicalOffset"] for entry in golden.log()]
    assert (golden.root / "abort").exists() == golden.killed
