"""java.util.Properties text against what Java reads and RocketMQ writes."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.remoting.properties_text import read_properties, read_properties_utf8, write_properties, written_value
from tests.remoting.vectors import vectors


@pytest.mark.parametrize("vector", vectors("properties_texts"))
def test_texts_of_java(vector: dict[str, Any]) -> None:
    if vector["op"] == "write":
        assert write_properties(vector["properties"]) == vector["text"].encode()
    else:
        assert read_properties(vector["text"].encode()) == vector["properties"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a\\\\=1\n", {"a\\": "1"}),
        (b"a = b\\\n", {"a": "b"}),
        (b"a=1\\\n#2\n", {"a": "1#2"}),
        (b"a=\\t\\n\\r\\f\\q\n", {"a": "\t\n\r\fq"}),
        (b"  \n\n", {}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a==1", {"a": "=1"}),
        (b"a=1\rb=2", {"a": "1", "b": "2"}),
        (b"a=x\\", {"a": "x"}),
    ],
)
def test_more_rules_of_the_format(text: bytes, expected: dict[str, str]) -> None:
    assert read_properties(text) == expected


def test_a_short_unicode_escape_is_an_error() -> None:
    for text in (b"a=\\u12", b"a=\\uzzzz"):
        with pytest.raises(ValueError):
            read_properties(text)


def test_our_own_files_are_utf8() -> None:
    assert read_properties_utf8("a=中\n".encode()) == {"a": "中"}


def test_two_escapes_make_one_character_and_half_of_one_is_replaced() -> None:
    assert read_properties(b"a=\\ud83d\\ude00") == {"a": "\U0001f600"}
    assert read_properties(b"a=x\\ud83dy") == {"a": "x\ufffdy"}


@pytest.mark.parametrize("digits", [b"+1f4", b" 1f4", b"1_f4", b"-001"])
def test_an_escape_has_four_hex_digits_and_nothing_else(digits: bytes) -> None:
    with pytest.raises(ValueError, match="four hex digits"):
        read_properties(b"a=\\u" + digits)


@pytest.mark.parametrize("value", ["C:\\new", "two\nlines=1", "end\\", "a\rb", "a\fb", "=x", "plain"])
def test_a_written_value_is_read_as_it_was(value: str) -> None:
    assert read_properties_utf8(f"key={written_value(value)}\nnext=1\n".encode()) == {"key": value, "next": "1"}
