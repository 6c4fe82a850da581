"""The warnings of a member whose group has other subscriptions than the member."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from bolide.client.consuming.other_subscriptions import OtherSubscriptions
from bolide.client.instance.options import ClientOptions
from bolide.client.messages.subscription import subscription
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.testing.broker import Broker
from bolide.world.real import THE_WORLD
from proof.kit.waiting import until
from tests.client.patient import PushConsumer

BEAT = 30.0
WANTED = subscription("X", "*", 1)
MISSING = "does not subscribe to topic X"


class OneBroker:
    """A client whose broker stores `told` for the topic, and has `members`."""

    def __init__(self) -> None:
        self.told: dict[str, Any] | None = None
        self.members = ["me", "other"]
        self.client_id = "me"
        self.world = THE_WORLD
        self.options = ClientOptions(heartbeat_interval=BEAT)

    def any_address(self, broker_name: str) -> str:
        return "broker:1"

    async def call(self, address: str, code: int, ext: dict[str, str]) -> Command:
        body = {"consumerIdList": self.members}
        if code == codes.QUERY_SUBSCRIPTION_BY_CONSUMER:
            body = {"group": "G", "subscriptionData": self.told}  # type: ignore[dict-item]  # a JSON object
        return make_response(make_request(code, 0), codes.SUCCESS, body=json.dumps(body).encode())


async def seen(others: OtherSubscriptions, client: Any, *times: float) -> None:
    for now in times:
        await others.compare(client, WANTED, ["broker-a"], now)


async def test_a_topic_that_another_member_lacks_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    others, client = OtherSubscriptions("G"), OneBroker()
    await seen(others, client, 0, BEAT, 1.9 * BEAT)
    assert MISSING not in caplog.text  # a member that starts, or a restart with new subscriptions
    await seen(others, client, 2 * BEAT, 3 * BEAT, 10 * BEAT)
    assert caplog.text.count(MISSING) == 1
    await seen(others, client, 31 * BEAT, 32 * BEAT)
    assert caplog.text.count(MISSING) == 1
    await seen(others, client, 33 * BEAT)
    assert caplog.text.count(MISSING) == 2  # after a long time without a sighting


async def test_a_topic_that_is_missing_at_times_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    others, client = OtherSubscriptions("G"), OneBroker()
    for number in range(4):
        client.told = {"subString": "*", "tagsSet": []} if number % 2 else None
        await seen(others, client, number * BEAT)
    assert caplog.text.count(MISSING) == 1


@pytest.mark.parametrize("members", [[], ["other"]])
async def test_a_broker_without_this_member_causes_no_warning(
    members: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    others, client = OtherSubscriptions("G"), OneBroker()
    client.members = members
    await seen(others, client, 0, 5 * BEAT, 10 * BEAT)
    assert MISSING not in caplog.text


async def test_another_expression_is_logged_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    others, client = OtherSubscriptions("G"), OneBroker()
    for expression in ("A", "A", "B"):
        client.told = {"subString": expression, "tagsSet": [expression]}
        await seen(others, client, 0)
    assert caplog.text.count("by different expressions") == 2


async def test_members_with_different_topics_warn(bolide_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    for topic in ("X", "Y"):
        bolide_broker.create_topic(topic)
    members = []
    for name, topic in (("one", "X"), ("two", "Y")):
        member = PushConsumer("G", bolide_broker.namesrv_addr, instance_name=name, heartbeat_interval=0.2)
        member.subscribe(topic, "*", lambda message: None)
        members.append(member)

    def warned() -> bool:
        for member in members:
            member._member.rebalance_soon()
        return "does not subscribe to topic" in caplog.text

    with caplog.at_level(logging.WARNING, "bolide.client"):
        async with members[0], members[1]:
            await until(warned, "the warning of a member")
