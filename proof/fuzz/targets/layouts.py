"""Bytes inside bodies and files: batches, compressed bodies, records, units, headers of files, ids, and small texts."""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Iterable
from typing import Final

import lz4.frame
import zstandard
from librt.strings import BytesWriter

from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.attributes import parse_changes
from bolide.client.messages.received import ReceivedMessage, received_messages, show_origin, topics_of
from bolide.client.tracing.trace import decode_trace, encode_trace
from bolide.dispatch.row import scan_records
from bolide.errors import BolideError, ConfigError, ProtocolError
from bolide.layout import ext_unit, index_file, queue_unit, timer
from bolide.layout.bloom import BloomFilter, has_bits
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.checkpoint import decode_checkpoint
from bolide.layout.delay import parse_delay_levels
from bolide.layout.deleted_topics import mark_line, parse_marks
from bolide.layout.errors import LayoutError, MessageIdError, RecordError
from bolide.layout.hashes import java_hash, tags_code
from bolide.layout.message_id import (
    decode_host,
    decode_offset_message_id,
    decode_unique_id,
    encode_host,
    encode_unique_id,
    host_text,
    offset_message_id,
)
from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.properties import (
    format_properties,
    parse_properties,
    parse_properties_bytes,
    property_value,
    text_of,
)
from bolide.layout.record import (
    GOOD,
    Record,
    body_matches,
    check_record,
    copy_of,
    decode_intact,
    decode_record,
    decode_records,
    describe,
    encode_record,
    find_record,
    is_good,
    properties_at,
)
from bolide.layout.record_crc import crc_holds, without_crc
from bolide.layout.shape import StoreShape
from bolide.layout.timer_checkpoint import decode_timer_checkpoint
from bolide.remoting.batch import decode_batch, encode_batch
from bolide.remoting.compression import LZ4, ZLIB, ZSTD, compress, decompress, decompress_by_flag
from bolide.remoting.errors import BodyError, CompressionError
from bolide.remoting.properties_text import read_properties, read_properties_utf8, write_properties
from bolide.remoting.recall_handle import decode_recall_handle, encode_recall_handle
from proof.fuzz import seeds
from proof.fuzz.choices import Choices
from proof.fuzz.target import KIB, MIB, Broken, Limits, Target

