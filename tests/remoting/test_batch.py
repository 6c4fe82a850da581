"""Batch bodies against Java's bytes, and torn ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.remoting.batch import BatchMessage, decode_batch, encode_batch
from bolide.remoting.errors import BodyError
from tests.remoting.vectors import vectors


def as_tuples(messages: list[BatchMessage]) -> list[tuple[int, bytes, bytes]]:
    return [(message.flag, message.body, message.properties) for message in messages]


@pytest.mark.parametrize("vector", vectors("batch_bodies"))
@pytest.mark.parametrize("release", ["5.5.0", "4.9.7"])
def test_bodies_of_java(vector: dict[str, Any], release: str) -> None:
    data = bytes.fromhex(vector.get(release, vector)["body"])
    messages = decode_batch(data)
    assert [(m.flag, m.body.hex()) for m in messages] == [(m["flag"], m["body"]) for m in vector["messages"]]
    for message, given_ in zip(messages, vector["messages"], strict=True):
        pairs = sorted(pair for pair in message.properties.decode().split("\x02") if pair)
        assert pairs == sorted(f"{name}\x01{value}" for name, value in given_["properties"].items())
    assert encode_batch(messages) == data


def test_every_cut_is_refused_or_ends_between_messages() -> None:
    data = encode_batch([BatchMessage(1, b"hello", b"a\x01b\x02"), BatchMessage(-2, b"", b"")])
    first = 22 + 5 + 4
    for cut in range(1, len(data)):
        if cut == first:
            assert len(decode_batch(data[:cut])) == 1
        else:
            with pytest.raises(BodyError, match=r"message [01] of the batch"):
                decode_batch(data[:cut])


@pytest.mark.parametrize("at", [0, 16, 20 + 5])
@pytest.mark.parametrize("byte", [0x00, 0x01, 0x7F, 0xFF])
def test_wrong_lengths_are_refused(at: int, byte: int) -> None:
    data = bytearray(encode_batch([BatchMessage(1, b"hello", b"a\x01b\x02")]))
    if data[at] == byte:
        data[at + 1] ^= 0x55
    data[at] = byte
    with pytest.raises(BodyError):
        decode_batch(bytes(data))


def test_properties_beyond_int16_are_refused() -> None:
    encode_batch([BatchMessage(0, b"", bytes(32_767))])
    with pytest.raises(BodyError, match="message 1 of the batch has 32768"):
        encode_batch([BatchMessage(0, b"", b""), BatchMessage(0, b"", bytes(32_768))])


@given(
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=30), st.binary(max_size=30)), max_size=5)
)
def test_encoded_batch_decodes_unchanged(messages: list[tuple[int, bytes, bytes]]) -> None:
    assert as_tuples(decode_batch(encode_batch([BatchMessage(*message) for message in messages]))) == messages
