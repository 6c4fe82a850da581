"""Rows of a long table: encoded when they changed, in steps, and once."""

from __future__ import annotations

import json

from bolide.broker.core.rows import JOINED_AT_ONCE, Rows, Text


class Counting:
    """A table that counts how often each row is encoded."""

    def __init__(self, **rows: int) -> None:
        self.table = dict(rows)
        self.encoded: list[str] = []
        self.rows = Rows(self.encode)
        for name in rows:
            self.rows.touch(name)

    def encode(self, name: str) -> bytes:
        self.encoded.append(name)
        return b"%d" % self.table[name] if name in self.table else b""

    def put(self, name: str, value: int) -> None:
        self.table[name] = value
        self.rows.touch(name)

    def read(self) -> dict[str, int]:
        text = Text()
        text.rows("t", self.rows.encoded())
        found: dict[str, int] = json.loads(text.join())["t"]
        return found


def test_only_what_changed_is_encoded_again() -> None:
    made = Counting(a=1, b=2, c=3)
    assert made.rows.all() == [b'"a":1', b'"b":2', b'"c":3'] and made.encoded == ["a", "b", "c"]
    made.put("b", 5)
    del made.table["c"]
    made.rows.touch("c")
    assert made.rows.all() == [b'"a":1', b'"b":5'] and made.encoded == ["a", "b", "c", "b", "c"]
    assert made.rows.some(["b", "none", "a"]) == [b'"b":5', b'"a":1']


def test_steps_encode_what_had_changed_when_they_began() -> None:
    made = Counting(a=1, b=2, c=3)
    made.rows.begin()
    assert not made.rows.step(2)
    made.put("a", 9)
    made.put("d", 4)
    assert made.rows.step(2) and made.encoded == ["a", "b", "c"]
    assert made.read() == {"a": 1, "b": 2, "c": 3}
    made.rows.begin()
    assert made.rows.step(5) and made.read() == {"a": 9, "b": 2, "c": 3, "d": 4}


def test_a_write_that_begins_before_the_last_has_ended_has_the_rows_of_both() -> None:
    made = Counting(a=1, b=2)
    made.rows.begin()
    made.put("c", 3)
    made.rows.begin()
    assert made.rows.step(5) and made.read() == {"a": 1, "b": 2, "c": 3}


def test_rows_follow_names_that_nobody_told_of() -> None:
    made = Counting(a=1, b=2)
    made.rows.finish()
    made.table = {"b": 2, "c": 3}
    made.rows.follow(made.table)
    made.rows.finish()
    assert made.read() == {"b": 2, "c": 3} and made.encoded == ["a", "b", "c", "a"]


def test_a_text_of_nothing_and_of_much_is_strict_json() -> None:
    text = Text()
    text.member("v", b'{"x":1}')
    text.rows("none", [])
    text.rows("some", [b'"a":1', b'"b":{}'])
    assert json.loads(text.join()) == {"v": {"x": 1}, "none": {}, "some": {"a": 1, "b": {}}}
    assert b'\n"a":1,\n"b":{}' in text.join()


def test_a_long_text_is_whole() -> None:
    made = Counting(**{f"row{number}": number for number in range(2 * JOINED_AT_ONCE + 1)})
    made.rows.finish()
    assert made.read() == made.table
