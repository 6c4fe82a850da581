"""Registers a broker with each name server: at startup, every 30 s, and immediately when a topic changes.

RocketMQ's BrokerController.registerBrokerAll and BrokerOuterAPI (docs/protocol/behaviour.md 10). The first registration
is always complete, because a 5.x name server rejects a first registration with a single topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from bolide.access.users import signed
from bolide.broker.core.role import Role
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.topic_config import TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.errors import BolideError
from bolide.layout.permissions import PERM_READ_WRITE
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body
from bolide.remoting.bodies.stats import KVTable
from bolide.remoting.bodies.topics import TopicConfig as TopicConfigBody
from bolide.remoting.bodies.topics import TopicConfigAndMappingSerializeWrapper, TopicFilterType
from bolide.remoting.bodies.versions import DataVersion
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.namesrv import RegisterBrokerRequestHeader, UnRegisterBrokerRequestHeader
from bolide.remoting.register import RegisterBrokerBody, body_checksum, encode_register_body
from bolide.transport.address import split_addresses
from bolide.transport.client import ClientConnection
from bolide.transport.tls_contexts import RenewedContext, current_context
from bolide.world.contract import World
from bolide.world.real import THE_WORLD
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.registration")
FIRST_RETRY_S: Final = 0.05
RETRY_S: Final = 2.0
"""Maximum pause before a failed registration is retried. The first retry follows after FIRST_RETRY_S (a name server
started at the same time needs no longer), and the pause doubles with each retry."""
MASTERLESS_S: Final = 2.0
"""Interval at which a slave without a master registers with one topic: the response contains the master."""
EXPECTED_S: Final = 0.25
"""Interval used instead if a controller has named the master, which is about to register."""
UNREGISTER_TIMEOUT_S: Final = 3.0


class Place(Struct, frozen=True):
    """Addresses of this broker for clients and slaves."""

    address: str
    ha_address: str


class Registration:
    """Registers one broker, with one connection and one task per name server."""

    def __init__(
        self,
        options: BrokerOptions,
        place: Place,
        topics: TopicTable,
        tls: RenewedContext | None = None,
        world: World = THE_WORLD,
        role: Role | None = None,
        told: Callable[[str, str], None] | None = None,
    ) -> None:
        """`told(master, its replication address)` is called on a slave after each registration whose response contains
        a master, as in RocketMQ, so that a wrong notification (906) does not persist. It is called once with "" when no
        name server returns a live master."""
        self._role = role if role is not None else Role.of(options)
        self._told = told
        self._masters: dict[str, tuple[str, str]] = {}
        """Master and its replication address in the last response of each name server."""
        self._options = options
        self._place = place
        self._topics = topics
        self._tls = tls
        self._world = world
        self._servers = split_addresses(options.registration.namesrv_addr)
        self._connections: dict[str, ClientConnection] = {}
        self._changed: dict[str, set[str]] = {server: {""} for server in self._servers}
        self._wake: dict[str, asyncio.Event] = {server: asyncio.Event() for server in self._servers}
        self._tasks: list[asyncio.Task[None]] = []
        self._registered: dict[str, asyncio.Event] = {server: asyncio.Event() for server in self._servers}
        self._master: tuple[str, str] = ("", "")
        self._expected = ""
        """Master named by the controller, or "" without a controller."""

    @property
    def servers(self) -> int:
        """Number of configured name servers."""
        return len(self._servers)

    @property
    def known_by(self) -> int:
        """Number of name servers that accepted the last registration and are still connected. Thread-safe."""
        connections = self._connections
        return sum(1 for server in list(self._masters) if server in connections and not connections[server].closed)

    def configure(self, options: BrokerOptions) -> None:
        """Use these settings, starting with the next registration."""
        self._options = options

    def master_is(self, address: str) -> None:
        """Set the master that the controller named. Name servers are queried more often until they return it."""
        self._expected = address
        self._master = ("", "")

    def register_now(self) -> None:
        """Register the current role with every name server. The first call starts the registration."""
        if not self._tasks:
            self.start()
        self.changed({""})

    def start(self) -> None:
        """Start registering. Does not wait."""
        self._tasks = [asyncio.create_task(self._keep(server)) for server in self._servers]

    async def first(self, timeout: float) -> None:
        """Wait until the first registration with every name server, for at most `timeout` seconds."""
        waits = [event.wait() for event in self._registered.values()]
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*waits)
        except TimeoutError:
            late = [server for server, event in self._registered.items() if not event.is_set()]
            log.warning("not registered yet with %s: still trying", ", ".join(late))

    def changed(self, topic_names: set[str]) -> None:
        """Register these topics with every name server as soon as possible. "" means all topics."""
        for server in self._servers:
            self._changed[server] |= topic_names
            self._wake[server].set()

    async def stop(self) -> None:
        """Unregister everywhere and close all connections."""
        await end_tasks(self._tasks)
        await asyncio.gather(*(self._leave(server) for server in self._servers))
        self._connections.clear()

    async def _keep(self, server: str) -> None:
        period = self._options.registration.register_name_server_period / 1000
        said = ""
        pause = FIRST_RETRY_S
        complete_at = self._world.monotonic() + period
        while True:
            names, self._changed[server] = self._changed[server], set()
            self._wake[server].clear()
            try:
                await self._register(server, names)
                if "" in names:
                    complete_at = self._world.monotonic() + period
                wait = max(complete_at - self._world.monotonic(), 0.0)
                if self._lacks_master(server):
                    wait = min(wait, EXPECTED_S if self._expected else MASTERLESS_S)
                if said:
                    log.info("registered with %s again", server)
                said, pause = "", FIRST_RETRY_S
            except (BolideError, OSError) as error:
                self._changed[server] |= names | {""}
                self._masters.pop(server, None)  # the last response may be outdated
                wait, pause = pause, min(pause * 2, RETRY_S)
                if str(error) != said:  # one line for each new reason, not for every attempt
                    log.warning("cannot register with the name server %s: %s", server, error)
                    said = str(error)
            if await self._idle(server, wait):
                whole = not self._lacks_master(server) or self._world.monotonic() >= complete_at
                self._changed[server].add("" if whole else next(iter(self._topics.table), ""))

    def _lacks_master(self, server: str) -> bool:
        """Return whether this is a slave and the name server returned no live master, or not the elected one."""
        master = self._masters.get(server, ("", ""))[0]
        return not self._role.may_write and (not master or (self._expected != "" and master != self._expected))

    async def _idle(self, server: str, wait: float) -> bool:
        """Wait for a change. Return True after `wait` seconds without one."""
        try:
            async with asyncio.timeout(wait):
                await self._wake[server].wait()
        except TimeoutError:
            return True
        return False

    async def _register(self, server: str, names: set[str]) -> None:
        connection = await self._connection(server)
        command = self._request(names)
        timeout = self._options.registration.register_broker_timeout_mills / 1000
        response = await connection.request(command, timeout)
        if response.code != codes.SUCCESS:
            raise BolideError(f"failed with {codes.response_name(response.code)}: {response.remark}")
        if response.remark:
            log.warning("registered with %s, which said: %s", server, response.remark[:500])
        self._take_master(server, response.ext())
        if response.body:
            # The namespace ORDER_TOPIC_CONFIG of the name server lists ordered topics.
            self._topics.mark_ordered(decode_body(response.body, KVTable).table, self._world.wall_ms())
        self._registered[server].set()

    def _take_master(self, server: str, ext: dict[str, str]) -> None:
        self._masters[server] = (ext.get("masterAddr", ""), ext.get("haServerAddr", ""))
        right = [named for named in self._masters.values() if named[0] and self._expected in ("", named[0])]
        found = right[0] if right else ("", self._master[1])
        if found != self._master or right:
            self._master = found
            if self._told is not None and not self._role.may_write:
                self._told(*found)

    def _request(self, names: set[str]) -> Command:
        options = self._options
        table = self._topics.table
        if "" in names or not names:
            chosen = list(table.values())
        else:
            chosen = [table[name] for name in sorted(names) if name in table]
        version = self._topics.data_version
        body = encode_register_body(
            RegisterBrokerBody(
                TopicConfigAndMappingSerializeWrapper(
                    {config.topic_name: body_of(config, options.tables.broker_permission) for config in chosen},
                    DataVersion(version.timestamp, version.counter, version.state_version),
                )
            ),
            options.registration.compressed_register,
        )
        header = RegisterBrokerRequestHeader(
            broker_name=options.place.broker_name,
            broker_addr=self._place.address,
            cluster_name=options.place.broker_cluster_name,
            ha_server_addr=self._place.ha_address,
            broker_id=self._role.broker_id,
            enable_acting_master=options.acting.enable_slave_acting_master,
            heartbeat_timeout_millis=(
                options.acting.broker_not_active_timeout_millis if options.acting.enable_slave_acting_master else None
            ),
            compressed=options.registration.compressed_register,
            body_crc32=body_checksum(body),
        )
        return signed(make_request(codes.REGISTER_BROKER, 0, header.to_ext(), body), options.access.inner_credentials)

    async def _connection(self, server: str) -> ClientConnection:
        known = self._connections.get(server)
        if known is None or known.closed:
            known = await ClientConnection.connect(server, ssl=current_context(self._tls), world=self._world)
            self._connections[server] = known
        return known

    async def _leave(self, server: str) -> None:
        known = self._connections.get(server)
        if known is None or known.closed:
            return
        header = UnRegisterBrokerRequestHeader(
            broker_name=self._options.place.broker_name,
            broker_addr=self._place.address,
            cluster_name=self._options.place.broker_cluster_name,
            broker_id=self._role.broker_id,
        )
        try:
            request = make_request(codes.UNREGISTER_BROKER, 0, header.to_ext())
            await known.request(signed(request, self._options.access.inner_credentials), UNREGISTER_TIMEOUT_S)
        except BolideError as error:
            log.info("left without unregistering at %s: %s", server, error)
        known.close()
        await known.wait_closed()


def body_of(config: TopicConfig, broker_permission: int) -> TopicConfigBody:
    """Return a topic as registered. A broker without read or write permission removes it from each of its topics."""
    return TopicConfigBody(
        config.topic_name,
        config.read_queue_nums,
        config.write_queue_nums,
        config.perm & broker_permission if broker_permission != PERM_READ_WRITE else config.perm,
        TopicFilterType(config.topic_filter_type),
        config.topic_sys_flag,
        config.order,
        config.attributes,
    )


RegisterHook = Callable[[set[str]], None]
