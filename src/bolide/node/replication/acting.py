"""A broker of a set with acting masters: registers when the set is ready, and follows changes of its live members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from bolide.broker.operator.members import MembersService
from bolide.layout.names import MASTER_ID
from bolide.node.loop.services import Services
from bolide.node.replication.default_ha import default_mode
from bolide.node.replication.mode import ModeParts, ReplicationMode
from bolide.node.replication.node_parts import NodeParts
from bolide.node.replication.other_sets import OtherSets
from bolide.node.replication.pre_online import PreOnline
from bolide.node.routes.members import Members
from bolide.world.tasks import end_tasks


class ActingMode(ReplicationMode):
    """Default HA replication (`default_ha`), and membership of the broker in its set."""

    def __init__(self, around: ModeParts) -> None:
        super().__init__(around)
        self._role = around.role
        self._log = around.loop.log
        self._default = default_mode(around, self._short)
        self._others = OtherSets(around.options, around.loop)
        self.side = self._default.side
        self.send_away = self._others.send
        self._services: Services | None = None
        self._online = False
        self._task: asyncio.Task[None] | None = None
        self._members: Members | None = None

    def members_service(self, notified: Callable[[], None] | None = None) -> MembersService:
        return self._default.members_service(self._look_soon)

    def _look_soon(self) -> None:
        if self._members is not None:
            self._members.look_soon()

    async def serve(self) -> None:
        await self._default.serve()

    async def join(self, node: NodeParts, seconds: float) -> None:
        """Join the set, and wait until this broker is registered, for at most twice `seconds`."""
        around, loop = self._around, self._around.loop
        if not self._role.may_write:
            node.tables.start()
        self._services = node.services
        node.services.serve_as(self._role)
        self._members = members = Members(
            around.options, around.place.address, self._role, node.topics, loop.world, loop.tls,
            partial(self.told, node), loop.log,
        )  # fmt: skip
        members.start()
        self._task = asyncio.create_task(self._come_online(node, members, seconds))
        await asyncio.wait([self._task], timeout=2 * seconds)

    async def leave(self) -> None:
        """Leave the set, and close all connections to its members and to other sets."""
        if self._task is not None:
            await end_tasks([self._task])
        if self._members is not None:
            await self._members.stop()
        await self._others.stop()

    async def stop(self) -> None:
        await self._default.stop()

    def master_told(self, ha_address: str) -> None:
        self._default.master_told(ha_address)

    def followed_by(self, host: str) -> bool:
        return self._default.followed_by(host)

    async def _come_online(self, node: NodeParts, members: Members, seconds: float) -> None:
        acting = self._around.options.acting
        if acting.total_replicas > 1 and not acting.skip_pre_online:
            await PreOnline(self._around, self._default, node.following).run(members)
        if self._role.come_online():
            self._work_changed(node)
        self._online = True
        node.names.start()
        await node.names.first(seconds)
        members.look_soon()

    def _short(self, short: bool) -> None:
        self._role.short = short
        if self._services is not None:  # otherwise `join` does it
            self._services.serve_as(self._role)
        if short:
            self._log.warning("rejecting sends: too few replicas are in sync")
        else:
            self._log.info("sends are taken: enough machines are in sync")

    def _work_changed(self, node: NodeParts) -> None:
        node.work_changed(self._around.loop.clock())
        self._around.loop.another_turn()

    def told(self, node: NodeParts, members: dict[int, str]) -> None:
        """Process the live members of the set, by broker id. Called with each response of a name server."""
        own = self._role.broker_id
        self._default.alive(len(members.keys() | {own}))
        if not self._online:
            return
        if own not in members:
            node.names.changed({""})  # a name server has dropped this broker
        if self._role.may_write:
            return
        was, sent = self._role.masterless, self._role.sends_away
        least = min(members)
        if not self._role.least_is(least):
            return
        if sent != self._role.sends_away:
            self._work_changed(node)
        if self._role.acting:
            self._log.info("this slave acts as master: it has the smallest id of a set without one")
        elif least == MASTER_ID:
            self._log.info("the master of this set is %s", members[least])
            self._send_readers_back(node)
        else:
            self._log.info("the slave %d acts as master", least)
        if was != self._role.masterless:
            node.names.changed({""})  # the response contains the address of the master's log

    def _send_readers_back(self, node: NodeParts) -> None:
        """Complete all held pulls, because the master is available again."""
        loop = self._around.loop
        for topic in node.topics.table.values():
            for queue_id in range(topic.read_queue_nums):
                loop.effects.release((topic.topic_name, queue_id))
        loop.another_turn()
