"""The lenient reader: what Java writes, what it reads, and what must not cost us."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.remoting.errors import BodyError
from bolide.remoting.json import MAX_DEPTH, MAX_TEXT, ObjectKey, object_key, parse_lenient, parse_long, quoted_keys


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ("{'a':'b\"c',}", {"a": 'b"c'}),
        ("[1,2,]", [1, 2]),
        ("{code:1, $x_1:2}", {"code": 1, "$x_1": 2}),
        ('{"a"/*c*/:1,//d\n"b":2}', {"a": 1, "b": 2}),
        (" \t\n[ ] ", []),
        ("9223372036854775807", 2**63 - 1),
        ("-1.5e3", -1500.0),
        ("5L", 5),
        ("[true,false,null,NaN]", [True, False, None, None]),
        (r'"\u4e2d\n\t\"\\\/\x41\'"', "中\n\t\"\\/A'"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud83d"', "\ufffd"),
        (b'"a\xffb"', "a\ufffdb"),
        ("\ufeff{}", {}),
        ("{-1:2,1.5:3}", {"-1": 2, "1.5": 3}),
    ],
)
def test_reads(text: str, value: Any) -> None:
    assert parse_lenient(text) == value


def test_an_object_as_a_key_keeps_its_value() -> None:
    read = parse_lenient('{{"topic":"T","queueId":1}:{"x":2},{"queueId":1,"topic":"T"}:3}')
    (key,) = read
    assert isinstance(key, ObjectKey)
    assert key.value == {"topic": "T", "queueId": 1}
    assert key == object_key({"queueId": 1, "topic": "T"})
    assert read[key] == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{"n":1},"b":{"$ref":"$.a"}}', {"a": {"n": 1}, "b": {"n": 1}}),
        ('{"a":[{"n":1},{"$ref":"$.a[0]"}]}', {"a": [{"n": 1}, {"n": 1}]}),
        (
            '{"a":{"n":[1]},"b":{"m":{"$ref":"$.a.n"}},"c":{"$ref":"$.b"}}',
            {"a": {"n": [1]}, "b": {"m": [1]}, "c": {"m": [1]}},
        ),
        ('{"a":{"$ref":"$"}}', {"a": None}),
        ('{"a":{"b":{"$ref":"$.a"}}}', {"a": {"b": None}}),
        ('{"a":{"$ref":"$.nowhere[7]"}}', {"a": None}),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', {"a": None, "b": None}),
        ('{"a":{"$ref":"$.a"}}', {"a": None}),
    ],
)
def test_references(text: str, value: Any) -> None:
    assert parse_lenient(text) == value


def test_references_stay_as_they_are_when_not_asked_for() -> None:
    assert parse_lenient('{"a":{"$ref":"$"}}', references=False) == {"a": {"$ref": "$"}}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[", '"a', "'a", '{"a"}', '{"a":}', '{"a":1 "b":2}', "[1 2]", "{}x", "tru", "{{}}", '"\\u12"',
     '"\\uzzzz"', "[1}", "/* never closed", "{,}", "[,1]", "-", "9" * 401],
)  # fmt: skip
def test_refuses(text: str) -> None:
    with pytest.raises(BodyError, match="at character"):
        parse_lenient(text)


def test_depth_and_length_are_bounded() -> None:
    assert parse_lenient("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for text in ("[" * 5000, '{"a":' * 5000, "{" * 5000):
        with pytest.raises(BodyError, match="nesting"):
            parse_lenient(text)
    with pytest.raises(BodyError, match="too long"):
        parse_lenient("[1,2]", limit=4)


@pytest.mark.parametrize("key", ['"%d"', "%d"])
def test_a_long_table_is_read_whatever_its_keys(key: str) -> None:
    """Our own files are strict, Java's have bare queue ids: both grow beyond what the lenient reader takes."""
    rows = ",".join(f'"topic{n}@group":{{{key % 0}:{n},{key % 1}:7}}' for n in range(40_000))
    text = f'{{"offsetTable":{{{rows}}}}}'.encode()
    assert len(text) > MAX_TEXT
    table = parse_long(text)["offsetTable"]
    assert len(table) == 40_000 and table["topic39999@group"] == {"0": 39_999, "1": 7}


def test_only_bare_integer_keys_are_quoted() -> None:
    text = rb'{"a{1:":{ 0:"b,2:\"{3:",-1 :[4,5]},6:{7:8}}'
    assert quoted_keys(text) == rb'{"a{1:":{ "0":"b,2:\"{3:","-1" :[4,5]},"6":{"7":8}}'
    assert parse_long(text) == parse_lenient(text)


@pytest.mark.parametrize(
    "text", ["{'a':1,2:3}", "{a:1}", '{{"q":1}:2}', "/*{*/[1,]", '{"a":{"$ref":"$.b"},"b":[1]}', "null"]
)
def test_other_json_is_parsed_leniently(text: str) -> None:
    assert parse_long(text.encode()) == parse_lenient(text)


def test_the_limit_is_for_what_is_not_strict() -> None:
    assert parse_long(b'{"a":[1,2]}', limit=4) == {"a": [1, 2]}
    with pytest.raises(BodyError, match="too long"):
        parse_long(b"{0:[1,2]}", limit=4)


def test_a_text_that_is_never_closed_is_passed_once() -> None:
    # With a second look at each quote this would take hours.
    data = b'"' + b'\\"' * 2_000_000
    assert quoted_keys(data) == data
