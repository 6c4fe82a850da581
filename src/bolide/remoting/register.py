"""The body of REGISTER_BROKER, uncompressed or compressed (RegisterBrokerBody.java).

The uncompressed form is JSON. The compressed form is one zlib stream: DataVersion JSON; the number of topics, and one
line of text per topic; the filter servers as a JSON array. A sender of 5.0.0 or newer adds the number of topic
mappings, and their JSON. An int32 length precedes each JSON text and line. The form depends on the sender's version:
before 3.0.11, the body is the topic table alone. 5.x brokers may compress although their header says they did not.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import msgspec
from msgspec import field

from bolide.remoting.bodies.base import Body, decode_body, encode_body
from bolide.remoting.bodies.topics import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigSerializeWrapper,
    TopicFilterType,
)
from bolide.remoting.bodies.versions import DataVersion
from bolide.remoting.codes import VERSION_3_0_11, VERSION_5_0_0
from bolide.remoting.compression import ZLIB, decompress
from bolide.remoting.envelope import JSON_ENCODER
from bolide.remoting.errors import BodyError

MAX_INFLATED: Final = 32 * 1024 * 1024
ZLIB_MARK: Final = 0x78  # first byte of a zlib stream; JSON starts with {
LEVEL: Final = 9


class RegisterBrokerBody(Body):
    """A broker's registration: its topics and filter servers."""

    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = field(
        default_factory=TopicConfigAndMappingSerializeWrapper
    )
    filter_server_list: list[str] = field(default_factory=list)


class PartialRegisterBody(RegisterBrokerBody):
    """The valid part of a registration, and the names of the invalid topics."""

    refused: list[str] = field(default_factory=list)


class _LooseWrapper(Body):
    topic_config_table: dict[str, Any] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    topic_queue_mapping_info_map: dict[str, Any] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, Any] = field(default_factory=dict)


class _LooseBody(Body):
    topic_config_serialize_wrapper: _LooseWrapper = field(default_factory=_LooseWrapper)
    filter_server_list: list[str] = field(default_factory=list)


def body_checksum(data: bytes) -> int:
    """Return the ``bodyCrc32`` of an encoded body. In a header, 0 means that the body is not checked."""
    return zlib.crc32(data) & 0x7FFFFFFF


def encode_register_body(body: RegisterBrokerBody, compressed: bool = False, version: int = VERSION_5_0_0) -> bytes:
    """Return the encoded body. `version` is the version in the request's header, which determines the compressed
    form."""
    if not compressed:
        return encode_body(body)
    wrapper = body.topic_config_serialize_wrapper
    topics = wrapper.topic_config_table.values()
    parts = [_part(encode_body(wrapper.data_version)), _int(len(topics))]
    parts += [_part(_topic_line(topic, version).encode()) for topic in topics]
    parts.append(_part(JSON_ENCODER.encode(body.filter_server_list)))
    if version >= VERSION_5_0_0:
        mappings = wrapper.topic_queue_mapping_info_map.values()
        parts.append(_int(len(mappings)))
        parts += [_part(JSON_ENCODER.encode(mapping)) for mapping in mappings]
    return zlib.compress(b"".join(parts), LEVEL)


def decode_register_body(data: bytes, compressed: bool, version: int) -> RegisterBrokerBody:
    """Decode the body of a registration; `data` may be empty.

    `compressed` and `version` are from the request's header. Raises `BodyError`, also if the inflated size exceeds 32
    MiB.
    """
    if not data:
        return RegisterBrokerBody()
    if version < VERSION_3_0_11:
        bare = decode_body(data, TopicConfigSerializeWrapper)
        wrapper = TopicConfigAndMappingSerializeWrapper(bare.topic_config_table, bare.data_version)
        return RegisterBrokerBody(wrapper)
    if not compressed and data[0] != ZLIB_MARK:
        return _plain_body(data)
    return _Parts(decompress(data, ZLIB, MAX_INFLATED)).register_body(version)


