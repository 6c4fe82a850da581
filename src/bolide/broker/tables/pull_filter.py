"""Filters of pulls: tags by their hash in the queue unit, expressions on the stored properties.

RocketMQ's PullMessageProcessor and FilterAPI define the source of the subscription (request or heartbeat) and its
errors (docs/protocol/behaviour.md 1, docs/protocol/remoting.md 12 "SubscriptionData").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from mypy_extensions import i64

from bolide.broker.expressions import SQL92, SUB_ALL, TAG, ExpressionRefused, ExpressionTypes
from bolide.layout.properties import parse_properties_bytes, raw_value, text_of
from bolide.store.queues.unit_filter import UnitFilter

_REMEMBERED: Final = 1000
_FEW: Final = 4
"""Maximum number of names that are searched in the raw properties, without parsing them."""
_SIMPLE: Final = 32
"""Number of operations up to which it is cheaper to evaluate an expression than to cache its result."""
_RESULTS: Final = 128
_SHORT: Final = 256
"""Maximum size in bytes of cached values: a thousand filters use at most about 40 MB."""
PARSING: Final = 20
"""Cost of parsing the properties of a record, in operations of an expression."""


@final
class PullFilter:
    """A pull delivers records that pass `tag_codes` (None: any tag) and `predicate` (None: no expression).

    `units` checks filter bitmaps first, if the queue has them.
    """

    def __init__(
        self,
        tag_codes: set[int] | None,
        predicate: Callable[[bytes], bool] | None,
        expression: bool,
        units: UnitFilter | None = None,
    ) -> None:
        self.tag_codes: set[int] | None = tag_codes
        self.predicate: Callable[[bytes], bool] | None = predicate
        self.expression: bool = expression
        """Whether the filter is not a list of tags (needs enablePropertyFilter)."""
        self.expression_type: str = SQL92
        self.units: UnitFilter | None = units
        self.cost: int = 1
        """Cost of checking one record, relative to a check of its tags."""


EVERYTHING: Final = PullFilter(None, None, False)


@final
class FilterCache:
    """Creates and caches filters, because a group repeats the same few texts."""

    def __init__(self, types: ExpressionTypes | None = None) -> None:
        self._types: Any = types if types is not None else ExpressionTypes()
        self._tags: dict[str, PullFilter] = {}
        self._others: dict[tuple[str, str], PullFilter] = {}

    def of_tags(self, text: str) -> PullFilter:
        """Return the filter for a tag expression: `*`, or tags separated by `||`."""
        known = self._tags.get(text)
        if known is not None:
            return known
        codes: set[int] | None = self._types.compile(TAG, text).tag_codes
        made = EVERYTHING if codes is None else PullFilter(codes, None, False)
        if len(self._tags) >= _REMEMBERED:
            self._tags.clear()
        self._tags[text] = made
        return made

    def of_codes(self, text: str, codes: set[int]) -> PullFilter:
        """Return the filter for a registered subscription, whose hashes the client computed."""
        return EVERYTHING if text == SUB_ALL else PullFilter(codes, None, False)

    def of(self, expression_type: str, text: str) -> PullFilter:
        """Return the filter for an expression of a type other than TAG. Raises `ExpressionRefused` (23) if it is
        invalid."""
        known = self._others.get((expression_type, text))
        if known is not None:
            return known
        compiled: Any = self._types.compile(expression_type, text)
        predicate = None
        if compiled.on_raw is not None and compiled.operations <= _SIMPLE:
            predicate = compiled.on_raw
        elif compiled.evaluate is not None:
            predicate = predicate_of(compiled.evaluate, compiled.names, compiled.on_raw)
        made = PullFilter(compiled.tag_codes, predicate, True)
        made.expression_type = expression_type
        made.cost = PARSING + compiled.operations
        if len(self._others) >= _REMEMBERED:
            self._others.clear()
        self._others[expression_type, text] = made
        return made


def is_tag(expression_type: str | None) -> bool:
    """Return whether this is a tag filter: the type is absent, empty or TAG."""
    return expression_type is None or expression_type == "" or expression_type == TAG


@final
class _WholePredicate:
    """Evaluates an expression that may read any property."""

    def __init__(self, evaluate: Callable[[dict[str, str]], bool | None]) -> None:
        self._evaluate: Callable[[dict[str, str]], bool | None] = evaluate

    def passes(self, properties: bytes) -> bool:
        """Return whether the expression is true for these raw properties."""
        try:
            return self._evaluate(parse_properties_bytes(properties)) is True
        except Exception:  # whatever an installed type raises: Java drops the record, too
            return False


@final
class _NamedPredicate:
    """Evaluates an expression that reads few properties, and caches its results by their values."""

    def __init__(
        self,
        evaluate: Callable[[dict[str, str]], bool | None],
        names: list[str],
        on_raw: Callable[[bytes], bool] | None,
    ) -> None:
        self._evaluate: Callable[[dict[str, str]], bool | None] = evaluate
        self._on_raw: Callable[[bytes], bool] | None = on_raw
        self._names: list[str] = names
        self._wanted: list[bytes] = [name.encode("ascii") + b"\x01" for name in names]
        self._known: dict[tuple[bytes | None, ...], bool] = {}

    def passes(self, properties: bytes) -> bool:
        """Return whether the expression is true for these raw properties."""
        values: list[bytes | None] = []
        size: i64 = 0
        for wanted in self._wanted:
            value = raw_value(properties, wanted)
            if value is not None:
                size += len(value)
            values.append(value)
        key = tuple(values)
        known = self._known.get(key)
        if known is not None:
            return known
        on_raw = self._on_raw
        passes = self._passes(values) if on_raw is None else on_raw(properties)
        if size <= _SHORT:
            if len(self._known) >= _RESULTS:
                self._known.clear()
            self._known[key] = passes
        return passes

    def _passes(self, values: list[bytes | None]) -> bool:
        properties: dict[str, str] = {}
        for index, value in enumerate(values):
            if value is not None:
                properties[self._names[index]] = text_of(value)
        try:
            return self._evaluate(properties) is True
        except Exception:  # as above
            return False


def predicate_of(
    evaluate: Callable[[dict[str, str]], bool | None],
    names: Sequence[str] | None = None,
    on_raw: Callable[[bytes], bool] | None = None,
) -> Callable[[bytes], bool]:
    """Return a predicate that is True only if the expression is true: false, null and evaluation errors drop the
    record.

    `names`: the only properties that the expression reads; None: any. `on_raw`: a cheaper `evaluate`.
    """
    if names is not None and len(names) <= _FEW and all(name and name.isascii() for name in names):
        return _NamedPredicate(evaluate, list(names), on_raw).passes
    return _WholePredicate(evaluate).passes if on_raw is None else on_raw


__all__ = ["EVERYTHING", "ExpressionRefused", "FilterCache", "PullFilter", "is_tag"]
