"""A filter is chosen for an expression alone, as a request without a queue offset does."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.broker.core.outcome import Reply
from bolide.broker.pull.subscription_filters import SubscriptionFilters
from bolide.remoting import codes
from bolide.remoting.command import make_request
from tests.broker.parts import Parts


@pytest.mark.parametrize(
    ("kind", "text", "refusal"),
    [
        (None, None, None),
        ("TAG", "a || b", None),
        ("SQL92", "x > 1", None),
        ("SQL92", "x >", codes.SUBSCRIPTION_PARSE_FAILED),
        ("", None, codes.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_an_expression_gives_a_filter_or_a_refusal(
    tmp_path: Path, kind: str | None, text: str | None, refusal: int | None
) -> None:
    parts = Parts(tmp_path, enable_property_filter=True)
    filters = SubscriptionFilters(parts.options, parts.groups, parts.clients, parts.filters)
    chosen = filters.of_expression(make_request(codes.POP_MESSAGE, 0), "T", "g", kind, text)
    assert (chosen.response.code if isinstance(chosen, Reply) else None) == refusal
    parts.close()


def test_an_expression_is_refused_where_expressions_are_off(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    filters = SubscriptionFilters(parts.options, parts.groups, parts.clients, parts.filters)
    chosen = filters.of_expression(make_request(codes.POP_MESSAGE, 0), "T", "g", "SQL92", "x > 1")
    assert isinstance(chosen, Reply)
    assert chosen.response.code == codes.SYSTEM_ERROR
    parts.close()
