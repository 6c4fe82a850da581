"""Filters: SQL92 and tag expressions, from their text to their verdict on a message."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable
from typing import Final

from bolide.broker.expressions import ExpressionRefused, ExpressionTypes, compile_tags
from bolide.dispatch.sql92 import EvaluationError, Sql92Error, compile_sql92
from proof.fuzz import seeds
from proof.fuzz.target import Broken, Limits, Target

PROPERTIES: Final[tuple[dict[str, str], ...]] = (
    {"a": "5", "b": "abc", "c": "5.5", "d": "", "e": "1e2", "f": "NaN", "g": "-9223372036854775808", "TAGS": "x"},
    {
        "a": "",
        "b": "Infinity",
        "c": "0x10",
        "d": "5d",
        "e": "5L",
        "f": "true",
        "g": "9" * 400,
        "_v": "٣",
        "x": "\ud800",
    },
    {},
)
WORDS: Final = (
    *(b" AND ", b" OR ", b"NOT ", b" BETWEEN ", b" IN ('", b"')", b" IS NULL", b" IS NOT NULL", b" CONTAINS ", b"TRUE"),
    *(
        b" STARTSWITH '",
        b" ENDSWITH '",
        b"<>",
        b">=",
        b"--",
        b"/*",
        b"*/",
        b"''",
        b"1e308",
        b"9223372036854775807",
        b"5L",
    ),
    *(b"((((", b"))))", b"- - ", b"a = ", b" = TRUE", b"0.1", b".5E-3", b"$m", b"\xef\xbc\x91", b"||"),
)
GRAMMAR_DEPTH: Final = 4


def sql92(data: bytes) -> None:
    """A text is refused or compiled, as 4.9 and as 5.5, and then gives the same verdict each time."""
    text = data.decode("utf-8", "replace")
    for version in ("4.9", "5.5"):
        with contextlib.suppress(Sql92Error):
            expression = compile_sql92(text, version, max_operations=500)
            for properties in PROPERTIES:
                verdict = again = None
                with contextlib.suppress(EvaluationError):
                    verdict = expression.evaluate(properties)
                with contextlib.suppress(EvaluationError):
                    again = compile_sql92(text, version).evaluate(dict(properties))
                if verdict is not again or verdict not in (True, False, None):
                    raise Broken(f"{text!r:.150} is {verdict} and then {again}")


def sql92_grammar(data: bytes) -> None:
    """Expressions that follow the grammar, with odd literals: the deeper parts of parser and nodes."""
    chance = random.Random(data)
    sql92(_condition(chance, GRAMMAR_DEPTH).encode("utf-8", "replace"))


def _condition(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(("TRUE", "FALSE", "a", "f", "NULL", "a IS NULL", "NOT d"))
    left, right = (_condition(chance, depth - 1) for _ in range(2))
    value, low, high = (_value(chance, depth - 1) for _ in range(3))
    text = _literal(chance)
    order = chance.choice(("<", "<=", ">", ">="))
    word = chance.choice(("CONTAINS", "STARTSWITH", "NOT ENDSWITH"))
    return chance.choice(
        (
            *(f"{left} AND {right}", f"{left} OR {right}", f"NOT {left}", f"({left})", f"{left} = {right}"),
            *(f"{value} = {low}", f"{value} <> {low}", f"{value} {order} {low}", f"{left} IS NULL"),
            *(f"{value} BETWEEN {low} AND {high}", f"{value} NOT BETWEEN {low} AND {high}", f"{value} IS NOT NULL"),
            *(f"{chance.choice('abcdefg')} IN ('x', {text})", f"{value} {word} {text}"),
        )
    )


def _value(chance: random.Random, depth: int) -> str:
    if depth > 0 and chance.random() < 0.2:
        return f"({_condition(chance, depth - 1)})"
    number = chance.choice(
        ("0", "1", "5", "9223372036854775807", "9223372036854775808", "1.5", "1e300", "1e-300", "007")
    )
    return chance.choice((chance.choice("abcdefgx"), number, f"-{number}", f"+ - {number}", _literal(chance), "TAGS"))


def _literal(chance: random.Random) -> str:
    return chance.choice(("''", "'x'", "'it''s'", "'5'", "'中'", "'5.0'", "'\ufffd'"))


def tag_expression(data: bytes) -> None:
    """Tags separated by `||`, and expressions of any type's name."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(ValueError):
        compile_tags(text)
    types = ExpressionTypes(max_length=2048)
    name, _, rest = text.partition(":")
    for kind in (name, "TAG", "SQL92"):
        with contextlib.suppress(ExpressionRefused):
            compiled = types.compile(kind, rest)
            if compiled.evaluate is not None:
                compiled.evaluate(dict(PROPERTIES[0]))


def _filters() -> Iterable[bytes]:
    for text in seeds.filters()[::7]:
        yield text.encode("utf-8", "surrogatepass")


def _deep() -> Iterable[bytes]:
    for number in range(8):
        yield bytes([number])


def _tags() -> Iterable[bytes]:
    yield from (b"TAG:*", b"TAG:a || b", b"SQL92:a > 5 AND b = 'abc'", b"other:x", b"TAG:||")


TARGETS: Final = (
    Target("sql92", sql92, _filters, Limits(memory_per_byte=4000, steps=100_000, steps_per_byte=2000), words=WORDS),
    Target("sql92_grammar", sql92_grammar, _deep, Limits(steps=1_000_000), largest=16, cost=2),
    Target("tag_expression", tag_expression, _tags, Limits(steps_per_byte=2000), words=WORDS),
)
