"""Which records a pull wants: tags by their hash in the queue unit, expressions on the stored properties.

Where the subscription comes from (the request or the group's heartbeat) and what is wrong with it: RocketMQ's
PullMessageProcessor and FilterAPI (docs/protocol/behaviour.md 1, docs/protocol/remoting.md 12 "SubscriptionData").
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
"""Names up to which each is looked for in the raw properties, which are not parsed then."""
_SIMPLE: Final = 32
"""Operations up to which an expression is cheaper to check than its result to remember."""
_RESULTS: Final = 128
_SHORT: Final = 256
"""Bytes of values up to which a result is remembered: a thousand filters together keep some 40 MB at the worst."""
PARSING: Final = 20
"""What it costs to read the properties of a record, in operations of an expression."""


@final
class PullFilter:
    """`tag_codes` None = any tag; `predicate` None = no expression. Both pass = the record is delivered.

    `units` looks at filter bitmaps beforehand, where the queue has them.
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
        """True when the filter is not a list of tags (needs enablePropertyFilter)."""
        self.expression_type: str = SQL92
        self.units: UnitFilter | None = units
        self.cost: int = 1
        """What checking one record costs, compared with checking its tags."""


EVERYTHING: Final = PullFilter(None, None, False)


@final
class FilterCache:
    """Builds filters and remembers them: a group asks with the same few texts all day."""

    def __init__(self, types: ExpressionTypes | None = None) -> None:
        self._types: Any = types if types is not None else ExpressionTypes()
        self._tags: dict[str, PullFilter] = {}
        self._others: dict[tuple[str, str], PullFilter] = {}

    def of_tags(self, text: str) -> PullFilter:
        """Filter for a tag expression: `*`, or tags separated by `||`."""
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
        """Filter for a subscription as registered: the client computed the hashes itself."""
        return EVERYTHING if text == SUB_ALL else PullFilter(codes, None, False)

    def of(self, expression_type: str, text: str) -> PullFilter:
        """Filter for an expression of a type that is not TAG. Raises `ExpressionRefused` (23) when it is none."""
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
    """True for tag filters: the type is absent, empty or TAG."""
    return expression_type is None or expression_type == "" or expression_type == TAG


@final
class _WholePredicate:
    """Evaluates an expression that may look at any property."""

    def __init__(self, evaluate: Callable[[dict[str, str]], bool | None]) -> None:
        self._evaluate: Callable[[dict[str, str]], bool | None] = evaluate

    def passes(self, properties: bytes) -> bool:
        """Whether the expression is true of these raw properties."""
        try:
            return self._evaluate(parse_properties_bytes(properties)) is True
        except Exception:  # whatever an installed type raises: Java drops the record, too
            return False


@final
class _NamedPredicate:
    """Evaluates an expression that looks at few properties, and remembers what it came to for their values."""

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
        """Whether the expression is true of these raw properties."""
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
    """True only where the expression is true: false, null and an error of evaluation all drop the record.

    `names` are the only properties that the expression looks at; None: any. `on_raw` is a cheaper `evaluate`.
    """
    if names is not None and len(names) <= _FEW and all(name and name.isascii() for name in names):
        return _NamedPredicate(evaluate, list(names), on_raw).passes
    return _WholePredicate(evaluate).passes if on_raw is None else on_raw


__all__ = ["EVERYTHING", "ExpressionRefused", "FilterCache", "PullFilter", "is_tag"]
