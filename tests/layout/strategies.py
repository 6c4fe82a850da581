"""Hypothesis strategies for records: every field over its whole range."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from librt.strings import BytesWriter

from bolide.layout.record import encode_record
from tests.layout.records import message_of

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), max_size=12)
NAMES = st.one_of(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "KEYT", "TAGSX", "UNIQ_KEX", "DELAX"]), TEXT)
PROPERTIES = st.one_of(
    st.lists(st.tuples(NAMES, TEXT), max_size=8).map(lambda pairs: "".join(f"{n}\x01{v}\x02" for n, v in pairs)),
    st.text(st.sampled_from("aT\x01\x02é😀 "), max_size=30),
).map(str.encode)
TOPICS = st.one_of(
    st.sampled_from(["T", "SCHEDULE_TOPIC_XXXX", "%RETRY%" + "g" * 121, "中"]),
    st.text("abc_%-", min_size=1, max_size=200),
)


@st.composite
def record_fields(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of a record by name; hosts fit the sys flag."""
    sys_flag = draw(INT32)
    return {
        "queue_id": draw(INT32),
        "flag": draw(INT32),
        "queue_offset": draw(INT64),
        "physical_offset": draw(INT64),
        "sys_flag": sys_flag,
        "born_timestamp": draw(INT64),
        "born_host": draw(st.binary(min_size=(n := 20 if sys_flag & 0x10 else 8), max_size=n)),
        "store_timestamp": draw(st.integers(0, 2**52)),
        "store_host": draw(st.binary(min_size=(n := 20 if sys_flag & 0x20 else 8), max_size=n)),
        "reconsume_times": draw(INT32),
        "prepared_transaction_offset": draw(INT64),
        "body": draw(st.binary(max_size=40)),
        "topic": draw(TOPICS).encode(),
        "properties": draw(PROPERTIES),
    }


def encode(w: BytesWriter, fields: dict[str, Any]) -> int:
    """Append the record to `w`; its size."""
    topic: bytes = fields["topic"]
    places = {name: fields[name] for name in ("queue_offset", "physical_offset", "store_timestamp")}
    message = message_of(topic.decode("utf-8", "replace"), fields["body"], b"")
    message.topic_bytes = topic
    message.encoded_properties = fields["properties"]
    for name in fields.keys() - {*places, "topic", "body", "properties"}:
        setattr(message, name, fields[name])
    return encode_record(w, message, **places)


def encoded(fields: dict[str, Any]) -> bytes:
    """The record's bytes."""
    w = BytesWriter()
    size = encode(w, fields)
    data = w.getvalue()
    assert size == len(data)
    return data
