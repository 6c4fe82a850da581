"""SQL92 filters that consumers of a golden store registered."""

from __future__ import annotations

import json

from bolide.dispatch.rebuild import FilterEntry, Filters
from bolide.dispatch.sql92 import EvaluationError, compile_sql92
from bolide.layout.bloom import member_text
from tests.golden.stores import GoldenStore


def registered_filters(golden: GoldenStore) -> tuple[Filters, int]:
    """The store's SQL92 filters, and the newest of their times of birth."""
    data = json.loads((golden.root / "config" / "consumerFilter.json").read_text("utf-8"))
    filters: dict[str, list[FilterEntry]] = {}
    newest = 0
    for topic, of_topic in data["filterDataByTopic"].items():
        for group, one in of_topic["groupFilterData"].items():
            expression = compile_sql92(one["expression"])
            positions = golden.shape.bloom.positions(member_text(group, topic))
            assert one["bloomFilterData"] == {"bitNum": golden.shape.bloom.bits, "bitPos": positions}

            def matches(properties, tags, expression=expression):  # type: ignore[no-untyped-def]  # a closure of a test
                try:
                    return expression.evaluate(properties) is True
                except EvaluationError:
                    return False

            filters.setdefault(topic, []).append(FilterEntry(tuple(positions), matches))
            newest = max(newest, one["bornTime"])
    return filters, newest
