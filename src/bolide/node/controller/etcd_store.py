"""Decisions of controllers in etcd, which keeps them on several machines and says which controller leads.

Keys, under `/bolide/controller/GROUP/`: `leader` and `members/ID` live as long as the lease of their controller;
`sets/NAME` is one set of replicas. The leader is who could make the key `leader`. Each decision is one transaction: the
key `leader` is still as this controller wrote it, and the set is as it was when the decision was made. So a decision of
a controller that was the leader fails in etcd, whatever that controller believes. After a decision of unknown fate the
leader writes its key once more before it reads the sets: what has not been done by then is never done.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bolide.controller.consensus import Kept, Leadership, LeadershipLost, Member, StoreUnavailable
from bolide.controller.replica_set import ReplicaSet, decode_set, encode_set
from bolide.node.controller.etcd import Etcd, EtcdEntry, changed_at, created_at, put_op, read_op
from bolide.world.contract import World
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.controller")
RENEWALS: Final = 4
"""A lease is renewed so many times while it lives."""
REVOKE_S: Final = 2.0
"""A stop waits so long for etcd: then the lease ends by itself."""


class EtcdStore:
    """Implements `controller.consensus.ConsensusStore` for the controller `me` of a group."""

    def __init__(self, world: World, etcd: Etcd, group: str, me: Member, lease_seconds: int) -> None:
        self._world = world
        self._etcd = etcd
        self._root = f"/bolide/controller/{group}/"
        self._leader = f"{self._root}leader"
        self._me = me
        self._named = f"{me.id} {me.address}".encode()
        self._lease_seconds = lease_seconds
        self._lease = 0
        self._lives_until = 0.0
        """When the lease may be over, by the monotonic clock."""
        self._leader_key = 0
        """The revision that wrote our key `leader` last; 0 when we do not lead."""
        self._leadership = Leadership()
        self._changed = asyncio.Event()
        """Set whenever who leads has changed, or is in doubt."""
        self._in_doubt = False
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to live in the group."""
        self._task = asyncio.create_task(self._live(), name="lease in etcd")

    @property
    def leadership(self) -> Leadership:
        """Who leads, as of the last look; nobody once that is older than a lease, for another one may lead by then."""
        return self._leadership if self.reached else Leadership(None, self._leadership.peers)

    @property
    def leads(self) -> bool:
        """While the lease lives without doubt, and no decision is of unknown fate."""
        return self._holds() and not self._in_doubt

    @property
    def reached(self) -> bool:
        """While the lease lives: etcd has renewed it."""
        return self._world.monotonic() < self._lives_until

    async def lead(self) -> None:
        """Wait for the key `leader`. After a doubt etcd is asked whose it is, and what is on its way to it fails."""
        if self._in_doubt:
            async with self._looking:
                await self._look()
                if self._leader_key:
                    again = put_op(self._leader, self._named, self._lease)
                    await self._etcd.txn([changed_at(self._leader, self._leader_key)], [again])
                    await self._look()
        while not self._holds():
            await self._next_change(1.0)
        self._in_doubt = False

    async def deposed(self) -> None:
        """Wait until the lease may be over, or a decision's fate is not known."""
        while self.leads:
            await self._next_change(max(self._lives_until - self._world.monotonic(), 0.01))

    async def load(self) -> dict[str, Kept]:
        """All sets."""
        found: dict[str, Kept] = {}
        for entry in await self._etcd.read(f"{self._root}sets/"):
            one = decode_set(entry.value, f"the key {entry.key} of etcd")
            found[one.name] = Kept(one, entry.mod_revision)
        return found

    async def change(self, value: ReplicaSet, expected: int) -> int:
        """Keep a set."""
        if not self.leads:
            raise LeadershipLost("the lease in etcd has ended")
        key = f"{self._root}sets/{value.name}"
        conditions = [changed_at(self._leader, self._leader_key), changed_at(key, expected)]
        try:
            done = await self._etcd.txn(conditions, [put_op(key, encode_set(value))])
        except BaseException:
            self._doubt()
            raise
        if not done.succeeded:
            self._doubt()
            raise LeadershipLost(f"another controller leads, or {key} was changed by hand")
        return done.revision

    async def stop(self) -> None:
        """End the lease: another controller leads at once."""
        if self._task is not None:
            await end_tasks([self._task])
        self._leader_key = 0
        if self._lease:
            try:
                async with asyncio.timeout(REVOKE_S):
                    await self._etcd.revoke(self._lease)
            except (StoreUnavailable, TimeoutError) as error:
                log.warning("cannot revoke the lease in etcd, so it will expire: %s", error)

    def _holds(self) -> bool:
        return self._leader_key != 0 and self._world.monotonic() < self._lives_until

    def _doubt(self) -> None:
        self._in_doubt = True
        self._changed.set()

    async def _next_change(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def _live(self) -> None:
        """Renew the lease and look who leads, until cancelled."""
        said = ""
        while True:
            try:
                async with self._looking:
                    await self._renew()
                    await self._look()
                if said:
                    log.info("etcd is available again")
                said = ""
            except (StoreUnavailable, LeadershipLost) as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("%s", said)
            await asyncio.sleep(self._lease_seconds / RENEWALS)

    async def _renew(self) -> None:
        """The lease lives from the moment at which it was asked for, at least."""
        if self._lease:
            asked = self._world.monotonic()
            seconds = await self._etcd.keep_alive(self._lease)
            if seconds > 0:
                self._lives_until = asked + seconds
                return
            self._lost()
            self._lease = 0
        asked = self._world.monotonic()
        lease = await self._etcd.grant(self._lease_seconds)
        await self._enter(lease)
        self._lease = lease
        self._lives_until = asked + self._lease_seconds

    async def _enter(self, lease: int) -> None:
        """Be a member of the group under this controller's name, unless another one has it."""
        key = f"{self._root}members/{self._me.id}"
        put = put_op(key, self._me.address.encode(), lease)
        done = await self._etcd.txn([created_at(key, 0)], [put], [read_op(key)])
        if done.succeeded:
            return
        entry = next((each for each in done.entries[0] if each.key == key), None)
        if entry is None:
            raise StoreUnavailable(f"etcd is unavailable: it reports that {key} exists, but does not return it")
        if entry.value.decode("utf-8", "replace") != self._me.address:
            raise LeadershipLost(
                f"another controller of this group is named {self._me.id}: {entry.value.decode('utf-8', 'replace')}; "
                "set a unique controllerDLegerSelfId for each"
            )
        again = await self._etcd.txn([changed_at(key, entry.mod_revision)], [put])  # ours, from before a restart
        if not again.succeeded:
            raise LeadershipLost(f"{key} changes while this controller enters the group")

    async def _look(self) -> None:
        """Who leads; this controller, if nobody does."""
        key = self._leader
        reads = [read_op(key), read_op(f"{self._root}members/")]
        done = await self._etcd.txn([created_at(key, 0)], [put_op(key, self._named, self._lease), *reads], reads)
        leader = next((entry for entry in done.entries[0] if entry.key == key), None)
        members = tuple(_member(entry, self._root) for entry in done.entries[1])
        held = leader.mod_revision if leader is not None and leader.lease == self._lease else 0
        if held != self._leader_key:
            self._leader_key = held
            self._changed.set()
        self._leadership = Leadership(None if leader is None else _leader(leader), members)

    def _lost(self) -> None:
        self._leader_key = 0
        self._changed.set()


def _member(entry: EtcdEntry, root: str) -> Member:
    return Member(entry.key.removeprefix(f"{root}members/"), entry.value.decode("utf-8", "replace"))


def _leader(entry: EtcdEntry) -> Member:
    name, _, address = entry.value.decode("utf-8", "replace").partition(" ")
    return Member(name, address)
