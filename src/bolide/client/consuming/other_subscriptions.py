"""Warns of members of one group that subscribe to a topic by different expressions.

Brokers keep one subscription of a topic for a whole group, the newest one. A member with another expression gets queues
all the same, and messages in them that the newest expression does not select are lost to the group.
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
    """The expressions of other members of a group that were warned about; each is logged once until it changes."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._warned: dict[str, str] = {}

    async def compare(self, instance: ClientInstance, wanted: Subscription | None, broker_names: Sequence[str]) -> None:
        """Ask one broker for the group's subscription, and warn if it is not `wanted`. Never raises `BolideError`: a
        broker that does not tell is no reason against a round of rebalance."""
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
                "another member of group %s subscribes to topic %s by %r and this one by %r: brokers use one of them"
                " for all members, so messages are lost; give all members of a group the same subscriptions",
                self._group,
                wanted.topic,
                expression,
                wanted.expression,
            )
