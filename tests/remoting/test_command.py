"""Frames of both serialize types against Java's bytes, and Java's leniency where ours meets other writers."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.remoting import codes
from bolide.remoting.command import Command, decode_ext, encode, encode_head, frame_head, make_request, make_response
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import FrameError
from tests.remoting.vectors import frames


def receive_one(frame: bytes) -> Command:
    (command,) = FramedConnection().receive(frame)
    return command


def json_frame(header: str | bytes, body: bytes = b"") -> bytes:
    data = header if isinstance(header, bytes) else header.encode()
    return frame_head(data, codes.JSON_TYPE, len(body)) + body


def expected_ext(vector: dict[str, Any]) -> dict[str, str]:
    """The header fields and extra fields of a vector as a receiver sees them: empty values do not survive binary."""
    fields = {name: value for name, value in vector["fields"].items() if value is not None}
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    return texts | (vector["ext"] or {})


@pytest.mark.parametrize(("vector", "frame"), frames())
def test_frames_of_java_are_read(vector: dict[str, Any], frame: bytes) -> None:
    command = receive_one(frame)
    binary = frame[4] == codes.BINARY_TYPE
    code = vector["code"]
    assert command.code == (struct.unpack(">h", struct.pack(">i", code)[2:])[0] if binary else code)
    assert (command.opaque, command.flag, command.version) == (vector["opaque"], vector["flag"], codes.VERSION_5_5_0)
    assert command.language == codes.JAVA
    assert command.remark == vector.get("remark")
    assert command.body == bytes.fromhex(vector["body"] or "")
    assert command.is_response == (vector["kind"] == "response")
    assert command.is_oneway == bool(vector["flag"] & 2)
    ext = command.ext()
    wanted = expected_ext(vector)
    for name, value in wanted.items():
        if value or not binary:
            assert ext[name] == value


@pytest.mark.parametrize(("vector", "frame"), frames())
def test_frames_of_java_are_written_byte_for_byte(vector: dict[str, Any], frame: bytes) -> None:
    untouched = receive_one(frame)
    read = receive_one(frame)
    fields = read.ext()
    if frame[4] == codes.BINARY_TYPE and any(not text for text in expected_ext(vector).values()):
        for name in json_ext_order(vector):  # what a reader cannot see, a writer must still write
            fields[name] = fields.pop(name, "")
    assert encode(read) == frame
    if fields == untouched.ext():
        assert encode(untouched) == frame


def json_ext_order(vector: dict[str, Any]) -> list[str]:
    """HashMap order is the same in both forms of one vector."""
    frame = bytes.fromhex(vector["json_frame"])
    (size,) = struct.unpack(">i", frame[4:8])
    return list(json.loads(frame[8 : 8 + size])["extFields"])


def test_a_response_answers_in_the_form_of_its_request() -> None:
    for kind in (codes.JSON_TYPE, codes.BINARY_TYPE):
        request = make_request(codes.GET_MAX_OFFSET, 7, {"topic": "T"}, serialize_type=kind)
        response = make_response(request, 17, "no such topic", {"a": "é"}, b"body")
        frame = encode(response)
        assert frame[4] == kind
        back = receive_one(frame)
        assert (back.code, back.opaque, back.flag, back.remark, back.body) == (17, 7, 1, "no such topic", b"body")
        assert back.ext() == {"a": "é"}
        assert back.language == codes.PYTHON


def test_empty_extension_fields_are_written_only_when_given() -> None:
    request = make_request(34, 1)
    assert b"extFields" not in encode(request)
    request.ext()
    assert b"extFields" not in encode(request)
    assert b'"extFields":{}' in encode(make_response(request, 0, ext={}))


def test_fields_added_after_decoding_are_sent() -> None:
    command = receive_one(json_frame('{"code":105,"opaque":1,"extFields":{"topic":"T"}}'))
    command.ext()["Signature"] = "s"
    assert receive_one(encode(command)).ext() == {"topic": "T", "Signature": "s"}


@pytest.mark.parametrize(
    ("language", "code"),
    [('"go"', 9), ('"JAVA"', 0), ("9", 9), ('"KLINGON"', 7), ("null", 0), ("-3", 7), ('"RUST"', 12)],
)
def test_languages_as_java_takes_them(language: str, code: int) -> None:
    assert receive_one(json_frame(f'{{"code":34,"language":{language},"opaque":1}}')).language == code


def test_a_header_of_another_writer_is_read_as_java_reads_it() -> None:
    frame = json_frame(
        '{\'code\':\'310\', "flag":"0",\'opaque\':"-5","unknown":[1,{}],"version":1e2,"remark":5,'
        '"extFields":{"a":5,"b":true,"c":null,"d":"x","e":1.5,"f":12345678901234567890,"g":[1]},}'
    )
    command = receive_one(frame)
    assert (command.code, command.opaque, command.version, command.remark) == (310, -5, 100, "5")
    assert command.ext() == {"a": "5", "b": "true", "d": "x", "e": "1.5", "f": "12345678901234567890", "g": "[1]"}


def test_values_that_are_no_text_are_coerced_only_when_asked_for() -> None:
    command = receive_one(json_frame('{"code":11,"opaque":1,"extFields":{"a":5,"b":false,"c":null}}'))
    assert command.raw_ext == b'{"a":5,"b":false,"c":null}'
    assert command.ext() == {"a": "5", "b": "false"}


def test_absent_keys_have_javas_defaults() -> None:
    command = receive_one(json_frame("{}"))
    assert (command.code, command.flag, command.opaque, command.version, command.language) == (0, 0, 0, 0, 0)
    assert command.remark is None
    assert command.ext() == {}
    assert receive_one(json_frame('{"extFields":null}')).ext() == {}


def test_text_that_is_no_utf8_reads_as_replacement() -> None:
    command = receive_one(json_frame(b'{"code":105,"opaque":1,"extFields":{"topic":"a\xff"}}'))
    assert command.ext() == {"topic": "a\ufffd"}
    assert receive_one(json_frame(b'{"code":105,"opaque":3,"remark":"\xff"}')).remark == "\ufffd"
    assert receive_one(json_frame('{"opaque":3,"remark":"\\ud800"}')).remark == "\ufffd"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "null",
        "[]",
        "5",
        "{",
        '{"code":"x"}',
        '{"code":3000000000}',
        '{"code":[]}',
        '{"opaque":1} x',
        '{"extFields":[]}',
        '{"extFields":5}',
        '{"code":"1","extFields":[]}',
        "[" * 100_000,
        '{"a":' * 50_000,
        "{" * 1000,
        '{"code":"1","a":' + "9" * 5000 + "}",
        '{"code":"1","pad":"' + "x" * 300_000 + '"}',
    ],
)
def test_headers_that_cannot_be_read_close_the_connection(header: str) -> None:
    with pytest.raises(FrameError):
        FramedConnection().receive(json_frame(header))


def binary_header(
    code: int = 105, remark: bytes = b"", ext: bytes = b"", remark_size: int = -1, size: int = -1
) -> bytes:
    return (
        struct.pack(">hbhii", code, 0, 513, 7, 0)
        + struct.pack(">i", len(remark) if remark_size < 0 else remark_size)
        + remark
        + struct.pack(">i", len(ext) if size < 0 else size)
        + ext
    )


@pytest.mark.parametrize(
    "header",
    [
        b"",
        binary_header()[:20],
        binary_header(remark_size=1),
        binary_header(remark_size=0x7FFFFFFF),
        binary_header(size=1),
        binary_header(size=0x7FFFFFFF),
        binary_header(ext=b"\x00"),
        binary_header(ext=b"\x00\x01"),
        binary_header(ext=b"\x00\x01k"),
        binary_header(ext=b"\x7f\xffk\x00\x00\x00\x01v"),
        binary_header(ext=b"\xff\xffk\x00\x00\x00\x01v"),
        binary_header(ext=b"\x00\x01k\x00\x00\x00\x02v"),
        binary_header(ext=b"\x00\x01k\xff\xff\xff\xffv"),
        binary_header(ext=b"\x00\x01k\x00\x00\x00\x01v\x00"),
    ],
)
def test_binary_headers_whose_lengths_do_not_fit_close_the_connection(header: bytes) -> None:
    with pytest.raises(FrameError):
        FramedConnection().receive(frame_head(header, codes.BINARY_TYPE, 0))


def test_a_binary_header_with_bytes_behind_it_and_empty_entries_is_read() -> None:
    entries = b"\x00\x01k\x00\x00\x00\x01v\x00\x01e\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01n"
    command = receive_one(frame_head(binary_header(remark=b"\xffr", ext=entries) + b"tail", codes.BINARY_TYPE, 0))
    assert command.ext() == {"k": "v"}
    assert command.remark == "\ufffdr"


def test_lengths_that_do_not_fit_are_refused_when_writing() -> None:
    with pytest.raises(FrameError, match="24-bit"):
        encode(make_request(1, 1, {"k": "v" * (1 << 24)}))
    with pytest.raises(FrameError, match="field name"):
        encode(make_request(1, 1, {"k" * 40_000: "v"}, serialize_type=codes.BINARY_TYPE))


def test_the_head_counts_a_body_it_does_not_hold() -> None:
    request = make_request(1, 1, body=b"12345")
    assert encode_head(request, 5) + b"12345" == encode(request)


def test_extension_fields_must_be_an_object() -> None:
    assert decode_ext(b"") == {}
    with pytest.raises(FrameError, match="must be an object"):
        decode_ext(b"[5]")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.dictionaries(TEXTS, TEXTS, max_size=5),
    st.none() | TEXTS,
    st.binary(max_size=20),
    st.sampled_from([codes.JSON_TYPE, codes.BINARY_TYPE]),
)
def test_encoded_command_decodes_unchanged(
    opaque: int, code: int, ext: dict[str, str], remark: str | None, body: bytes, kind: int
) -> None:
    sent = Command(code, opaque=opaque, flag=1, serialize_type=kind, body=body, remark=remark, ext=ext)
    sent.language = 3
    back = receive_one(encode(sent))
    assert (back.code, back.opaque, back.flag, back.language, back.version) == (code, opaque, 1, 3, 513)
    assert (back.remark, back.body, back.ext()) == (remark, body, ext)
