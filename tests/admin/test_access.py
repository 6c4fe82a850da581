"""Users and policies, against a broker that asks who somebody is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.client import Message, ResponseError, Retry
from bolide.testing.broker import Broker
from tests.client.patient import Admin, Producer

ADMIN = '{"username":"admin","password":"admin-secret"}'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(authentication_enabled=True, authorization_enabled=True, init_authentication_user=ADMIN) as running:
        yield running


async def test_a_user_is_made_let_in_and_deleted(broker: Broker) -> None:
    signed = {"access_key": "admin", "secret_key": "admin-secret"}
    async with Admin(broker.namesrv_addr, **signed) as admin:
        await admin.create_topic("orders", queues=1)
        assert await admin.create_user("alice", "alice-secret") == ["broker-a"]
        user = await admin.user("alice")
        assert user is not None and (user.user_type, user.user_status) == ("Normal", "enable")
        assert await admin.user("nobody") is None
        assert set(await admin.users()) == {"admin", "alice"}
        with pytest.raises(ResponseError, match="no matched policies"):
            await send(broker)
        await admin.put_policy("alice", "Topic:orders", ["Pub"], source_ips=["127.0.0.1"])
        await send(broker)
        (entry,) = (await admin.policies())["alice"].policies[0].entries or []
        assert (entry.resource, entry.actions, entry.decision) == ("Topic:orders", ["Pub"], "Allow")
        assert await admin.policies(user="bob") == {}
        await admin.put_policy("alice", "Topic:orders", ["Pub"], allow=False)
        with pytest.raises(ResponseError, match="the decision is deny"):
            await send(broker)
        await admin.delete_policy("alice", "Topic:orders")
        await admin.update_user("alice", user_status="disable")
        with pytest.raises(ResponseError, match="disabled"):
            await send(broker)
        await admin.update_user("alice", password="another-secret", user_type="Super", user_status="enable")
        await send(broker, "another-secret")
        await admin.delete_user("alice")
        assert set(await admin.users()) == {"admin"}


async def send(broker: Broker, secret: str = "alice-secret") -> None:
    async with Producer(
        "P", broker.namesrv_addr, access_key="alice", secret_key=secret, retry=Retry(attempts=1)
    ) as producer:
        await producer.send(Message("orders", b"x"))


async def test_users_fails_if_access_control_is_off(bolide_broker: Broker) -> None:
    async with Admin(bolide_broker.namesrv_addr) as admin:
        with pytest.raises(ResponseError, match="access control is off"):
            await admin.users()
