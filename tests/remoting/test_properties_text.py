"""java.util.Properties text against what Java reads and RocketMQ writes."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.remoting.properties_text import read_properties, read_properties_utf8, write_properties
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
