"""Every record of every golden store decodes to what Java's decoder read, and encodes back to the same bytes."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import lz4.frame
import zstandard
from librt.strings import BytesWriter

from bolide.layout import sysflag
from bolide.layout.body_crc import body_crc
from bolide.layout.message_id import (
    decode_offset_message_id,
    decode_unique_id,
    encode_unique_id,
    host_text,
    offset_message_id,
)
from bolide.layout.message_properties import stored_properties
from bolide.layout.properties import parse_properties_bytes, property_value
from bolide.layout.record import BLANK, GOOD, Record, check_record, copy_of, decode_record, encode_blank, encode_record
from tests.golden.stores import GoldenStore


def _decompressed(record: Record) -> bytes:
    if not record.sys_flag & sysflag.COMPRESSED:
        return record.body
    kind = sysflag.compression_type(record.sys_flag)
    if kind == sysflag.COMPRESSION_LZ4:
        return bytes(lz4.frame.decompress(record.body))
    if kind == sysflag.COMPRESSION_ZSTD:
        return zstandard.ZstdDecompressor().decompressobj().decompress(record.body)
    return zlib.decompress(record.body)


def _as_manifest(record: Record) -> dict[str, Any]:
    body = _decompressed(record)
    properties: dict[str, str] = parse_properties_bytes(record.properties)
    if "long" in properties:
        properties["long"] = f"{len(properties['long'])} times x"
    return {
        "physicalOffset": record.physical_offset,
        "storeSize": record.total_size,
        "magic": f"{record.magic & 0xFFFFFFFF:08x}",
        "bodyCRC": record.body_crc,
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_timestamp,
        "bornHost": host_text(record.born_host),
        "storeTimestamp": record.store_timestamp,
        "storeHost": host_text(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "properties": properties,
        "storedBodyLength": len(record.body),
        "bodyLength": len(body),
        "bodySha256": hashlib.sha256(body).hexdigest(),
    }


def test_every_record_is_what_the_manifest_says(golden: GoldenStore) -> None:
    found: list[dict[str, Any]] = []
    for start, data in golden.commit_log():
        at = 0
        while True:
            checked = check_record(data, at, len(data), True)
            if checked.status == BLANK:
                assert data[at : at + 8] == encode_blank(len(data) - at)
                found.append({"physicalOffset": start + at, "storeSize": checked.size, "blank": True})
                break
            if checked.status != GOOD:
                assert not any(data[at:]), f"bytes after the last record, at {start + at}"
                break
            record = decode_record(data, at)
            assert record.physical_offset == start + at
            assert record.body_crc == body_crc(record.body, 0, len(record.body))
            found.append(_as_manifest(record))
            at += checked.size
    assert found == golden.manifest["log"]


def test_every_record_encodes_back_to_its_bytes(golden: GoldenStore) -> None:
    for start, data in golden.commit_log():
        for entry in golden.log():
            at = entry["physicalOffset"] - start
            if not 0 <= at < len(data):
                continue
            r = decode_record(data, at)
            message = copy_of(r, r.topic, r.queue_id, stored_properties(r.properties))
            message.prepared_transaction_offset = r.prepared_transaction_offset
            message.store_host = r.store_host
            message.encoded_properties = r.properties
            w = BytesWriter()
            size = encode_record(
                w,
                message,
                queue_offset=r.queue_offset,
                physical_offset=r.physical_offset,
                store_timestamp=r.store_timestamp,
            )
            assert size == r.total_size
            assert w.getvalue() == data[at : at + r.total_size]


def test_ids_of_what_was_sent(golden: GoldenStore) -> None:
    segments = dict(golden.commit_log())
    size = golden.shape.commit_log_segment_size
    seen = 0
    for sent in golden.manifest["sent"]:
        if not sent.get("offsetMsgId"):
            continue
        ip, port, offset = decode_offset_message_id(sent["offsetMsgId"].split(",")[0])
        record = decode_record(segments[offset // size * size], offset % size)
        assert (ip, port) == ("127.0.0.1", int(golden.manifest["brokerConf"]["listenPort"]))
        assert offset_message_id(record.store_host, record.physical_offset) == sent["offsetMsgId"].split(",")[0]
        unique = property_value(record.properties, "UNIQ_KEY")
        assert unique is not None
        assert unique in sent["msgId"]
        parts = decode_unique_id(unique)
        assert encode_unique_id(parts.ip, parts.pid, parts.process_hash, parts.month_ms, parts.counter) == unique
        seen += 1
    assert seen > 400
