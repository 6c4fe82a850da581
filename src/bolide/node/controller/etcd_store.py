"""Stores the decisions of controllers in etcd, which replicates them and elects the lead controller.

Keys, under `/bolide/controller/GROUP/`: `leader` and `members/ID` expire with the lease of their controller;
`sets/NAME` is one broker set. The controller that creates the key `leader` is the leader. Each decision is one
transaction with two conditions: the key `leader` is unchanged since this controller wrote it, and the set is unchanged
since the decision was made. So a decision of a former leader fails in etcd, whatever that controller assumes. After a
decision with an unknown result, the leader rewrites its key before it reads the sets: a pending older transaction then
fails.
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
"""Number of renewals within the lifetime of a lease."""
REVOKE_S: Final = 2.0
"""Maximum time that a stop waits for etcd to revoke the lease. After it, the lease expires."""


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
        """Earliest time at which the lease may expire, by the monotonic clock."""
        self._leader_key = 0
        """Revision of this controller's key `leader`, or 0 if it is not the leader."""
        self._leadership = Leadership()
        self._changed = asyncio.Event()
        """Set when this controller gains the leadership, or may have lost it."""
        self._in_doubt = False
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Join the group."""
        self._task = asyncio.create_task(self._live(), name="lease in etcd")

    @property
    def leadership(self) -> Leadership:
        """The leader at the last check, or unknown if the lease may have expired: another controller may be the leader
        then."""
        return self._leadership if self.reached else Leadership(None, self._leadership.peers)

    @property
    def leads(self) -> bool:
        """Whether the lease is certainly valid and no decision has an unknown result."""
        return self._holds() and not self._in_doubt

    @property
    def reached(self) -> bool:
        """Whether etcd has renewed the lease in time."""
        return self._world.monotonic() < self._lives_until

    async def lead(self) -> None:
        """Wait until this controller is the leader. After an unknown result, first query etcd for the leader and make
        pending transactions fail. Raises `StoreUnavailable`."""
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
        """Wait until the lease may have expired, or a decision has an unknown result."""
        while self.leads:
            await self._next_change(max(self._lives_until - self._world.monotonic(), 0.01))

    async def load(self) -> dict[str, Kept]:
        """Return all sets by name."""
        found: dict[str, Kept] = {}
        for entry in await self._etcd.read(f"{self._root}sets/"):
            one = decode_set(entry.value, f"the key {entry.key} of etcd")
            found[one.name] = Kept(one, entry.mod_revision)
        return found

    async def change(self, value: ReplicaSet, expected: int) -> int:
        """Store a set if its revision in etcd is `expected`. Return the new revision."""
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
        """Revoke the lease, so that another controller becomes the leader immediately."""
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
        """Renew the lease and check for the leader, until cancelled."""
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
        """Renew or create the lease. Its lifetime is counted from the time of the request, before etcd starts it."""
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
        """Register this controller as a member of the group. Raises `LeadershipLost` if another controller has its
        name."""
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
        # this controller's key, from before a restart
        again = await self._etcd.txn([changed_at(key, entry.mod_revision)], [put])
        if not again.succeeded:
            raise LeadershipLost(f"{key} changes while this controller enters the group")

    async def _look(self) -> None:
        """Read the leader, or become the leader if there is none. Raises `StoreUnavailable` without a lease."""
        if not self._lease:
            # A key with lease 0 would never expire, so no controller could become the leader again.
            raise StoreUnavailable("etcd is unavailable: this controller has no lease until etcd grants one")
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
