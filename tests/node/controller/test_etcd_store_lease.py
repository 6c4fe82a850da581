"""A controller whose lease in etcd ends while a decision has no result."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.controller.consensus import Member, StoreUnavailable
from bolide.node.controller.etcd import Etcd, EtcdEntry, TxnResult, coded
from bolide.node.controller.etcd_store import EtcdStore
from bolide.world.real import RealWorld
from proof.kit.waiting import until
from tests.node.controller.kept import one_set

LEASE_SECONDS = 4
"""The store renews its lease each second."""


class FailingEtcd(Etcd):
    """Stores keys in memory. `lives`: ids of the leases that have not expired. `down`: whether grants and decisions
    have no result."""

    def __init__(self) -> None:
        super().__init__(RealWorld(), [], 1.0)
        self.keys: dict[str, tuple[int, int]] = {}
        """Lease and revision of each key."""
        self.lives: set[int] = set()
        self.down = False
        self.rejected_grants = 0
        self._revision = self._granted = 0

    def expire(self) -> None:
        """End all leases, and remove their keys."""
        self.keys = {key: found for key, found in self.keys.items() if found[0] not in self.lives}
        self.lives.clear()

    async def grant(self, seconds: int) -> int:
        if self.down:
            self.rejected_grants += 1
            raise StoreUnavailable("etcd is unavailable: it does not grant a lease")
        self._granted += 1
        self.lives.add(self._granted)
        return self._granted

    async def keep_alive(self, lease: int) -> int:
        return LEASE_SECONDS if lease in self.lives else 0

    async def revoke(self, lease: int) -> None:
        self.lives.discard(lease)

    async def txn(self, compare: list[Any], success: list[Any], failure: list[Any] | None = None) -> TxnResult:
        puts = [each["request_put"] for each in success if "request_put" in each]
        if self.down and any("sets/" in key for key in map(_key, puts)):
            raise StoreUnavailable("etcd is unavailable: no response")
        holds = all(self._revision_of(_key(each)) == _expected(each) for each in compare)
        if holds:
            self._revision += 1
            for put in puts:
                self.keys[_key(put)] = int(put["lease"]), self._revision
        ranges = [each["request_range"] for each in (success if holds else failure or []) if "request_range" in each]
        return TxnResult(holds, self._revision, [self._entries(_key(each)) for each in ranges])

    def _revision_of(self, key: str) -> int:
        return self.keys.get(key, (0, 0))[1]

    def _entries(self, prefix: str) -> list[EtcdEntry]:
        return [
            EtcdEntry(key, b"n0 127.0.0.1:1" if key.endswith("leader") else b"127.0.0.1:1", revision, revision, lease)
            for key, (lease, revision) in self.keys.items()
            if key.startswith(prefix)
        ]


def _key(request: dict[str, Any]) -> str:
    data = str(request["key"])
    return next(key for key in KEYS if coded(key) == data)


def _expected(condition: dict[str, Any]) -> int:
    return int(condition["create_revision" if condition["target"] == "CREATE" else "mod_revision"])


ROOT = "/bolide/controller/g/"
KEYS = [f"{ROOT}leader", f"{ROOT}members/n0", f"{ROOT}members/", f"{ROOT}sets/b"]


async def test_leader_key_always_has_a_lease() -> None:
    """A key without a lease does not expire, so no controller could become the leader again."""
    etcd = FailingEtcd()
    store = EtcdStore(RealWorld(), etcd, "g", Member("n0", "127.0.0.1:1"), LEASE_SECONDS)
    store.start()
    try:
        await store.lead()
        etcd.down = True
        with pytest.raises(StoreUnavailable):
            await store.change(one_set(1), 0)
        etcd.expire()
        await until(lambda: etcd.rejected_grants > 0, "a renewal without a lease")
        with pytest.raises(StoreUnavailable, match="has no lease"):
            await store.lead()
        assert f"{ROOT}leader" not in etcd.keys
        etcd.down = False
        await until(lambda: bool(etcd.lives), "a new lease")
        await store.lead()
        assert etcd.keys[f"{ROOT}leader"][0] in etcd.lives
        assert store.leads
    finally:
        await store.stop()
