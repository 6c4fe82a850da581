"""Expression types: tags, SQL92 and installed ones through one door."""

from __future__ import annotations

import pytest

from bolide.broker.expressions import Compile, Compiled, ExpressionRefused, ExpressionTypes, built_in
from bolide.broker.refused import response_code
from bolide.broker.tables.pull_filter import EVERYTHING, FilterCache
from bolide.layout.hashes import java_hash


def passing(prefix: str) -> Compiled:
    """A type of a plug-in: the property `city` begins with the text."""
    if not prefix:
        raise ValueError("nothing begins with nothing")
    return Compiled(None, lambda properties: properties["city"].startswith(prefix))


def with_begins(name: str) -> Compile:
    """The built-in types and the one above."""
    return passing if name == "BEGINS" else built_in(name)


def test_tags_are_codes() -> None:
    types = ExpressionTypes()
    assert types.compile("TAG", "a || b").tag_codes == {java_hash("a"), java_hash("b")}
    assert types.compile("TAG", "*").tag_codes is None
    assert types.compile("TAG", "").tag_codes is None
    assert types.compile("TAG", " * ").tag_codes == {java_hash("*")}  # Java's: only the star alone means all
    assert types.compile("TAG", "a||").tag_codes == {java_hash("a")}
    assert types.compile("TAG", " || ").tag_codes == set()
    for nothing in ("||", "||||"):
        with pytest.raises(ExpressionRefused, match=r"nothing between the \|\|"):
            types.compile("TAG", nothing)
    assert FilterCache(types).of_tags("*") is EVERYTHING


def test_sql_decides_on_properties() -> None:
    evaluate = ExpressionTypes().compile("SQL92", "a > 5").evaluate
    assert evaluate is not None
    assert [evaluate({"a": value}) for value in ("6", "5", "no number")] == [True, False, None]
    assert evaluate({}) is None


def test_rejected_expression_has_code_23() -> None:
    types = ExpressionTypes(with_begins)
    for name, text, says in (
        ("SQL92", "a = 5 AND", "filter"),
        ("BEGINS", "", "nothing begins"),
        ("XPATH", "a", "'XPATH' is unknown: use TAG or SQL92"),
    ):
        with pytest.raises(ExpressionRefused, match=says) as refused:
            types.compile(name, text)
        assert response_code(refused.value) == 23


def test_an_installed_type_filters_and_its_faults_drop_the_record() -> None:
    filters = FilterCache(ExpressionTypes(with_begins))
    chosen = filters.of("BEGINS", "Hang")
    assert chosen.expression and chosen.predicate is not None
    assert chosen.predicate(b"city\x01Hangzhou\x02")
    assert not chosen.predicate(b"city\x01Berlin\x02")
    assert not chosen.predicate(b"")  # the KeyError of the plug-in
    assert filters.of("BEGINS", "Hang") is chosen


def test_a_text_is_limited_whatever_its_type() -> None:
    types = ExpressionTypes(with_begins, max_length=20, max_operations=4)
    assert types.compile("SQL92", "NOT a = 1").operations == 4
    assert types.compile("BEGINS", "x" * 20).evaluate is not None
    for name, text, says in (
        ("SQL92", "NOT NOT a = 1", "more than 4 names"),
        ("SQL92", "a" * 21, "21 characters"),
        ("BEGINS", "x" * 21, "21 characters: maxFilterLength allows 20"),
        ("TAG", "x" * 21, "21 characters: maxFilterLength allows 20"),
    ):
        with pytest.raises(ExpressionRefused, match=says):
            types.compile(name, text)
