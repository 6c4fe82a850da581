"""Whether the cluster asks who somebody is."""

from __future__ import annotations

import asyncio

import pytest

from bolide.access.policies import AclInfo, EntryInfo, PolicyInfo
from bolide.console.roles import KEPT_S, AccessControl, updates_cluster
from bolide.errors import BolideError
from bolide.testing.broker import Broker
from tests.console.browsing import Clock

ADMIN = '{"username":"admin","password":"admin-secret"}'


async def wanted(access: AccessControl) -> bool:
    await access.start()
    try:
        return await access.wanted()
    finally:
        await access.close()


async def test_keys_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOLIDE_ACCESS_KEY", "admin")
    monkeypatch.setenv("BOLIDE_SECRET_KEY", "admin-secret")
    with Broker(authentication_enabled=True, init_authentication_user=ADMIN) as broker:
        assert await wanted(AccessControl(broker.namesrv_addr, Clock())) is True


async def test_last_known_setting_applies_while_brokers_are_down(bolide_broker: Broker) -> None:
    clock = Clock()
    access = AccessControl(bolide_broker.namesrv_addr, clock)
    await access.start()
    assert await access.wanted() is False
    await asyncio.to_thread(bolide_broker.stop)
    clock.now += KEPT_S + 1
    assert await access.wanted() is False
    await access.close()
    with pytest.raises(BolideError):
        await wanted(AccessControl("127.0.0.1:1", clock))


def test_cluster_update_right_follows_policies() -> None:
    def info(*entries: tuple[str, str, str]) -> AclInfo:
        rows = [EntryInfo(resource, [action], None, decision) for resource, action, decision in entries]
        return AclInfo("User:a", [PolicyInfo("Custom", rows)])

    allowed = ("Cluster:*", "Update", "Allow")
    assert updates_cluster(info(allowed))
    assert updates_cluster(info(("*", "All", "Allow")))
    assert not updates_cluster(None)
    assert not updates_cluster(info(("Cluster:*", "Get", "Allow")))
    assert not updates_cluster(info(("Topic:*", "Update", "Allow")))
    assert not updates_cluster(info(allowed, ("Cluster:c", "Update", "Deny")))
