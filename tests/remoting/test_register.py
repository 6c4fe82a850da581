"""Registration bodies of both releases, plain and compressed."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from bolide.remoting.bodies.topics import TopicConfig
from bolide.remoting.errors import BodyError
from bolide.remoting.register import RegisterBrokerBody, body_checksum, decode_register_body, encode_register_body
from tests.remoting.vectors import vectors

RELEASES = [(vector, release, version) for vector in vectors("register_broker_bodies")
            for release, version in (("5.5.0", 513), ("4.9.7", 407))]  # fmt: skip


@pytest.mark.parametrize(("vector", "release", "version"), RELEASES)
def test_bodies_of_java(vector: dict[str, Any], release: str, version: int) -> None:
    texts = vector.get(release, vector)
    plain, packed = bytes.fromhex(texts["plain_hex"]), bytes.fromhex(texts["compressed_hex"])
    assert (body_checksum(plain), body_checksum(packed)) == (texts["plain_crc32"], texts["compressed_crc32"])
    body = decode_register_body(plain, False, version)
    wrapper = body.topic_config_serialize_wrapper
    assert len(wrapper.topic_config_table) == vector["topics"]
    assert wrapper.data_version.counter == 7
    for compressed in (True, False):  # 5.x brokers may compress and say they did not
        unpacked = decode_register_body(packed, compressed, version)
        assert unpacked.topic_config_serialize_wrapper.topic_config_table == wrapper.topic_config_table
        assert unpacked.topic_config_serialize_wrapper.data_version == wrapper.data_version
        assert unpacked.filter_server_list == body.filter_server_list
    if version == 513:
        assert zlib.decompress(encode_register_body(body, True, version)).hex() == vector["inflated_hex"]
    assert decode_register_body(encode_register_body(body), False, version) == body


def test_a_sender_of_version_0_registers_no_topics() -> None:
    body = RegisterBrokerBody()
    body.topic_config_serialize_wrapper.topic_config_table["T"] = TopicConfig("T")
    data = encode_register_body(body)
    assert decode_register_body(data, False, 37).topic_config_serialize_wrapper.topic_config_table
    assert not decode_register_body(data, False, 0).topic_config_serialize_wrapper.topic_config_table
    assert decode_register_body(b"", False, 513) == RegisterBrokerBody()


def test_old_senders_have_no_mapping_tail() -> None:
    body = RegisterBrokerBody()
    old, new = (encode_register_body(body, True, version) for version in (407, 413))
    assert zlib.decompress(new) == zlib.decompress(old) + bytes(4)
    with pytest.raises(BodyError, match="ends at byte"):
        decode_register_body(old, True, 413)


def test_every_cut_of_the_parts_is_refused() -> None:
    body = RegisterBrokerBody(filter_server_list=["f:1"])
    body.topic_config_serialize_wrapper.topic_config_table["T"] = TopicConfig("T", attributes={"a": "b c"})
    data = zlib.decompress(encode_register_body(body, True, 513))
    assert decode_register_body(zlib.compress(data), True, 513) == body
    for cut in range(len(data)):
        with pytest.raises(BodyError):
            decode_register_body(zlib.compress(data[:cut]), True, 513)


@pytest.mark.parametrize("line", ["T 1 2 6", "T x 2 6 SINGLE_TAG", "T 1 2 6 NO_TAG", "T 1 2 6 SINGLE_TAG {"])
def test_a_wrong_topic_line_is_refused(line: str) -> None:
    version = b"{}"
    parts = [
        len(version).to_bytes(4, "big"),
        version,
        (1).to_bytes(4, "big"),
        len(line).to_bytes(4, "big"),
        line.encode(),
    ]
    with pytest.raises(BodyError, match="topic line"):
        decode_register_body(zlib.compress(b"".join(parts)), True, 407)


def test_counts_and_bombs_are_bounded() -> None:
    claims = (2).to_bytes(4, "big") + b"{}" + (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(BodyError, match="claims 2147483647 entries"):
        decode_register_body(zlib.compress(claims), True, 407)
    with pytest.raises(BodyError, match="more than"):
        decode_register_body(zlib.compress(bytes(40_000_000)), True, 407)
