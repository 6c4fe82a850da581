"""Queue offsets in light queues (LMQ): given at append, kept over stops and power cuts, taken back on failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import decode_record, decode_records
from bolide.layout.shape import ShapeOptions
from bolide.store.disk.files import FileFailed
from bolide.store.errors import MessageIllegal
from bolide.store.message_store import Appended, BrokerMessage, MessageStore
from bolide.store.offline.inspect import shape_of
from bolide.store.offline.verify import verify_store
from proof.kit.small import TINY
from tests.layout.records import message_of
from tests.store.scenario import ALL, ROOT, SHAPE, START, Machine

LMQ = replace(SHAPE, multi_dispatch=True)
EXT = replace(LMQ, enable_consume_queue_ext=True, consume_queue_ext_segment_size=256)


def put(number: int, *names: str, topic: str = "T", size: int = 10) -> BrokerMessage:
    """A message of one topic, listed to light queues."""
    properties = f"UNIQ_KEY\x01K{number}\x02"
    if names:
        properties += f"INNER_MULTI_DISPATCH\x01{','.join(names)}\x02"
    body = b"%d" % number + bytes(size)
    multi = list(names) if names else None
    return message_of(topic, body, properties.encode(), number % 2, born_timestamp=START, light_queues=multi)


def machine(**settings: object) -> Machine:
    return Machine(shape=LMQ, **settings)  # type: ignore[arg-type]  # whatever a test gives


def turn(m: Machine, *puts: BrokerMessage) -> list[Appended]:
    stored = [m.store.append(one, m.now) for one in puts]
    m.write()
    m.flush()
    return stored


def bodies(store: MessageStore, topic: str, queue_id: int = 0) -> list[int]:
    """The numbers of the messages of a queue, from its oldest on."""
    found = store.read(topic, queue_id, store.min_queue_offset(topic, queue_id), max_count=100, max_bytes=ALL)
    return [int(record.body.rstrip(b"\0")) for record in decode_records(b"".join(found.buffers))]


def offsets_of(store: MessageStore, at: Appended) -> str:
    record = store.record_at(at.physical_offset)
    assert record is not None
    return parse_properties_bytes(record.properties)["INNER_MULTI_QUEUE_OFFSET"]


def test_a_message_enters_every_queue_it_lists() -> None:
    m = machine()
    first, second, third = turn(m, put(1, "%LMQ%a", "%LMQ%b"), put(2, "%LMQ%b"), put(3, "%LMQ%b", "%LMQ%a"))
    assert [offsets_of(m.store, at) for at in (first, second, third)] == ["0,0", "1", "2,1"]
    assert (bodies(m.store, "%LMQ%a"), bodies(m.store, "%LMQ%b")) == ([1, 3], [1, 2, 3])
    assert (m.store.max_queue_offset("%LMQ%b", 0), m.store.next_queue_offset("%LMQ%b", 0)) == (3, 3)
    assert m.store.max_queue_offset("%LMQ%c", 0) == 0


def test_arrivals_name_the_light_queues_too() -> None:
    m = machine()
    m.store.append(put(2, "%LMQ%a", "%LMQ%b"), m.now)
    m.write()
    m.store.flushed(m.store.flush_target(m.now))
    arrived = [(a.topic, a.queue_id, a.max_offset) for a in m.store.dispatch(ALL, m.now)]
    assert arrived == [("T", 0, 1), ("%LMQ%a", 0, 1), ("%LMQ%b", 0, 1)]


def test_a_batch_numbers_its_elements_one_after_the_other() -> None:
    m = machine()
    stored = m.store.append_batch([put(1), put(2, "%LMQ%a"), put(3, "%LMQ%a", "%LMQ%b")], m.now)
    m.write()
    m.flush()
    assert [offsets_of(m.store, at) for at in stored[1:]] == ["0", "1,0"]
    assert (bodies(m.store, "%LMQ%a"), bodies(m.store, "%LMQ%b")) == ([2, 3], [3])


@pytest.mark.parametrize("end", ["restart", "crash", "power_cut"])
def test_numbers_go_on_after_a_stop(end: str) -> None:
    m = machine()
    for number in range(60):
        turn(m, put(number, f"%LMQ%{number % 7}", "%LMQ%all"))
        if number == 30:
            m.tick()
    m.power_cut(3) if end == "power_cut" else getattr(m, end)()
    assert bodies(m.store, "%LMQ%3") == list(range(3, 60, 7))
    assert len(m.store.units("%LMQ%all", 0, 0, 100)) == 60
    assert m.store.max_queue_offset("%LMQ%all", 0) == m.store.next_queue_offset("%LMQ%all", 0) == 60
    (at,) = turn(m, put(60, "%LMQ%3", "%LMQ%new"))
    assert offsets_of(m.store, at) == "9,0"


def test_failed_write_returns_its_numbers() -> None:
    m = machine()
    turn(m, put(1, "%LMQ%a"))
    m.store.append(put(2, "%LMQ%a", "%LMQ%b"), m.now)
    m.store.append(put(3, "%LMQ%a"), m.now)
    m.files.fail_next("write_at")
    with pytest.raises(FileFailed):
        m.write()
    assert (m.store.next_queue_offset("%LMQ%a", 0), m.store.next_queue_offset("%LMQ%b", 0)) == (1, 0)
    (at,) = turn(m, put(4, "%LMQ%b", "%LMQ%a"))
    assert offsets_of(m.store, at) == "0,1"
    assert bodies(m.store, "%LMQ%a") == [1, 4]


def test_rejected_message_returns_its_numbers() -> None:
    m = machine()
    with pytest.raises(MessageIllegal):
        m.store.append(put(1, "%LMQ%a", size=10_000), m.now)
    with pytest.raises(MessageIllegal):
        m.store.append_batch([put(1, "%LMQ%a"), put(2, "%LMQ%a", size=10_000)], m.now)
    assert m.store.next_queue_offset("%LMQ%a", 0) == 0
    assert m.store.end_offset == 0


@pytest.mark.parametrize("shape", [LMQ, EXT], ids=["plain", "ext"])
@pytest.mark.parametrize("seed", range(4))
def test_a_store_with_light_queues_is_whole_after_a_power_cut(shape: object, seed: int) -> None:
    m = Machine(shape=shape)  # type: ignore[arg-type]  # one of the two above
    for number in range(80):
        turn(m, put(number, *[f"%LMQ%{n}" for n in range(number % 4)]))
        if number % 11 == 0:
            m.tick()
    m.power_cut(seed)
    m.restart()
    m.store.close(m.now)
    verdict = verify_store(m.files, ROOT, m.shape)
    assert verdict.findings == []
    assert verdict.notes == []
    assert verdict.units == 80 + sum(number % 4 for number in range(80))


def test_verify_misses_a_light_unit_and_says_what_it_does_not_check() -> None:
    m = machine()
    for number in range(9):
        turn(m, put(number, "%LMQ%a"))
    m.store.close(m.now)
    options = ShapeOptions(**TINY, enable_lmq=True, enable_multi_dispatch=True)
    assert shape_of(m.files, ROOT, options) == LMQ
    (note,) = verify_store(m.files, ROOT, SHAPE).notes
    assert note.startswith("1 light queues (LMQ) are not checked")
    handle = m.files.open(f"{ROOT}/consumequeue/%LMQ%a/0/{0:020d}")
    m.files.write_at(handle, [bytes(20)], 60)
    m.files.close(handle)
    (finding,) = verify_store(m.files, ROOT, LMQ).findings
    assert finding.sentence.startswith("%LMQ%a queue 0 lacks 1 records of the log")


def test_a_deleted_light_queue_begins_anew() -> None:
    m = machine()
    turn(m, put(1, "%LMQ%a", "%LMQ%b"))
    assert m.store.queues.light_count == 2
    m.store.delete_topic("%LMQ%a")
    assert m.store.queues.light_count == 1
    (at,) = turn(m, put(2, "%LMQ%a"))
    assert offsets_of(m.store, at) == "0"


def test_the_crc_of_a_record_covers_its_numbers() -> None:
    m = Machine(shape=replace(LMQ, append_property_crc=True, verify_property_crc=True))
    (at,) = turn(m, put(1, "%LMQ%a"))
    m.crash()
    assert m.report.records == 1
    data = m.store.log.record_bytes(at.physical_offset)
    assert decode_record(data, 0).properties.index(b"INNER_MULTI_QUEUE_OFFSET") < len(data) - 20


@pytest.mark.parametrize(("deleted", "expected"), [("T", "1"), ("%LMQ%a", "0")])
def test_a_deletion_in_a_turn_that_is_taken_back_costs_no_number(deleted: str, expected: str) -> None:
    m = machine()
    turn(m, put(1, "%LMQ%a"))
    m.store.append(put(2, "%LMQ%a"), m.now)
    m.store.delete_topic(deleted)
    m.store.append(put(3, "%LMQ%a"), m.now)
    m.files.fail_next("write_at")
    with pytest.raises(FileFailed):
        m.write()
    (at,) = turn(m, put(4, "%LMQ%a"))
    assert offsets_of(m.store, at) == expected
    assert bodies(m.store, "%LMQ%a")[-1] == 4
