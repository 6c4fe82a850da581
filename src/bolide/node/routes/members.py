"""Members of a set with acting masters (enableSlaveActingMaster): sends heartbeats to name servers, and queries the
live brokers.

RocketMQ's BrokerController.sendHeartbeat and syncBrokerMemberGroup (docs/protocol/ha.md 6).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from bolide.access.users import signed
from bolide.broker.core.role import Role
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.topics import TopicTable
from bolide.errors import BolideError
from bolide.layout.names import SYNC_MEMBER_TOPIC_PREFIX
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer, encode_body
from bolide.remoting.bodies.route import GetBrokerMemberGroupResponseBody, TopicRouteData
from bolide.remoting.bodies.versions import DataVersion
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.namesrv import (
    BrokerHeartbeatRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetRouteInfoRequestHeader,
    QueryDataVersionRequestHeader,
)
from bolide.transport.address import split_addresses
from bolide.transport.pool import ConnectionPool
from bolide.transport.tls_contexts import RenewedContext
from bolide.world.contract import World
from bolide.world.tasks import end_tasks

TIMEOUT_S: Final = 3.0


class SetUnknown(BolideError):
    """No name server returned the members of the set."""

    retriable = True


class Members:
    """Heartbeats and member queries of one broker. `address`: its address for clients."""

    def __init__(
        self,
        options: BrokerOptions,
        address: str,
        role: Role,
        topics: TopicTable,
        world: World,
        tls: RenewedContext | None,
        told: Callable[[dict[int, str]], None],
        log: logging.Logger,
    ) -> None:
        """`told(addresses by id)` is called with each response that contains brokers."""
        self._options = options
        self._address = address
        self._role = role
        self._topics = topics
        self._told = told
        self._log = log
        self._servers = split_addresses(options.registration.namesrv_addr)
        self._connections = ConnectionPool(ssl=tls, connect_timeout=TIMEOUT_S, world=world)
        self._woken = asyncio.Event()
        self._said = ""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start heartbeats and periodic member queries. Does not wait."""
        self._tasks = [asyncio.create_task(self._beat_on(server)) for server in self._servers]
        self._tasks.append(asyncio.create_task(self._look_on()))

    async def stop(self) -> None:
        """Stop heartbeats and queries, and close all connections."""
        await end_tasks(self._tasks)
        await self._connections.close()

    def look_soon(self) -> None:
        """Query the members now, because one has joined or left."""
        self._woken.set()

    async def ask(self) -> dict[int, str]:
        """Return the broker addresses by id from the first name server that responds. Empty if that server lists no
        brokers. Raises `SetUnknown`."""
        problems: list[str] = []
        for server in self._servers:
            try:
                return await self._asked(server)
            except BolideError as error:
                problems.append(f"{server}: {error}")
        raise SetUnknown("; ".join(problems))

    async def _look_on(self) -> None:
        while True:
            self._woken.clear()
            try:
                found = await self.ask()
                self._said = ""
                if found:
                    self._told(found)
            except SetUnknown as error:
                if not self._said:
                    self._said = str(error)
                    self._log.warning("no name server returned the members of the set: %s", error)
            await self._pause(self._options.acting.sync_broker_member_group_period / 1000)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _beat_on(self, server: str) -> None:
        while True:
            try:
                connection = await self._connections.get(server)
                if connection.writable:
                    connection.oneway(self._signed(self._beat()))
            except BolideError as error:  # the registration logs this failure
                self._log.debug("no sign of life to %s: %s", server, error)
            await asyncio.sleep(self._options.controlled.broker_heartbeat_interval / 1000)

    def _beat(self) -> Command:
        options = self._options
        if not options.acting.compatible_with_old_name_srv:
            beat = BrokerHeartbeatRequestHeader(
                cluster_name=options.place.broker_cluster_name,
                broker_addr=self._address,
                broker_name=options.place.broker_name,
            )
            return make_request(codes.BROKER_HEARTBEAT, 0, beat.to_ext(), oneway=True)
        query = QueryDataVersionRequestHeader(
            broker_name=options.place.broker_name,
            broker_addr=self._address,
            cluster_name=options.place.broker_cluster_name,
            broker_id=self._role.broker_id,
        )
        version = self._topics.data_version
        body = encode_body(DataVersion(version.timestamp, version.counter, version.state_version))
        return make_request(codes.QUERY_DATA_VERSION, 0, query.to_ext(), body, oneway=True)

    async def _asked(self, server: str) -> dict[int, str]:
        options = self._options
        if options.acting.compatible_with_old_name_srv:
            topic = SYNC_MEMBER_TOPIC_PREFIX + options.place.broker_name
            answer = await self._answer(
                server, codes.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic).to_ext()
            )
            if answer.code == codes.TOPIC_NOT_EXIST:
                return {}
            brokers = decode_answer(self._good(answer).body, TopicRouteData).broker_datas
            ours = [broker.broker_addrs for broker in brokers if broker.broker_name == options.place.broker_name]
            return dict(ours[0]) if ours else {}
        header = GetBrokerMemberGroupRequestHeader(
            cluster_name=options.place.broker_cluster_name, broker_name=options.place.broker_name
        )
        answer = await self._answer(server, codes.GET_BROKER_MEMBER_GROUP, header.to_ext())
        group = decode_answer(self._good(answer).body, GetBrokerMemberGroupResponseBody).broker_member_group
        return {} if group is None else dict(group.broker_addrs)

    def _good(self, answer: Command) -> Command:
        if answer.code != codes.SUCCESS:
            raise BolideError(f"failed with {codes.response_name(answer.code)}: {answer.remark}")
        return answer

    async def _answer(self, server: str, code: int, ext: dict[str, str]) -> Command:
        connection = await self._connections.get(server)
        return await connection.request(self._signed(make_request(code, 0, ext)), TIMEOUT_S)

    def _signed(self, command: Command) -> Command:
        return signed(command, self._options.access.inner_credentials)
