"""SQL92 filters answer as both of RocketMQ's releases did, and hostile ones are refused instead of recursing."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.dispatch.sql92 import MAX_LENGTH, EvaluationError, Sql92Error, compile_sql92

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent.parent / "data/protocol/sql92_vectors.json").read_text())


def outcome(text: str, version: str, properties: dict[str, str] | None) -> str:
    """What became of it, in the words of the vectors."""
    try:
        compiled = compile_sql92(text, version)
    except Sql92Error:
        return "refused"
    try:
        return {True: "true", False: "false", None: "null"}[compiled.evaluate(properties or {})]
    except EvaluationError:
        return "error"


@pytest.mark.parametrize(("release", "version"), [("5.5.0", "5.5"), ("4.9.7", "4.9")])
def test_every_case_java_answered(release: str, version: str) -> None:
    wrong = []
    for case in VECTORS["cases"]:
        got = outcome(case["expression"], version, VECTORS["property_sets"][case["properties"]])
        if got != case[release]:
            wrong.append(f"{case['expression']!r} on {case['properties']}: {got}, Java says {case[release]}")
    assert wrong == []
    assert len(VECTORS["cases"]) == VECTORS["meta"]["count"] == 1099


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p = 'x' 'y''z", "true"),  # the string behind the prefix is closed, what follows it is not looked at
        ("p = 'x''", "refused"),  # falls back to 'x', and what follows begins no token
        ("z = 0L AND p = 1", "true"),  # 0L is 0 and the name L, so the prefix ends there
        ("NULL BETWEEN 1 AND 2", "refused"),
        ("w BETWEEN 9 AND -1", "false"),  # a negated number is no literal, so nothing is refused
        ("w > -'x'", "null"),
        ("w = 2147483647", "true"),
        ("-2147483648 = m", "true"),
        ("nz < zz", "true"),  # -0.0 is below 0.0
        ("arabic = 5", "true"),  # digits of any script
        ("arabic = 5.0", "error"),  # but not in a double
        ("hexf = 1.5", "true"),
        ("hexf > w", "false"),
        ("a -- no line end", "null"),
        ("(p > 1) CONTAINS 'x'", "error"),
        ("(p > 1) CONTAINS ''", "false"),  # an empty literal decides before its operand is looked at
    ],
)
def test_corners_of_java(text: str, expected: str) -> None:
    properties = {
        "p": "x", "z": "0", "w": "2147483647", "m": "-2147483648", "nz": "-0.0", "zz": "0",
        "arabic": "\u0665", "hexf": "0x1.8p0",
    }  # fmt: skip
    assert outcome(text, "5.5", properties) == expected


@pytest.mark.parametrize(
    "text",
    [
        "(" * 65 + "TRUE" + ")" * 65,
        "NOT " * 65 + "TRUE",
        "a > " + "- " * 65 + "1",
        "a" + " = TRUE" * 200,
        "(" * 60_000,
        "a = 1" + " " * MAX_LENGTH,
        "a = " + "9" * 60_000,
    ],
)
def test_bombs_are_refused(text: str) -> None:
    with pytest.raises(Sql92Error) as refused:
        compile_sql92(text)
    assert refused.value.code == 23


def test_a_long_flat_filter_is_no_bomb() -> None:
    text = " OR ".join(f"a = {number}" for number in range(4000))
    assert compile_sql92(text).evaluate({"a": "3999"}) is True
    assert compile_sql92("(" * 64 + "a = 1" + ")" * 64).evaluate({"a": "1"}) is True


def test_errors_pickle() -> None:
    with pytest.raises(Sql92Error) as refused:
        compile_sql92("a = #")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    assert "'#' at character 4" in str(refused.value)


@given(st.text(alphabet="ab15.'\"()<>=+-eELl/*# \n,_$ANDORTIS", max_size=40), st.sampled_from(["5.5", "4.9"]))
def test_any_text_is_compiled_or_refused(text: str, version: str) -> None:
    outcome(text, version, {"a": "5", "b": "x"})


def test_cost_of_a_filter_is_limited() -> None:
    for text, operations in (("a", 1), ("a = 1", 3), ("NOT a", 2), ("a IN ('x', 'y', 'z')", 2), ("(a = 1) OR b", 6)):
        assert compile_sql92(text, max_operations=operations).operations == operations
        with pytest.raises(Sql92Error, match=f"more than {operations - 1} names, literals and operators"):
            compile_sql92(text, max_operations=operations - 1)
    with pytest.raises(Sql92Error, match="has 5 characters, more than 4"):
        compile_sql92("a = 1", max_length=4)
