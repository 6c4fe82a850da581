"""Message ids and hosts against Java's vectors, and round trips."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.layout.errors import MessageIdError
from bolide.layout.message_id import (
    decode_host,
    decode_offset_message_id,
    decode_unique_id,
    encode_host,
    encode_unique_id,
    host_text,
    offset_message_id,
)
from tests.layout.vectors import vectors


@pytest.mark.parametrize("vector", vectors()["offset_message_ids"], ids=lambda v: v["msgId"])
def test_vectors(vector: dict[str, Any]) -> None:
    host = encode_host(vector["host"], vector["port"])
    assert offset_message_id(host, vector["offset"]) == vector["msgId"]
    assert decode_offset_message_id(vector["msgId"]) == (vector["host"], vector["port"], vector["offset"])


@given(st.ip_addresses(), st.integers(0, 65535))
def test_hosts(ip: Any, port: int) -> None:
    raw = encode_host(str(ip), port)
    assert decode_host(raw) == (str(ip), port)
    assert host_text(raw) == (f"{ip}:{port}" if ip.version == 4 else f"[{ip}]:{port}")


@given(
    st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)),
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 0xFFFF),
)
def test_unique_ids(ip: bytes, pid: int, process_hash: int, month_ms: int, counter: int) -> None:
    text = encode_unique_id(ip, pid, process_hash, month_ms, counter)
    assert len(text) == (32 if len(ip) == 4 else 56)
    parts = decode_unique_id(text)
    assert (parts.ip, parts.pid, parts.process_hash) == (ip, pid, process_hash)
    assert (parts.month_ms, parts.counter) == (month_ms, counter)


def test_unique_id_fields_wrap_as_in_java() -> None:
    assert encode_unique_id(bytes(4), 0x12345, -1, 0x1_0000_0002, 0x10003) == "00000000" + "2345FFFFFFFF000000020003"


@pytest.mark.parametrize("text", ["", "7F", "X" * 32, "0" * 40, "0" * 31 + "g"])
def test_no_ids(text: str) -> None:
    with pytest.raises(MessageIdError, match=r"is not an offset message id"):
        decode_offset_message_id(text)
    with pytest.raises(MessageIdError, match=r"is not the unique id"):
        decode_unique_id(text)


def test_no_hosts() -> None:
    with pytest.raises(MessageIdError, match=r"not an IP address"):
        encode_host("localhost", 1)
    with pytest.raises(MessageIdError, match=r"is not a port"):
        encode_host("127.0.0.1", -1)
    with pytest.raises(MessageIdError, match=r"8 or 20 bytes"):
        decode_host(bytes(9))