INFLATED: Final = 256 * KIB
"""Limit for what a compressed body may become here; a client's is 4 MiB."""
PROPERTY_WORDS: Final = (
    *(
        b"TAGS\x01a\x02",
        b"KEYS\x01k1 k2\x02",
        b"UNIQ_KEY\x01",
        b"DELAY\x013\x02",
        b"WAIT\x01false\x02",
        b"\x01",
        b"\x02",
    ),
    *(b"TRAN_MSG\x01true\x02", b"TIMER_DELAY_SEC\x01", b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02", b"__CRC32#\x01"),
    *(
        b"INNER_MULTI_QUEUE_OFFSET\x011,x\x02",
        b"RETRY_TOPIC\x01T\x02",
        b"\xff\xfe",
        b"\xf0\x9f\x98\x80",
        b"\xed\xa0\x80",
    ),
)
RECORD_WORDS: Final = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab", b"\xcb\xd4\x31\x94", *PROPERTY_WORDS)


def batch(data: bytes) -> None:
    """A body of several messages; written again it is the same, but for what nobody reads."""
    with contextlib.suppress(BodyError):
        found = decode_batch(data)
        again = decode_batch(encode_batch(found))
        if [_message(each) for each in again] != [_message(each) for each in found]:
            raise Broken("a batch is not read as it was written")


def _message(each: object) -> tuple[object, ...]:
    return tuple(getattr(each, name) for name in ("flag", "body", "properties"))


def compressed(data: bytes) -> None:
    """A body of each compression: refused, or at most as long as allowed. What we compress comes back."""
    if not data:
        return
    for kind in (data[0] % 9, ZLIB, LZ4, ZSTD):
        with contextlib.suppress(CompressionError):
            plain = decompress(data[1:], kind, INFLATED)
            if len(plain) > INFLATED:
                raise Broken(f"{len(plain)} bytes came out, {INFLATED} are allowed")
    with contextlib.suppress(CompressionError):
        decompress_by_flag(data[1:], int.from_bytes(data[:2], "big"), INFLATED)
    for kind in (ZLIB, LZ4, ZSTD):
        if decompress(compress(data, kind, data[0] % 9 + 1), kind, INFLATED) != data:
            raise Broken(f"compression {kind} loses bytes")


def bomb(data: bytes) -> None:
    """A few bytes that claim to be many: one pattern, compressed as it is and once more, in all three ways."""
    choices = Choices(data)
    kind = choices.pick((ZLIB, LZ4, ZSTD))
    plain = (choices.piece(16) or b"\0") * (1 << choices.below(18))
    packed = packed_by(kind, plain)
    packed *= choices.below(4) + 1
    cut = packed[: len(packed) - choices.below(4)] + choices.piece(64)
    with contextlib.suppress(CompressionError):
        found = decompress(cut, kind, INFLATED)
        if cut.startswith(packed) and found != plain:
            raise Broken(f"{len(plain)} bytes went in, other {len(found)} came out")


def packed_by(kind: int, plain: bytes) -> bytes:
    """The most that a compression makes of it."""
    if kind == ZLIB:
        return zlib.compress(plain, 9)
    if kind == LZ4:
        return bytes(lz4.frame.compress(plain))
    return zstandard.ZstdCompressor(level=19).compress(plain)


def record(data: bytes) -> None:
    """A record at any place of any bytes: all readers agree, and what is read is written as it was."""
    size = len(data)
    for at in (0, size // 2):
        checked = check_record(data, at, size, False)
        describe(checked)
        strict = check_record(data, at, size, True)
        if strict.status == GOOD and checked.status != GOOD:
            raise Broken("with its CRC the record is good, without it is not")
        if size - at >= 8 and is_good(data, at, size, False) != (checked.status == GOOD):
            raise Broken("is_good and check_record differ")
        try:
            found = decode_record(data, at)
        except RecordError:
            if checked.status == GOOD:
                raise Broken("a good record cannot be read") from None
            continue
        _use_record(data, at, found)
    place = find_record(data, 0, 0)
    if place >= 0 and check_record(data, place, size, False).status != GOOD:
        raise Broken(f"no record is at {place}, where one was found")
    records = decode_records(data)
    intact, end = decode_intact(data)
    whole = list(itertools.takewhile(body_matches, records))
    if len(intact) != len(whole) or end != sum(found.total_size for found in whole):
        raise Broken("decode_intact does not end at the first record whose CRC fails")
    scan_records(data, 0, size, StoreShape(), True, 100)
    with contextlib.suppress(BolideError):
        for message in received_messages(data, "b"):
            _use_message(message)


def _use_record(data: bytes, at: int, found: Record) -> None:
    if properties_at(data, at) != found.properties:
        raise Broken("properties_at and Record differ")
    crc_holds(data, at, int(found.total_size))
    properties = stored_properties(found.properties)
    properties.scan()
    message = copy_of(found, found.topic, int(found.queue_id), properties)
    message.store_host = found.store_host
    message.encoded_properties = found.properties
    message.prepared_transaction_offset = int(found.prepared_transaction_offset)
    if len(message.topic_bytes) > 127 and found.magic != -626843477:
        return  # letters that are not valid UTF-8 take more room when they are written
    w = BytesWriter()
    with contextlib.suppress(RecordError):
        encode_record(
            w,
            message,
            queue_offset=found.queue_offset,
            physical_offset=found.physical_offset,
            store_timestamp=found.store_timestamp,
        )
        again = decode_record(w.getvalue(), 0)
        if (again.body, again.topic, again.queue_offset) != (found.body, found.topic, found.queue_offset):
            raise Broken("a record is not read as it was written")


def _use_message(message: ReceivedMessage) -> None:
    for name in ("message_id", "offset_message_id", "born_host", "store_host", "transaction_id", "tags", "keys"):
        with contextlib.suppress(BolideError):
            getattr(message, name)
    show_origin(message, "ns")
    topics_of(message)
    with contextlib.suppress(CompressionError):
        len(message.body)
    repr(message)


def properties(data: bytes) -> None:
    """Properties of a message: text, pairs and single values agree, however they are asked for and changed."""
    text = text_of(data)
    pairs = parse_properties(text)
    if parse_properties_bytes(data) != pairs or parse_properties(format_properties(pairs)) != pairs:
        raise Broken(f"{text!r:.100} has other pairs when it is read again")
    for name in list(pairs)[:8]:
        if text.encode("utf-8", "replace") == data and property_value(data, name) != pairs[name]:
            raise Broken(f"{name!r} is {pairs[name]!r} and {property_value(data, name)!r}")
    scanned, mapped = MessageProperties(text), MessageProperties("", dict(pairs))
    for each in (scanned, mapped):
        each.scan()
    for name in ("uniq_key", "keys", "tags", "delay", "wait", "transactional", "timer", "multi"):
        if getattr(scanned, name) != getattr(mapped, name):
            raise Broken(f"{name} of {text!r:.100} is {getattr(scanned, name)!r} and {getattr(mapped, name)!r}")
    for name in [*list(pairs)[:3], "TIMER_DELAY_SEC"]:
        scanned.drop(name)
    scanned.set("TAGS", "x")
    scanned.add_uniq_key("u")
    scanned.extend({"a": "b"})
    if parse_properties(scanned.text) != {name: value for name, value in scanned.pairs().items() if name and value}:
        raise Broken(f"{scanned.text!r:.100} and {scanned.pairs()!r:.100}")
    without_crc(data)
    java_hash(text)
    tags_code(text)


def file_parts(data: bytes) -> None:
    """Units and headers of the files of a store, at any bytes."""
    queue_unit.count_valid_units(data)
    for at in range(0, min(len(data), 400) - queue_unit.UNIT_SIZE + 1, queue_unit.UNIT_SIZE):
        offset, size, code = queue_unit.read_unit(data, at)
        w = BytesWriter()
        queue_unit.write_unit(w, offset, size, code)
        if w.getvalue() != data[at : at + queue_unit.UNIT_SIZE]:
            raise Broken(f"the unit {offset} {size} {code}")
    with contextlib.suppress(LayoutError):
        unit = ext_unit.read_ext_unit(data, 0)
        w = BytesWriter()
        ext_unit.write_ext_unit(w, unit.tags_code, unit.store_timestamp, unit.bitmap)
        if w.getvalue() != data[: unit.size]:
            raise Broken("an extension unit is not read as it was written")
        has_bits(unit.bitmap, BloomFilter.of(20, 32).positions("g#T"))
    with contextlib.suppress(LayoutError):
        index_file.decode_index_header(data).encode()
    if len(data) >= 20:
        index_file.read_entry(data, len(data) - 20)
    with contextlib.suppress(LayoutError):
        point = decode_checkpoint(data)
        if decode_checkpoint(point.encode()) != point and point.run_id:
            raise Broken(f"the checkpoint {point}")
    point_of_timer = decode_timer_checkpoint(data)
    if decode_timer_checkpoint(point_of_timer.encode()).log_end != point_of_timer.log_end:
        raise Broken(f"the checkpoint {point_of_timer}")
    timer.decode_slots(data, 0, 1000, timer.WHEEL_SLOTS, 0)
    timer.is_blank(data, 0)
    found = timer.decode_unit(data, 0)
    if found is not None:
        timer.floor_time(found.time, 1000)
        _ = (found.rolls, found.deletes, found.worth)


def marks(data: bytes) -> None:
    """The file of deleted topics."""
    with contextlib.suppress(LayoutError):
        found = parse_marks(data)
        again = parse_marks(b"".join(mark_line(topic, offset) for topic, offset in found.items()))
        if again != found:
            raise Broken(f"{found!r:.200} is read as {again!r:.200}")


def ids(data: bytes) -> None:
    """Ids of messages and addresses, from any text."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(MessageIdError):
        ip, port, offset = decode_offset_message_id(text)
        again = offset_message_id(encode_host(ip, port), offset)
        if decode_offset_message_id(again) != (ip, port, offset):
            raise Broken(f"{text} is {ip} {port} {offset}")
    with contextlib.suppress(MessageIdError):
        unique = decode_unique_id(text)
        again = encode_unique_id(unique.ip, unique.pid, unique.process_hash, unique.month_ms, unique.counter)
        if again != text.upper().replace(" ", "")[: len(again)] and bytes.fromhex(text) != bytes.fromhex(again):
            raise Broken(f"{text} is read as {again}")
    if len(data) in (8, 20):
        decode_host(data)
        host_text(data)


def texts(data: bytes) -> None:
    """Small languages: properties files, recall handles, delay levels, attributes, traces."""
    with contextlib.suppress(ValueError):
        read_properties(data)
    with contextlib.suppress(ValueError):
        found = read_properties_utf8(data)
        write_properties(found)
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(BodyError):
        handle = decode_recall_handle(text)
        if handle.deliver_at.isascii() and handle.deliver_at.isdigit() and len(handle.deliver_at) < 19:
            again = encode_recall_handle(handle.topic, handle.broker_name, int(handle.deliver_at), handle.unique_key)
            if decode_recall_handle(again).topic != handle.topic:
                raise Broken(f"the handle {handle}")
    with contextlib.suppress(ConfigError):
        parse_delay_levels(text)
    with contextlib.suppress(Refused):
        parse_changes(text)
    with contextlib.suppress(ProtocolError):
        for step in decode_trace(text):
            encode_trace(step)


def _compressed() -> Iterable[bytes]:
    for seed in seeds.compressed():
        yield b"\x03" + seed
        yield b"\x03" + seed + seed


def _bombs() -> Iterable[bytes]:
    for kind in range(3):
        for power in (0, 10, 17):
            yield bytes([kind, 1, 0, 0, power, 0, 0])


def _records() -> Iterable[bytes]:
    yield from seeds.records()
    message = BrokerMessage("T", b"T", 1, b"body", MessageProperties(""), 1, encode_host("127.0.0.1", 10911))
    message.store_host = message.born_host
    message.encoded_properties = b"TAGS\x01a\x02KEYS\x01k\x02"
    for topic in (b"T", b"%RETRY%" + b"g" * 150):
        message.topic_bytes = topic
        w = BytesWriter()
        encode_record(w, message, queue_offset=0, physical_offset=0, store_timestamp=2)
        yield w.getvalue()
        yield w.getvalue() * 3
    yield bytes.fromhex("00000040cbd43194") + bytes(56)


def _file_parts() -> Iterable[bytes]:
    for folder in ("consumequeue/", "consumequeue_ext/", "index/", "checkpoint", "timerwheel", "timerlog/"):
        yield from seeds.golden_files(("5.5.0-ext", "4.9.7-clean"), folder, 400)[:12]


def _marks() -> Iterable[bytes]:
    yield mark_line("T", 5)
    yield mark_line("T", 5) + mark_line("中", 1 << 60) + b'{"topic": "torn'


def _ids() -> Iterable[bytes]:
    for vector in seeds.vectors("offset_message_ids"):
        yield str(vector["msgId"]).encode()
    yield b"7F00000100002A9F18B4AAC25A1C0001"
    yield b"24088207189A6C3D54D2A1C05D3BF0B500002A9F18B4AAC25A1C0001"
    yield bytes(8)
    yield bytes(20)


def _texts() -> Iterable[bytes]:
    yield from seeds.properties_texts()
    for vector in seeds.vectors("recall_handles"):
        yield str(vector["handle"]).encode()
    yield BrokerOptions().shape.message_delay_level.encode()
    yield b"+message.type=FIFO,-queue.type,+reserve.time=5"
    yield b"Pub\x011\x01r\x01g\x01T\x01id\x01tag\x01key\x01h:1\x015\x016\x010\x01oid\x01true\x02"
    yield b"SubBefore\x011\x01r\x01g\x01req\x01id\x010\x01k\x02"
    yield b"SubAfter\x01req\x01id\x015\x01true\x01k\x010\x011\x01g\x02"
    yield b"EndTransaction\x011\x01r\x01g\x01T\x01id\x01t\x01k\x01h\x012\x01tid\x01COMMIT_MESSAGE\x01true\x02"


def _properties() -> Iterable[bytes]:
    for vector in seeds.vectors("message_properties"):
        if "hex" in vector:
            yield bytes.fromhex(vector["hex"])
    yield b"".join(PROPERTY_WORDS)


MARK_WORDS: Final = (b'{"topic": "', b'", "offset": ', b"1e999", b"NaN", b"[[[[", b"}\n")
TARGETS: Final = (
    Target("batch", batch, seeds.batches),
    Target("compressed", compressed, _compressed, Limits(memory=24 * MIB, memory_per_byte=1000), cost=3),
    Target("bomb", bomb, _bombs, Limits(memory=64 * MIB), largest=128, cost=10),
    Target("record", record, _records, Limits(memory_per_byte=1000, steps_per_byte=200), words=RECORD_WORDS),
    Target("properties", properties, _properties, words=PROPERTY_WORDS),
    Target("file_parts", file_parts, _file_parts, largest=1024),
    Target("marks", marks, _marks, words=MARK_WORDS, largest=2048),
    Target("ids", ids, _ids, words=(b"FFFF", b"0000", b" "), largest=128),
    Target(
        "texts", texts, _texts, words=(b"\\u00e9", b"\\ud800", b"\\", b"\n", b"=", b"1h ", b"+", b"\x01", b"\x02")
    ),
)  # fmt: skip
