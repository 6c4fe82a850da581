"""What an expression is told of a record's properties, and what is remembered of its answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bolide.broker.tables.pull_filter import predicate_of
from bolide.dispatch.sql92 import compile_sql92

NAMES = ["a", "b", "ab", "é", "a.b"]
RAW = st.one_of(
    st.lists(
        st.tuples(st.sampled_from([*NAMES, ""]), st.sampled_from(["1", "2.5", "x", "", "a\x011", "ÿ"])).map(
            lambda pair: f"{pair[0]}\x01{pair[1]}".encode()
        )
    ).map(b"\x02".join),
    st.lists(st.sampled_from([b"a", b"b", b"\x01", b"\x02", b"1", b"\xff", b"\xc3"])).map(b"".join),
)
EXPRESSIONS = [
    "a > 1",
    "a = 'x' OR b IS NULL",
    "ab BETWEEN 1 AND 3",
    "a IN ('1', 'x') AND NOT b = 'x'",
    "a = b",
]


@given(raws=st.lists(RAW, max_size=6))
def test_lookup_by_name_equals_full_parsing(raws: list[bytes]) -> None:
    for text in EXPRESSIONS:
        expression = compile_sql92(text)
        named = predicate_of(expression.evaluate, expression.names)
        whole = predicate_of(expression.evaluate)
        for raw in raws * 2:  # the second time it is remembered
            assert named(raw) is whole(raw), (text, raw)


def test_names_are_all_that_an_expression_looks_at() -> None:
    assert compile_sql92("a > 1 AND (b IS NULL OR NOT c) AND d IN ('x') AND a < 9 AND e CONTAINS 'y'").names == [
        "a", "b", "c", "d", "e",
    ]  # fmt: skip


def test_a_result_is_remembered_and_only_so_many_are() -> None:
    asked: list[str] = []

    def evaluate(properties: dict[str, str]) -> bool:
        asked.append(properties.get("a", ""))
        return properties.get("a") == "7"

    passes = predicate_of(evaluate, ["a"])
    assert [passes(b"a\x017\x02b\x01%d" % number) for number in range(50)] == [True] * 50
    assert asked == ["7"]
    for number in range(1000):
        assert passes(b"a\x01%d" % number) is (number == 7)
    assert passes(b"a\x017\x02")
    assert asked.count("7") > 1, "it was forgotten meanwhile"
    long = b"a\x01" + b"y" * 300
    assert [passes(long), passes(long)] == [False, False]
    assert asked[-2:] == ["y" * 300] * 2


def test_names_of_a_plug_in_may_be_any_text() -> None:
    for name in ("é", "\ud800", ""):
        assert predicate_of(lambda properties: properties.get("é") == "1", [name])("é\x011\x02".encode())
