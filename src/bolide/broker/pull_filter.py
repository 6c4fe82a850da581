"""Which records a pull wants: tags by their hash in the queue unit, SQL92 on the stored properties.

Where the subscription comes from (the request or the group's heartbeat) and what is wrong with it: RocketMQ's
PullMessageProcessor and FilterAPI (protocol/behaviour.md 1, protocol/remoting.md 12 "SubscriptionData").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from bolide.dispatch.sql92 import EvaluationError, Sql92Error, compile_sql92
from bolide.layout.hashes import java_hash
from bolide.layout.properties import parse_properties_bytes

TAG: Final = "TAG"
SQL92: Final = "SQL92"
SUB_ALL: Final = "*"
_REMEMBERED: Final = 1000


@final
class PullFilter:
    """`tag_codes` None = any tag; `predicate` None = no expression. Both pass = the record is delivered."""

    def __init__(self, tag_codes: set[int] | None, predicate: Callable[[bytes], bool] | None, expression: bool) -> None:
        self.tag_codes: set[int] | None = tag_codes
        self.predicate: Callable[[bytes], bool] | None = predicate
        self.expression: bool = expression
        """True when the filter is not a list of tags (needs enablePropertyFilter)."""


EVERYTHING: Final = PullFilter(None, None, False)


@final
class Filters:
    """Builds filters and remembers them: a group asks with the same few texts all day."""

    def __init__(self) -> None:
        self._tags: dict[str, PullFilter] = {}
        self._sql: dict[str, PullFilter] = {}

    def of_tags(self, text: str) -> PullFilter:
        """Filter for a tag expression: `*`, or tags separated by `||`."""
        known = self._tags.get(text)
        if known is not None:
            return known
        codes = {int(java_hash(tag.strip())) for tag in text.split("||") if tag.strip()}
        made = EVERYTHING if not codes or text.strip() == SUB_ALL else PullFilter(codes, None, False)
        if len(self._tags) >= _REMEMBERED:
            self._tags.clear()
        self._tags[text] = made
        return made

    def of_codes(self, text: str, codes: set[int]) -> PullFilter:
        """Filter for a subscription as registered: the client computed the hashes itself."""
        if text == SUB_ALL or not codes:
            return EVERYTHING
        return PullFilter(codes, None, False)

    def of_sql(self, text: str) -> PullFilter:
        """Filter for an SQL92 expression. Raises `Sql92Error` (code 23) when it does not compile."""
        known = self._sql.get(text)
        if known is not None:
            return known
        compiled: Any = compile_sql92(text)
        made = PullFilter(None, sql_predicate(compiled), True)
        if len(self._sql) >= _REMEMBERED:
            self._sql.clear()
        self._sql[text] = made
        return made


def is_tag(expression_type: str | None) -> bool:
    """True for tag filters: the type is absent, empty or TAG."""
    return expression_type is None or expression_type == "" or expression_type == TAG


def sql_predicate(compiled: Any) -> Callable[[bytes], bool]:
    """True only where the expression is true: false, null and an error of evaluation all drop the record."""

    def passes(properties: bytes) -> bool:
        try:
            return compiled.evaluate(parse_properties_bytes(properties)) is True
        except EvaluationError:
            return False

    return passes


__all__ = ["EVERYTHING", "Filters", "PullFilter", "Sql92Error", "is_tag"]
