"""Converts a condition of Spark to options of the source, if both mean exactly the same.

Spark has already parsed and typed the condition. This module visits its expression, a tree of Java objects, and
converts every term of a conjunction separately. A term that cannot be converted is not an error: Spark applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bolide.layout.words import java_trim
from bolide.spark.option_values import moment
from bolide.spark.source.row_filters import EVERY_TAG, MAX_OFFSET

Narrowing: TypeAlias = dict[str, str]
"""Options that a term adds or replaces, by their names."""

_FLIPPED: Final = {
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "EqualTo": "EqualTo",
}
_LISTED: Final = {"topic": "subscribe", "broker": "brokers", "queue_id": "queueIds"}


@dataclass(frozen=True)
class Term:
    """A comparison of a column with values. `operator` is Spark's name, such as `In` for one of several values."""

    column: str
    operator: str
    values: tuple[Any, ...]


def terms_of(condition: Any) -> list[Term | None]:
    """Return the terms of a conjunction, with None for each that does not compare a column with constants."""
    kind = condition.getClass().getSimpleName()
    if kind == "And":
        return [*terms_of(condition.left()), *terms_of(condition.right())]
    if kind == "Between":
        column, low, high = condition.input(), condition.lower(), condition.upper()
        return [_term("GreaterThanOrEqual", column, [low]), _term("LessThanOrEqual", column, [high])]
    if kind == "In":
        found = condition.list()
        return [_term("In", condition.value(), [found.apply(at) for at in range(found.size())])]
    if kind == "ArrayContains":
        return [_term(kind, condition.left(), [condition.right()])]
    if kind in _FLIPPED:
        left, right = condition.left(), condition.right()
        return [_term(_FLIPPED[kind], right, [left]) if left.foldable() else _term(kind, left, [right])]
    return [None]


def _term(operator: str, column: Any, constants: list[Any]) -> Term | None:
    if column.getClass().getSimpleName() != "AttributeReference" or not all(one.foldable() for one in constants):
        return None
    values = [one.eval(None) for one in constants]
    if any(value is None for value in values):
        return None  # a comparison with null is never true: left to Spark
    return Term(column.name(), operator, tuple(v if isinstance(v, (int, bool)) else str(v) for v in values))


def narrowing_of(term: Term, given: Mapping[str, str]) -> Narrowing | None:
    """Return the given options extended by the options of a term, or None if options cannot express the term."""
    if term.column in _LISTED and term.operator in ("EqualTo", "In"):
        option = _LISTED[term.column]
        if option == "subscribe" and option not in given:
            return None
        return _fewer(option, [str(value) for value in term.values], given, ",")
    if term.column == "tags" and term.operator in ("EqualTo", "In"):
        values = [str(value) for value in term.values]
        if any(not v or v != java_trim(v) or "|" in v or v == EVERY_TAG for v in values):
            return None
        return _fewer("tags", values, given, "||")
    if term.column == "keys" and term.operator == "ArrayContains" and "keys" not in given:
        return _fewer("keys", [str(value) for value in term.values], given, ",")
    if term.column == "queue_offset":
        return _bounds(term, "offsetFrom", "offsetTo", 1, given)
    if term.column == "store_timestamp":
        return _bounds(term, "storedFrom", "storedTo", 1000, given)
    return None


def _fewer(option: str, values: list[str], given: Mapping[str, str], separator: str) -> Narrowing | None:
    """Return the values that the given options also allow, or None if there are none, which options cannot express."""
    if separator == "," and any(not v or v != java_trim(v) or set(v) & set(",; ") for v in values):
        return None
    before = given.get(option, "")
    if separator == ",":
        before = before.replace(";", ",")
    allowed = [part for part in map(java_trim, before.split(separator)) if part and part != EVERY_TAG]
    left = [value for value in dict.fromkeys(values) if not allowed or value in allowed]
    return {option: f" {separator} ".join(left) if separator == "||" else separator.join(left)} if left else None


def _bounds(term: Term, low: str, high: str, unit: int, given: Mapping[str, str]) -> Narrowing | None:
    """Return the options for a range of integers. A column value is `unit` of them, and `high` is exclusive."""
    value = term.values[0]
    if len(term.values) != 1 or not isinstance(value, int) or value < 0:
        return None
    at_least, after = -(-value // unit), value // unit + 1
    found: Narrowing = {}
    if term.operator == "EqualTo":
        if value % unit:
            return None
        at_least = value // unit
    if term.operator in ("GreaterThanOrEqual", "EqualTo"):
        found[low] = str(at_least)
    elif term.operator == "GreaterThan":
        found[low] = str(after)
    if term.operator in ("LessThanOrEqual", "EqualTo"):
        found[high] = str(after)
    elif term.operator == "LessThan":
        found[high] = str(at_least)
    if any(int(bound) > MAX_OFFSET for bound in found.values()) or found.get(high) == "0":
        return None
    if not all(given.get(option, "0").isdigit() for option in found):
        return None  # a time written as text: left to Spark
    if low in found:
        found[low] = str(max(int(found[low]), int(given.get(low, "0"))))
    if high in found and int(given.get(high, "0")):
        found[high] = str(min(int(found[high]), int(given[high])))
    begin, end = (_number(name, {**given, **found}.get(name, "0")) for name in (low, high))
    if 0 < end < begin:
        return None  # no row matches, which options cannot express
    return found or None


def _number(name: str, text: str) -> int:
    return int(text) if text.isdigit() else moment(name, text)
