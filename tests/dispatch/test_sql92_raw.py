"""Checks of raw properties come to what the tree comes to, for any filter that compiles and any bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bolide.dispatch.sql92 import EvaluationError, Expression, Sql92Error, compile_sql92
from bolide.dispatch.sql92_raw import RawFilter
from bolide.layout.properties import format_properties, parse_properties_bytes
from tests.dispatch.sql92_texts import NAMES, VALUES, Texts, expressions, property_maps

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent.parent / "data/protocol/sql92_vectors.json").read_text())
WORDS = ("false", "true", "null", "error")

PIECES = st.one_of(
    st.sampled_from([value.encode() for value in VALUES]),
    st.integers(-(2**70), 2**70).map(lambda number: b"%d" % number),
    st.floats().map(lambda number: repr(number).encode()),
    st.from_regex(rb"\A-?[0-9]{0,20}\.?[0-9]{0,3}\Z"),
    st.sampled_from(
        [b"\xff", b"\xc3", b"a\xe2\x82", b"\xf0\xc3\xa9", b"\xed\xa0\x80", b"a\x01b", b"5\x00", b"x" * 100]
    ),
)
PAIRS = st.tuples(st.sampled_from([*NAMES, "", "xa", "A"]), PIECES).map(
    lambda pair: pair[0].encode() + b"\x01" + pair[1]
)
SCRAPS = st.sampled_from([b"a", b"a\x01", b"\x01", b"", b"\x01\x01", b"n\x01\x01"])
RAW = st.tuples(st.lists(st.one_of(PAIRS, SCRAPS), max_size=8), st.sampled_from([b"", b"\x02"])).map(
    lambda drawn: b"\x02".join(drawn[0]) + drawn[1]
)


def compiled(text: str) -> tuple[Expression, RawFilter] | None:
    """Both forms; None where the text is refused."""
    try:
        expression = compile_sql92(text)
    except Sql92Error:
        return None
    raw_filter = expression.on_raw()
    assert raw_filter is not None
    return expression, raw_filter


def by_tree(expression: Expression, raw: bytes) -> str:
    """What the tree comes to, in the words of the vectors."""
    try:
        return {True: "true", False: "false", None: "null"}[expression.evaluate(parse_properties_bytes(raw))]
    except EvaluationError:
        return "error"


def test_every_case_java_answered() -> None:
    wrong = []
    checked = 0
    for case in VECTORS["cases"]:
        properties = VECTORS["property_sets"][case["properties"]] or {}
        forms = compiled(case["expression"])
        if forms is None or "" in properties.values():
            continue  # a stored property has no empty value
        checked += 1
        got = WORDS[forms[1].value(format_properties(properties).encode())]
        if got != case["5.5.0"]:
            wrong.append(f"{case['expression']!r} on {case['properties']}: {got}, Java says {case['5.5.0']}")
    assert wrong == []
    assert checked > 600


def test_expressions_from_the_grammar_on_property_maps() -> None:
    raws = [format_properties(properties).encode() for properties in property_maps()]
    checked = 0
    for text in expressions():
        forms = compiled(text)
        if forms is not None:
            for raw in raws:
                assert WORDS[forms[1].value(raw)] == by_tree(forms[0], raw), (text, raw)
            checked += 1
    assert checked > 1000


@given(seed=st.integers(0, 1 << 32), raws=st.lists(RAW, min_size=1, max_size=8))
def test_expressions_from_the_grammar_on_any_bytes(seed: int, raws: list[bytes]) -> None:
    texts = Texts(seed)
    for _ in range(10):
        forms = compiled(text := texts.text())
        if forms is not None:
            for raw in raws:
                assert WORDS[forms[1].value(raw)] == by_tree(forms[0], raw), text


NUMBERS = ["5", "0", "2147483647", "2147483648", "9223372036854775807", "0.5", "5.0", "1e2", "0.1", "123456789012345.6"]


@given(
    number=st.sampled_from(NUMBERS + ["-" + number for number in NUMBERS]),
    symbol=st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    turned=st.booleans(),
    piece=PIECES,
)
@example("-0.5", ">", False, b"-0")
@example("5", "=", True, b"")
@example("2147483647", "<", False, b"2147483648")
@example("-2147483648", "=", False, b"-2147483648")
@example("2147483647", ">", False, b"-2147483648")
@example("2147483647", ">", False, b"-2147483649")
@example("9223372036854775807", "=", False, b"9223372036854775807")
@example("5", "=", False, b"-")
@example("0.5", "=", False, b".")
@example("0.5", "<", False, b"1_0")
@example("0.5", "=", False, b".5")
def test_comparisons_with_a_number(number: str, symbol: str, turned: bool, piece: bytes) -> None:
    text = f"{number} {symbol} a" if turned else f"a {symbol} {number}"
    forms = compiled(text)
    if forms is None:
        return
    for raw in (b"a\x01" + piece, b"b\x015\x02a\x01" + piece + b"\x02", b"b\x015"):
        assert WORDS[forms[1].value(raw)] == by_tree(forms[0], raw), (text, raw)


@pytest.mark.parametrize("operator", ["= ", "<> ", "CONTAINS ", "NOT CONTAINS ", "STARTSWITH ", "ENDSWITH ", "IN ("])
@pytest.mark.parametrize("sought", ["é", "\ufffd", chr(0xD800), "a\ufffd", "b", "\x02", "a\x01b"])
def test_texts_in_broken_utf_8(operator: str, sought: str) -> None:
    forms = compiled(f"a {operator}'{sought}'" + (")" if "(" in operator else ""))
    assert forms is not None
    for value in (
        "é".encode(),
        b"\xc3",
        b"\xff",
        b"\xf0\xc3\xa9",
        b"\xc3\xa9b",
        b"a\xff",
        "\ufffd".encode(),
        b"a\x01b",
    ):
        for raw in (b"a\x01" + value, b"a\x01" + value + b"\x02b\x015\x02"):
            assert WORDS[forms[1].value(raw)] == by_tree(forms[0], raw), (sought, raw)


def test_each_record_is_looked_at_afresh() -> None:
    forms = compiled("a = 5 OR a = 6 OR b = 'x'")
    assert forms is not None
    raws = [
        b"a\x015\x02",
        b"a\x017\x02",
        b"",
        b"b\x01x",
        b"a\x016\x02b\x01y\x02",
        b"a\x01" + b"9" * 200 + b"\x02b\x01x",
    ]
    assert [forms[1].passes(raw) for raw in raws] == [True, False, False, True, True, False]


def test_many_names_are_left_to_the_tree() -> None:
    sixteen = " OR ".join(f"a{number} = 1" for number in range(16))
    assert compile_sql92(sixteen).on_raw() is not None
    assert compile_sql92(f"{sixteen} OR b = 1").on_raw() is None
