"""Checks with a broker, before a consumer starts, that it supports the consumer's expressions (CHECK_CLIENT_CONFIG).

As in Java's MQClientInstance.checkClientInBroker, a rejected expression makes `start` fail, instead of each pull.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.protocol_json import json_text
from bolide.client.instance.troubles import NoNameServer
from bolide.client.messages.errors import TopicNotFound
from bolide.client.messages.subscription import Subscription
from bolide.errors import ConnectionLost, RequestTimeout
from bolide.remoting import codes

log = logging.getLogger("bolide.client")


async def check_expressions(instance: ClientInstance, group: str, subscriptions: Iterable[Subscription]) -> None:
    """Check each expression at one broker of its topic. Skips tags, and topics that do not exist yet.

    Raises `ResponseError` if a broker rejects an expression. Logs a warning if the broker is unavailable.
    """
    for wanted in subscriptions:
        if wanted.kind == "TAG":
            continue
        try:
            names = list((await instance.route(wanted.topic)).brokers)
        except (TopicNotFound, NoNameServer):
            continue
        address = instance.any_address(instance.world.random.choice(names)) if names else None
        if address is None:
            continue
        body = json_text({"clientId": instance.client_id, "group": group, "subscriptionData": wanted.data()})
        accept = (codes.SUCCESS, codes.REQUEST_CODE_NOT_SUPPORTED)
        try:
            await instance.call(address, codes.CHECK_CLIENT_CONFIG, None, body, accept=accept)
        except (ConnectionLost, RequestTimeout) as error:
            log.warning("the expression of %s for topic %s is not checked: %s", group, wanted.topic, error)
