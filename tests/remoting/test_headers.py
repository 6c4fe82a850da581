"""Header structs against the fields of the Java classes, and how values are read."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.remoting import codes
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import HeaderError
from bolide.remoting.headers import decode_header
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.clients import GetConsumerRunningInfoRequestHeader
from bolide.remoting.headers.decode import java_int
from bolide.remoting.headers.offsets import QueryConsumerOffsetRequestHeader, SearchOffsetRequestHeader
from bolide.remoting.headers.pull import PullMessageRequestHeader
from bolide.remoting.headers.send import SendMessageRequestHeaderV2
from bolide.remoting.headers.topics import CreateTopicRequestHeader, GetAllTopicConfigRequestHeader
from tests.remoting.vectors import frames, header_classes, requests

WHICH = ("request_header", "response_header")
AGES = {"4.x": 0, "4.9.5": 1, "5.x": 2, "5.5": 3}


def own_fields(header: dict[str, Any]) -> list[dict[str, Any]]:
    return [field for field in header["fields"] if not field.get("inherited")]


def oldest(which: str, name: str) -> int:
    return min(AGES[entry["since"]] for entry in requests() if (entry.get(which) or {}).get("class") == name)


@pytest.mark.parametrize("name", sorted(header_classes()))
def test_every_field_of_a_header_is_that_of_its_java_class(name: str) -> None:
    header = header_classes()[name]
    java = [
        (which, found)
        for entry in requests()
        for which in WHICH
        if (found := entry.get(which) or {}).get("class") == name
    ]
    assert java, "no request of RocketMQ has this header"
    for which, found in java:
        since = oldest(which, name)
        # A field that came later is optional, or a 4.9 peer could not ask at all.
        assert {(field.name, field.kind, field.required) for field in header.fields()} == {
            (field["name"], kind_of(field["type"]), field["required"] and AGES[field["since"]] <= since)
            for field in own_fields(found)
        }


def kind_of(java: str) -> str:
    return "string" if java.startswith("enum") else java


@pytest.mark.parametrize(("vector", "frame"), frames())
def test_headers_of_java_are_read_and_written(vector: dict[str, Any], frame: bytes) -> None:
    kind = header_classes().get(vector["header_class"] or "")
    if kind is None or (vector["kind"] == "response" and not vector["fields"]):
        return
    (command,) = FramedConnection().receive(frame)
    header = decode_header(command, kind)
    values = {field.name: getattr(header, field.attribute) for field in kind.fields()}
    for name, value in vector["fields"].items():
        if value != "":
            assert values[name] == value
    ext = header.to_ext()
    assert ext == {name: text for name, text in command.ext().items() if name in values}


def request(ext: dict[str, str], kind: int = codes.JSON_TYPE) -> Command:
    sent = make_request(14, 1, ext, serialize_type=kind)
    connection = FramedConnection()
    other = FramedConnection()
    connection.send(sent)
    (command,) = other.receive(b"".join(connection.data_to_send()))
    return command


OFFSET = {"consumerGroup": "g", "topic": "T", "queueId": "1"}


@pytest.mark.parametrize("kind", [codes.JSON_TYPE, codes.BINARY_TYPE])
@pytest.mark.parametrize(
    ("queue_id", "expected"),
    [("+5", 5), ("007", 7), ("-2147483648", -(2**31)), ("٣", 3)],
)
def test_numbers_as_java_parses_them(queue_id: str, expected: int, kind: int) -> None:
    header = decode_header(request(OFFSET | {"queueId": queue_id}, kind), QueryConsumerOffsetRequestHeader)
    assert header.queue_id == expected


@pytest.mark.parametrize("kind", [codes.JSON_TYPE, codes.BINARY_TYPE])
@pytest.mark.parametrize("queue_id", ["", " 5", "x", "2147483648", "1_0", "0x1", "null", "--5", "9" * 200])
def test_a_required_number_that_is_none_is_named(queue_id: str, kind: int) -> None:
    with pytest.raises(HeaderError, match="queueId of QUERY_CONSUMER_OFFSET"):
        decode_header(request(OFFSET | {"queueId": queue_id}, kind), QueryConsumerOffsetRequestHeader)


@pytest.mark.parametrize("missing", sorted(OFFSET))
def test_a_required_field_that_is_missing_is_named(missing: str) -> None:
    ext = {name: value for name, value in OFFSET.items() if name != missing}
    with pytest.raises(HeaderError, match=f"the field {missing} of QUERY_CONSUMER_OFFSET .* is missing"):
        decode_header(request(ext), QueryConsumerOffsetRequestHeader)
    with pytest.raises(HeaderError, match="is missing"):
        decode_header(make_request(14, 1), QueryConsumerOffsetRequestHeader)


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("TRUE", True), ("1", False), ("yes", False), ("false", False), ("", False)]
)
def test_true_is_only_the_word(text: str, expected: bool) -> None:
    header = decode_header(request(OFFSET | {"setZeroIfNotFound": text}), QueryConsumerOffsetRequestHeader)
    assert header.set_zero_if_not_found is expected


def test_an_optional_number_that_is_none_reads_as_null() -> None:
    ext = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6"}
    ext |= {"topicFilterType": "SINGLE_TAG", "order": "false", "topicSysFlag": "much"}
    assert decode_header(request(ext), CreateTopicRequestHeader).topic_sys_flag is None


def test_numbers_and_truths_that_are_no_texts_are_read() -> None:
    header = b'{"code":11,"opaque":1,"extFields":{"topic":7,"queueId":1,"timestamp":"3","boundaryType":"upper","x":1}}'
    (command,) = FramedConnection().receive(
        len(header).__add__(4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    )
    read = decode_header(command, SearchOffsetRequestHeader)
    assert (read.topic, read.queue_id, read.timestamp, read.boundary_type) == ("7", 1, 3, "upper")


def test_a_header_of_a_4_9_peer_lacks_what_5_x_requires() -> None:
    assert decode_header(make_request(21, 1), GetAllTopicConfigRequestHeader).topic_seq is None


def test_short_names_of_v2_and_the_names_behind_them() -> None:
    short = SendMessageRequestHeaderV2(
        producer_group="pg",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=-1,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        batch=True,
    )
    assert short.to_ext() == dict(zip("abcdefgh", ("pg", "T", "TBW102", "4", "-1", "0", "1", "0"), strict=True)) | {
        "m": "true"
    }
    back = decode_header(request(short.to_ext()), SendMessageRequestHeaderV2)
    assert back == short


def test_unknown_fields_do_not_disturb() -> None:
    ext = {"ns": "x", "bname": "b", "AccessKey": "k"} | OFFSET
    assert decode_header(request(ext), QueryConsumerOffsetRequestHeader).topic == "T"
    with pytest.raises(HeaderError, match="PullMessageRequestHeader"):
        decode_header(request(ext), PullMessageRequestHeader)


@pytest.mark.parametrize(
    ("text", "bits", "expected"),
    [
        ("0", 31, 0),
        ("-0", 31, 0),
        ("2147483647", 31, 2**31 - 1),
        ("2147483648", 31, None),
        ("-9223372036854775808", 63, -(2**63)),
        ("9223372036854775808", 63, None),
        ("+", 31, None),
        ("", 31, None),
        ("1.0", 31, None),
    ],
)
def test_java_int(text: str, bits: int, expected: int | None) -> None:
    assert java_int(text, bits) == expected


@pytest.mark.parametrize("unit_mode", [None, False, True])
@pytest.mark.parametrize("properties", [None, "", "TAGS\x01a\x02"])
def test_the_header_of_a_send_is_written_out_as_the_fields_say(unit_mode: bool | None, properties: str | None) -> None:
    header = SendMessageRequestHeaderV2(
        producer_group="g",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=-1,
        sys_flag=8,
        born_timestamp=1 << 53,
        flag=3,
        properties=properties,
        unit_mode=unit_mode,
    )
    assert header.to_ext() == Header.to_ext(header)
    header.reconsume_times, header.max_reconsume_times, header.batch, header.broker_name = 2, 16, True, "b"
    assert header.to_ext() == Header.to_ext(header)


@pytest.mark.parametrize("kind", [codes.JSON_TYPE, codes.BINARY_TYPE])
@pytest.mark.parametrize("text", ["null", "NULL"])
def test_a_flag_that_says_null_is_not_set(text: str, kind: int) -> None:
    ext = {"consumerGroup": "g", "clientId": "c", "jstackEnable": text}
    command = make_request(codes.GET_CONSUMER_RUNNING_INFO, 1, ext, serialize_type=kind)
    (found,) = FramedConnection().receive(encode(command))
    assert decode_header(found, GetConsumerRunningInfoRequestHeader).jstack_enable is False
