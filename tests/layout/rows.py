"""Records as rows, read by the row codec."""

from __future__ import annotations

from typing import Any

from bolide.layout.columns import (
    NUMBERS,
)
from bolide.layout.message_id import host_text, offset_message_id
from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import decode_record


def as_row(buf: bytes, at: int) -> dict[str, Any]:
    """What `record_batch` must say of the record at this byte."""
    record = decode_record(buf, at)
    properties = parse_properties_bytes(record.properties)
    offset_id = offset_message_id(record.store_host, record.physical_offset)
    keys = properties.get("KEYS")
    row: dict[str, Any] = {name: getattr(record, name) for name in NUMBERS}
    row.update(
        topic=record.topic,
        body=record.body,
        properties=properties,
        tags=properties.get("TAGS"),
        keys=None if keys is None else [key for key in keys.split(" ") if key],
        uniq_key=properties.get("UNIQ_KEY"),
        born_host=host_text(record.born_host),
        store_host=host_text(record.store_host),
        message_id=properties.get("UNIQ_KEY", offset_id),
        offset_message_id=offset_id,
    )
    return row


def as_rows(batch: Any) -> list[dict[str, Any]]:
    """The rows of a batch, its maps as dicts (in which a repeated key would vanish, so their length is checked)."""
    rows: list[dict[str, Any]] = batch.to_pylist()
    for row in rows:
        assert len(dict(row["properties"])) == len(row["properties"])
        row["properties"] = dict(row["properties"])
    return rows