def _plain_body(data: bytes) -> RegisterBrokerBody:
    try:
        return decode_body(data, RegisterBrokerBody)
    except BodyError:
        return _without_bad_topics(data)


def _without_bad_topics(data: bytes) -> RegisterBrokerBody:
    """Return the body without invalid topics, so that a wrong number affects only its topic, not all routes of the
    broker."""
    loose = decode_body(data, _LooseBody)
    wrapper = loose.topic_config_serialize_wrapper
    topics: dict[str, TopicConfig] = {}
    refused: list[str] = []
    for name, fields in wrapper.topic_config_table.items():
        try:
            topics[name] = decode_body(JSON_ENCODER.encode(fields), TopicConfig)
        except (BodyError, OverflowError):
            refused.append(name)
    taken = TopicConfigAndMappingSerializeWrapper(
        topics, wrapper.data_version, wrapper.topic_queue_mapping_info_map, wrapper.topic_queue_mapping_detail_map
    )
    return PartialRegisterBody(taken, loose.filter_server_list, refused)


class _Parts:
    """A cursor over the inflated parts; it compares every length with the remaining bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def register_body(self, version: int) -> RegisterBrokerBody:
        wrapper = TopicConfigAndMappingSerializeWrapper()
        wrapper.data_version = decode_body(self.part(), DataVersion)
        for _ in range(self.count()):
            topic = _read_topic_line(self.part().decode("utf-8", "replace"))
            wrapper.topic_config_table[topic.topic_name] = topic
        filters = decode_body(self.part(), list[str])
        if version >= VERSION_5_0_0:
            for _ in range(self.count()):
                mapping = decode_body(self.part(), dict[str, Any])
                wrapper.topic_queue_mapping_info_map[str(mapping.get("topic"))] = mapping
        return RegisterBrokerBody(wrapper, filters)

    def number(self) -> int:
        if len(self.data) - self.at < 4:
            raise BodyError(f"a compressed registration ends at byte {self.at}; resend it completely")
        self.at += 4
        return int.from_bytes(self.data[self.at - 4 : self.at], "big", signed=True)

    def count(self) -> int:
        """Read a number of parts. Each part has at least 4 bytes, which limits their number."""
        number = self.number()
        if number < 0 or number * 4 > len(self.data) - self.at:
            raise BodyError(
                f"a compressed registration claims {number} entries at byte {self.at}; resend it completely"
            )
        return number

    def part(self) -> bytes:
        size = self.number()
        if size < 0 or size > len(self.data) - self.at:
            raise BodyError(
                f"a compressed registration has an incomplete part of {size} bytes at byte {self.at}; resend it "
                "completely"
            )
        self.at += size
        return self.data[self.at - size : self.at]


def _int(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _part(data: bytes) -> bytes:
    return _int(len(data)) + data


def _topic_line(topic: TopicConfig, version: int) -> str:
    """Encode a topic like TopicConfig.encode: without topicSysFlag and order, and without attributes before 5.x."""
    queues = f"{topic.read_queue_nums} {topic.write_queue_nums}"
    line = f"{topic.topic_name} {queues} {topic.perm} {topic.topic_filter_type.value}"
    return f"{line} {JSON_ENCODER.encode(topic.attributes).decode()}" if version >= VERSION_5_0_0 else line


def _read_topic_line(line: str) -> TopicConfig:
    words = line.split(" ", 5)
    if len(words) < 5:
        raise BodyError(f"the topic line {line[:80]!r} of a registration has {len(words)} words; five are needed")
    try:
        return TopicConfig(
            topic_name=words[0],
            read_queue_nums=int(words[1]),
            write_queue_nums=int(words[2]),
            perm=int(words[3]),
            topic_filter_type=TopicFilterType(words[4]),
            attributes=msgspec.json.decode(words[5], type=dict[str, str]) if len(words) == 6 and words[5] else {},
        )
    except ValueError:
        raise BodyError(f"the topic line {line[:80]!r} of a registration is malformed; fix it and resend") from None
