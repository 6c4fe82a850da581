"""Warns if members of one group subscribe to a topic by different expressions.

Brokers store one subscription per topic for a whole group, the newest one. A member with another expression still gets
queues, and the group loses those messages in these queues that the newest expression does not select.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.protocol_json import json_body
from bolide.client.messages.subscription import Subscription
from bolide.errors import BolideError
from bolide.remoting import codes

log = logging.getLogger("bolide.client")


class OtherSubscriptions:
    """Expressions of other members of a group that were logged. Each is logged once until it changes."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._warned: dict[str, str] = {}

    async def compare(self, instance: ClientInstance, wanted: Subscription | None, broker_names: Sequence[str]) -> None:
        """Request the group's subscription from one broker, and warn if it is not `wanted`. Never raises `BolideError`:
        a broker that does not respond must not stop a rebalance."""
        address = instance.any_address(instance.world.random.choice(broker_names)) if broker_names else None
        if address is None or wanted is None:
            return
        ext = {"group": self._group, "topic": wanted.topic}
        try:
            answer = await instance.call(address, codes.QUERY_SUBSCRIPTION_BY_CONSUMER, ext)
            told = json_body(answer.body).get("subscriptionData") or {}
            expression, tags = str(told.get("subString") or ""), frozenset(map(str, told.get("tagsSet") or ()))
        except (BolideError, AttributeError, TypeError):
            return
        if not told or (wanted.tags == tags if wanted.tags else wanted.expression == expression):
            self._warned.pop(wanted.topic, None)
        elif self._warned.get(wanted.topic) != expression:
            self._warned[wanted.topic] = expression
            log.warning(
                "members of group %s subscribe to topic %s by different expressions, %r and %r here: brokers use only"
                " one, so messages are lost; give all members of a group the same subscriptions",
                self._group,
                wanted.topic,
                expression,
                wanted.expression,
            )
