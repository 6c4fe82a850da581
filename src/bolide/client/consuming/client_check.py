"""Asks a broker, before a consumer starts, whether it can select by the consumer's expressions (CHECK_CLIENT_CONFIG).

Java's MQClientInstance.checkClientInBroker: an expression that is refused ends the start, instead of failing each pull.
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
    """Have each expression looked at by one broker of its topic; tags need none, and neither does a topic that is yet
    to come. Raises `ResponseError` for one that is refused; a broker that cannot be asked now is taken to agree.
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
