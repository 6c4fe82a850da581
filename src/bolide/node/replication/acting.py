"""A broker of a set with acting masters: registers when the set is ready, and follows changes of its live members."""

from __future__ import annotations

import asyncio
from typing import Protocol

from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.role import Role
from bolide.broker.operator.following import Following
from bolide.broker.operator.members import MembersService
from bolide.broker.tables.topics import TopicTable
from bolide.layout.names import MASTER_ID
from bolide.node.loop.services import Services
from bolide.node.replication.joining import Joining
from bolide.node.replication.link_to_master import LoopParts
from bolide.node.replication.other_sets import OtherSets
from bolide.node.replication.pre_online import PreOnline
from bolide.node.routes.members import Members
from bolide.node.routes.registrar import Place, Registration
from bolide.world.tasks import end_tasks


class PartsOfBroker(Protocol):
    """The parts of a broker that `ActingSet` uses."""

    role: Role
    topics: TopicTable
    services: Services
    members: MembersService
    following: Following

    def work_changed(self, now: int) -> None:
        """Called when background work starts, stops, or sends its messages to other sets."""


class ActingSet:
    """Membership of one broker in its set."""

    def __init__(
        self,
        options: BrokerOptions,
        parts: PartsOfBroker,
        registration: Registration,
        joining: Joining,
        loop: LoopParts,
    ) -> None:
        """`loop.tls`: TLS context for connections to other brokers and name servers."""
        self._options = options
        self._parts = parts
        self._role = parts.role
        self._registration = registration
        self._joining = joining
        self._loop = loop
        self._tls, self._world, self._log = loop.tls, loop.world, loop.log
        self.others = OtherSets(options, loop)
        """Sends messages of an acting slave to other broker sets."""
        self._online = False
        self._task: asyncio.Task[None] | None = None
        self._members: Members | None = None

    async def start(self, place: Place, seconds: float) -> None:
        """Start, and wait until this broker is registered, for at most twice `seconds`."""
        parts, tls = self._parts, self._tls
        self._members = members = Members(
            self._options, place.address, parts.role, parts.topics, self._world, tls, self.told, self._log
        )
        parts.members.notified = members.look_soon
        before = PreOnline(
            self._options, place, parts.role, self._joining, parts.following, tls, self._world, self._log
        )
        if self._joining.slaves is not None:
            self._joining.slaves.short_told = self._short
        members.start()
        self._task = asyncio.create_task(self._come_online(members, before, seconds))
        await asyncio.wait([self._task], timeout=2 * seconds)

    async def stop(self) -> None:
        """Stop, and close all connections."""
        if self._task is not None:
            await end_tasks([self._task])
        if self._members is not None:
            await self._members.stop()
        await self.others.stop()

    async def _come_online(self, members: Members, before: PreOnline, seconds: float) -> None:
        if self._options.acting.total_replicas > 1 and not self._options.acting.skip_pre_online:
            await before.run(members)
        if self._role.come_online():
            self._work_changed()
        self._online = True
        self._registration.start()
        await self._registration.first(seconds)
        members.look_soon()

    def _short(self, short: bool) -> None:
        self._role.short = short
        self._parts.services.serve_as(self._role)
        if short:
            self._log.warning("rejecting sends: too few replicas are in sync")
        else:
            self._log.info("sends are taken: enough machines are in sync")

    def _work_changed(self) -> None:
        self._parts.work_changed(self._loop.clock())
        self._loop.another_turn()

    def told(self, members: dict[int, str]) -> None:
        """Process the live members of the set, by broker id. Called with each response of a name server."""
        own = self._role.broker_id
        self._joining.alive(len(members.keys() | {own}))
        if not self._online:
            return
        if own not in members:
            self._registration.changed({""})  # a name server has dropped this broker
        if self._role.may_write:
            return
        was, sent = self._role.masterless, self._role.sends_away
        least = min(members)
        if not self._role.least_is(least):
            return
        if sent != self._role.sends_away:
            self._work_changed()
        if self._role.acting:
            self._log.info("this slave acts as master: it has the smallest id of a set without one")
        elif least == MASTER_ID:
            self._log.info("the master of this set is %s", members[least])
            self._joining.send_readers_back(self._parts.topics.table.values())
        else:
            self._log.info("the slave %d acts as master", least)
        if was != self._role.masterless:
            self._registration.changed({""})  # the response contains the address of the master's log
