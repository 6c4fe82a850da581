"""Membership of a broker in its set: gets an id, registers, requests elections, and assumes the assigned role
(docs/protocol/ha.md, ReplicasManager.java).

The broker queries the controller for the current state, immediately after a notification of a role change. It does not
trust the notification itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import BolideError, ConfigError
from bolide.node.replication.broker_identity import Applied, BrokerIdentity
from bolide.node.replication.controller_requests import ControllerRequests, IdentityTaken, NotRegistered
from bolide.node.replication.controllers import Controllers
from bolide.node.replication.role_taker import RoleTaker
from bolide.node.replication.sync_state_set import FIRST_RETRY_S, SyncStateSetReporter, wait_for
from bolide.remoting.headers.controller import RegisterBrokerToControllerResponseHeader
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.replica_claims import Claims
from bolide.replication.standing import Standing, Step, Told
from bolide.store.errors import StoreDamaged
from bolide.world.contract import World
from bolide.world.tasks import end_tasks

RETRY_S: Final = 5.0


class Membership:
    """Membership of one broker. `address`: its address for clients. `failed` is called with the error if it can never
    become a member."""

    def __init__(
        self,
        options: BrokerOptions,
        address: str,
        world: World,
        identity: BrokerIdentity,
        controllers: Controllers,
        part: RoleTaker,
        failed: Callable[[BaseException], None],
        log: logging.Logger,
    ) -> None:
        self._options = options
        self._address = address
        self._world = world
        self._identity = identity
        self._controllers = controllers
        self._requests = ControllerRequests(options, address, world, controllers)
        self._part = part
        self._failed = failed
        self._log = log
        self.standing = Standing(0)
        self._before = ""
        """Token of the last start that registered, until this start has registered."""
        self._registered = False
        self._news = asyncio.Event()
        self._set = SyncStateSetReporter(options, world, controllers, part, lambda: self.standing, self.notified, log)
        self._taken = asyncio.Event()
        """Set once this broker is master or slave."""
        self._tasks: list[asyncio.Task[None]] = []
        self._said = ""
        self._beats = 0
        """Number of the last heartbeat."""
        self._silent = False
        """Whether the disk hangs. Without heartbeats, no controller elects this broker."""

    def start(self) -> None:
        """Start the background tasks. Does not wait."""
        self._tasks = [asyncio.create_task(self._keep(), name="membership")]

    async def stop(self) -> None:
        """Stop all tasks, and disconnect from the controllers."""
        await end_tasks(self._tasks)
        await self._controllers.stop()

    def notified(self) -> None:
        """Query the controller now."""
        self._news.set()

    async def first(self, seconds: float) -> bool:
        """Wait until the first role is assumed. Return False after `seconds`."""
        await wait_for(self._taken, seconds)
        return self._taken.is_set()

    def look_at_set(self) -> None:
        """Check now whether a replica should join or leave the in-sync set."""
        self._set.look()

    # -- the start

    async def _keep(self) -> None:
        pause = FIRST_RETRY_S
        while True:
            self._news.clear()
            try:
                if self.standing.own_id == 0:
                    await self._take_id()
                    self._tasks += [asyncio.create_task(work) for work in self._periodic()]
                if not self._registered:
                    await self._register()
                await self._resign_if_silent()
                await self._look()
                pause, wait = FIRST_RETRY_S, self._options.controlled.sync_broker_metadata_period / 1000
                if self._said:
                    self._said = ""
                    self._log.info("the controller is available again")
            except (ConfigError, StoreDamaged) as error:
                self._failed(error)
                return
            except (BolideError, OSError) as error:
                if str(error) != self._said:  # one line for each new reason, not for every attempt
                    self._said = str(error)
                    self._log.warning("no word of the controller: %s", error)
                wait, pause = pause, min(pause * 2, RETRY_S)
            await wait_for(self._news, wait)

    def _periodic(self) -> list[Coroutine[Any, Any, None]]:
        return [self._beat_on(), self._set.keep(), self._find_leader()]

    async def _take_id(self) -> None:
        """Use the stored id of this store, or apply for the next free id."""
        identity = self._identity
        broker_id = await self._world.in_thread(identity.load)
        while broker_id == 0:
            applied = await self._world.in_thread(identity.applied)
            if applied is None:
                applied = Applied(await self._requests.next_id(), f"{self._address};{self._world.wall_ms()}")
                await self._world.in_thread(identity.apply, applied)
            if await self._requests.apply(applied):
                broker_id = applied.broker_id
                await self._world.in_thread(identity.keep, broker_id)
            else:
                await self._world.in_thread(identity.forget)
        self.standing = Standing(broker_id)

    async def _register(self) -> None:
        """Register the address of this broker. Without a live master, request an election."""
        if not self.standing.life:
            await self._begin_life()
        life = self.standing.life
        answer = await self._requests.register(self.standing.own_id, Claims(life, self._before))
        if self._before != life:
            await self._world.in_thread(self._identity.keep_life, life)
            self._before = life
        told = decode_header(answer, RegisterBrokerToControllerResponseHeader)
        self._registered = True
        self._beat()
        if told.master_broker_id is None:
            await self._elect()

    async def _begin_life(self) -> None:
        claims = await self._world.in_thread(self._identity.life)
        if not claims.life:
            token = f"{self._world.wall_ms()}-{self._world.random.getrandbits(64):016x}"
            claims = Claims(token, claims.before)
            await self._world.in_thread(self._identity.begin_life, claims)
        self.standing.life, self._before = claims.life, claims.before

    async def _elect(self) -> None:
        await self._requests.elect(self.standing.own_id, self.standing.life)

    # -- who is the master

    async def _look(self) -> None:
        told = await self._told()
        step = self.standing.heard(told)
        if self._silent and step is not Step.FOLLOW:
            return
        if step is Step.ELECT:
            if told.epoch > self.standing.epoch and self.standing.leads:
                self.standing.lost()
                await self._part.lose()
            await self._elect()
            told = await self._told()
            step = self.standing.heard(told)
        if step is Step.COUNT:
            self._count(told)
        elif step in (Step.LEAD, Step.FOLLOW):
            if step is Step.LEAD:
                await self._take_office(told)
            self.standing.lost()
            take = self._part.lead if step is Step.LEAD else self._part.follow
            await take(told, self.standing.own_id)
            self.standing.took(told)
            self._taken.set()
            self._beat()

    async def _take_office(self, told: Told) -> None:
        """Register as the new master before this replica confirms anything alone.

        Until then the controller can elect another member. The request also contains the confirm offset of a master
        alone, which is the end of this log: if this broker later returns with a shorter log, it lacks confirmed bytes.
        A master that takes office again may have other members, which may lack the end. A controller of RocketMQ treats
        the request as a registration. Raises `NoController`.
        """
        end, confirmed, _ = self._part.stands()
        alone = told.members <= {self.standing.own_id}
        claims = self._requests.claims_of_master(self.standing.life, told.epoch, end if alone else min(end, confirmed))
        await self._requests.register(self.standing.own_id, claims)

    async def _told(self) -> Told:
        try:
            await self._requests.check_identity(self.standing.own_id)
            return await self._requests.told()
        except NotRegistered:
            self._registered = False
            raise
        except IdentityTaken:
            # Two brokers must not acknowledge in the name of one replica.
            self._registered = False
            self.standing.lost()
            await self._part.lose()
            raise

    def _count(self, told: Told) -> None:
        """Apply the in-sync set of the controller. While a request is pending, only a newer set is accepted as its
        response."""
        sync_set = self._part.sync_set
        if sync_set is not None and (sync_set.question is None or told.set_epoch > sync_set.set_epoch):
            if (told.members, told.set_epoch) != (sync_set.members, sync_set.set_epoch):
                self._log.info("in sync are %s", sorted(told.members))
            newer = told.set_epoch > sync_set.set_epoch
            sync_set.answered(told.members, told.set_epoch, self._part.now())
            if newer:
                # The epoch also counts starts of replicas. This master may still have an old connection of a restarted
                # replica, with a report of bytes that are lost.
                self._part.disconnect(sync_set.outsiders)
            self._part.set_changed()

    # -- heartbeats

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(self._options.controlled.broker_heartbeat_interval / 1000)
            if self._registered:
                self._check_disk()
                self._beat()

    def _check_disk(self) -> None:
        """Stop heartbeats while the disk hangs. A master stops them only if another replica can be elected."""
        members = self._part.sync_set.members if self._part.sync_set is not None else frozenset()
        alone = self.standing.leads and len(members) < 2
        silent = self._part.hung() and not alone
        if silent == self._silent:
            return
        self._silent = silent
        if silent:
            self._log.error("the disk of the store hangs: this broker pauses its heartbeats until the disk responds")
        else:
            self._log.warning("the disk of the store responds: this broker resumes its heartbeats")
        self.notified()

    async def _resign_if_silent(self) -> None:
        if self._silent and self.standing.leads:
            self._log.error("this master resigns, because its disk hangs")
            self.standing.lost()
            await self._part.lose()
        if self._silent:
            self._controllers.fall_silent()

    def _beat(self) -> None:
        if self._silent:
            return
        standing, stands = self.standing, self._part.stands()
        end, confirmed, _ = stands
        claims = Claims(standing.life)
        if standing.leads:
            claims = self._requests.claims_of_master(standing.life, standing.epoch, min(end, confirmed))
        self._beats += 1
        self._requests.beat(standing.own_id, stands, claims._replace(number=self._beats))

    async def _find_leader(self) -> None:
        while True:
            await asyncio.sleep(self._options.controlled.sync_controller_metadata_period / 1000)
            try:
                await self._controllers.find()
            except (BolideError, OSError):
                self._news.set()  # the next request reports the reason
