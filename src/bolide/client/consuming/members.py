"""Who is in a consumer group, by one broker of the topic (GET_CONSUMER_LIST_BY_GROUP)."""

from __future__ import annotations

from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.protocol_json import json_body
from bolide.errors import BolideError
from bolide.remoting import codes


async def member_ids(instance: ClientInstance, group: str, broker_names: list[str]) -> list[str]:
    """The client ids, by any of these brokers, since every member tells all of them; none when none of them knows."""
    failure: BolideError | None = None
    for name in instance.world.random.sample(broker_names, len(broker_names)):
        address = instance.any_address(name)
        if address is None:
            continue
        try:
            answer = await instance.call(
                address,
                codes.GET_CONSUMER_LIST_BY_GROUP,
                {"consumerGroup": group, "bname": name},
                accept=(codes.SUCCESS, codes.SYSTEM_ERROR),
            )
        except BolideError as error:
            failure = error
            continue
        if answer.code == codes.SUCCESS:
            return [str(client) for client in json_body(answer.body).get("consumerIdList") or []]
    if failure is not None:
        raise failure
    return []
