"""An expression type and a rebalance strategy."""

from __future__ import annotations

from collections.abc import Sequence

from bolide.broker.expressions import Compiled
from bolide.client import MessageQueue


def begins(text: str) -> Compiled:
    """The property `city` begins with the text."""
    if not text.isalpha():
        raise ValueError(f"{text!r} is no beginning of a city")
    return Compiled(None, lambda properties: properties["city"].startswith(text))


def first_takes_all(
    group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[MessageQueue]:
    """One client reads everything, the others wait for its end."""
    return list(queues) if client_id == clients[0] else []
