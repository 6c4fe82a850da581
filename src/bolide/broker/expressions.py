"""Expression types, which compile a subscription's text to a filter. TAG and SQL92 are built in; plug-ins add others.

A type is a function from the text to a `Compiled`. It may raise any exception for an invalid text, preferably a
`BolideError` of one sentence. RocketMQ's FilterFactory and FilterAPI (docs/protocol/behaviour.md 1 and 14).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from bolide.dispatch.sql92 import MAX_LENGTH, MAX_OPERATIONS, EvaluationError, Sql92Error, compile_sql92
from bolide.errors import PeerError
from bolide.layout.hashes import java_hash
from bolide.layout.words import TAG_SEPARATOR, split_tags

TAG: Final = "TAG"
SQL92: Final = "SQL92"
SUB_ALL: Final = "*"

Evaluate: TypeAlias = Callable[[dict[str, str]], bool | None]


class Compiled:
    """A filter: `tag_codes` (None: any tag) on the queue unit, then `evaluate` (None: no test) on the properties.

    Only True delivers a record; False, None and an exception drop it. `operations` is the cost of `evaluate`. With
    `names`, it receives only these properties, and must return the same result for the same values. `on_raw` is
    `evaluate` for stored properties, and does not raise.
    """

    def __init__(
        self,
        tag_codes: set[int] | None = None,
        evaluate: Evaluate | None = None,
        operations: int = 10,
        names: Sequence[str] | None = None,
        on_raw: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.tag_codes = tag_codes
        self.evaluate = evaluate
        self.operations = operations
        self.names = names
        self.on_raw = on_raw


Compile: TypeAlias = Callable[[str], Compiled]


class ExpressionRefused(PeerError):
    """An invalid expression or an unknown expression type. The response code is 23."""

    response_code = Sql92Error.code


def compile_tags(text: str) -> Compiled:
    """Compile `*` or "" for every message, or tags separated by `||`. Blank tags never match. Raises `ValueError`."""
    if text in ("", SUB_ALL):
        return Compiled(None)
    parts = text.split(TAG_SEPARATOR)
    if not any(parts):
        raise ValueError("there is nothing between the || of the tags: name tags, or * for all")
    return Compiled({int(java_hash(tag)) for tag in split_tags(text)})


def compile_sql(text: str, max_length: int = MAX_LENGTH, max_operations: int = MAX_OPERATIONS) -> Compiled:
    """Compile SQL92 as Java accepts it, within limits. Raises `Sql92Error`."""
    expression = compile_sql92(text, max_length=max_length, max_operations=max_operations)

    def evaluate(properties: dict[str, str]) -> bool | None:
        try:
            return expression.evaluate(properties)
        except EvaluationError:
            return None

    raw = expression.on_raw()
    on_raw = None if raw is None else raw.passes
    return Compiled(None, evaluate, expression.operations, expression.names, on_raw)


def built_in(name: str) -> Compile:
    """Return the built-in type with this name. Raises `ExpressionRefused` for any other."""
    found = {TAG: compile_tags, SQL92: compile_sql}.get(name)
    if found is None:
        raise ExpressionRefused(f"the expression type {name!r} is unknown: use {TAG} or {SQL92}")
    return found


class ExpressionTypes:
    """Expression types of one broker by name. `find` returns built-in and installed types, and raises for an unknown
    name.

    Texts longer than `max_length` are rejected. `max_operations` limits SQL92, which every client may use.
    """

    def __init__(
        self,
        find: Callable[[str], Compile] = built_in,
        max_length: int = 32_768,
        max_operations: int = 5_000,
    ) -> None:
        self._find = find
        self._max_length = max_length
        self._max_operations = max_operations
        self._types: dict[str, Compile] = {}

    def compile(self, name: str, text: str) -> Compiled:
        """Compile a text to a filter. Raises `ExpressionRefused`."""
        try:
            kind = self._types.get(name)
            if kind is None:
                kind = self._types[name] = self._find(name)
            if kind is compile_sql:
                return compile_sql(text, self._max_length, self._max_operations)
            if len(text) > self._max_length:
                raise ExpressionRefused(
                    f"the expression has {len(text)} characters: maxFilterLength allows {self._max_length}"
                )
            return kind(text)
        except Exception as error:  # a plug-in may raise anything, and the text is then rejected
            raise ExpressionRefused(f"{error}") from error
