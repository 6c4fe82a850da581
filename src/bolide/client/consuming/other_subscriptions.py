"""Warns if members of one group subscribe to different topics, or to a topic by different expressions.

Brokers store one subscription per topic for a whole group, the newest one, and a heartbeat removes the topics that it
does not contain (docs/protocol/behaviour.md 6.1). A member with another expression still gets queues, and the group
loses those messages in these queues that the newest expression does not select. A member without the topic also gets
queues of it, and does not read them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.protocol_json import json_body
from bolide.client.messages.subscription import Subscription
from bolide.errors import BolideError
from bolide.remoting import codes

log = logging.getLogger("bolide.client")

CERTAIN: Final = 2.0
"""Time between two sightings of a missing topic before the warning. Every member sends a heartbeat in that time, so a
member that starts, or a broker that restarts, does not cause a warning."""
FORGOTTEN: Final = 20.0
"""Maximum time between two sightings; a later one is a first sighting. Both times are in heartbeat intervals."""


class OtherSubscriptions:
    """Subscriptions of other members of a group that were logged. Each is logged once until it changes."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._warned: dict[str, str] = {}
        """The logged expression of other members, by topic."""
        self._missing: dict[str, tuple[float, float, bool]] = {}
        """Times of the first and the last sighting of a missing topic, and whether it was logged, by topic."""

    async def compare(
        self, instance: ClientInstance, wanted: Subscription | None, broker_names: Sequence[str], now: float
    ) -> None:
        """Request the group's subscription from one broker, and warn if it is not `wanted`. `now` is in seconds, by any
        clock. Never raises `BolideError`: a broker that does not respond must not stop a rebalance."""
        address = instance.any_address(instance.world.random.choice(broker_names)) if broker_names else None
        if address is None or wanted is None:
            return
        ext = {"group": self._group, "topic": wanted.topic}
        told: Any
        expression, tags = "", frozenset[str]()
        try:
            answer = await instance.call(address, codes.QUERY_SUBSCRIPTION_BY_CONSUMER, ext)
            told = json_body(answer.body).get("subscriptionData")
            if told:
                expression, tags = str(told.get("subString") or ""), frozenset(map(str, told.get("tagsSet") or ()))
            elif await self._is_member(instance, address):
                self._note_missing(wanted.topic, instance.options.heartbeat_interval, now)
        except (BolideError, AttributeError, TypeError):
            return
        if not told:
            return
        if wanted.tags == tags if wanted.tags else wanted.expression == expression:
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

    async def _is_member(self, instance: ClientInstance, address: str) -> bool:
        """Return whether the broker has accepted a heartbeat of this client for the group."""
        answer = await instance.call(address, codes.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self._group})
        return instance.client_id in (json_body(answer.body).get("consumerIdList") or ())

    def _note_missing(self, topic: str, heartbeat_interval: float, now: float) -> None:
        """Note that a broker lacks the topic. Members alternate: each heartbeat adds or removes it."""
        first, last, logged = self._missing.get(topic, (now, now, False))
        if now - last > FORGOTTEN * heartbeat_interval:
            first, logged = now, False
        certain = now - first >= CERTAIN * heartbeat_interval
        self._missing[topic] = first, now, logged or certain
        if certain and not logged:
            log.warning(
                "a member of group %s does not subscribe to topic %s, so its queues of the topic are not read: give all"
                " members of a group the same subscriptions",
                self._group,
                topic,
            )
