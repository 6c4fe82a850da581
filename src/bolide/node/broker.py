"""A running broker: store, services, sockets, threads and timers for one `BrokerOptions`.

`BrokerNode` is the object inside a loop; `node/broker_process.py` runs it as a process. Start order: check settings,
bind ports, recover the store, load tables, serve ports, register. A stop, and the cleanup of a failed start, run in
reverse order.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor as Pool
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from bolide.broker.append.uniq_key import UniqKeys
from bolide.broker.core.effects import Effects
from bolide.broker.core.role import Role
from bolide.broker.core.wait_table import WaitTable
from bolide.broker.hooks import Hooked
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.filters import ConsumerFilters
from bolide.layout.message_id import encode_host
from bolide.node.access.admitting import admission
from bolide.node.assembly import BrokerParts, Surroundings
from bolide.node.broker_store import consumer_filters, loaded_store, store_root
from bolide.node.loop.cold_reads import ColdReads
from bolide.node.loop.executor import Executor, ExecutorLinks
from bolide.node.loop.flusher import THREAD_NAME, FlushThread, timed
from bolide.node.loop.front import Front
from bolide.node.loop.host import POOL_THREADS, NodeHost, log_failure
from bolide.node.loop.persist import ConfigFiles
from bolide.node.loop.turns import Turns
from bolide.node.loop.waits import Waits
from bolide.node.loop.within import within
from bolide.node.machine.machine_use import machine_use
from bolide.node.machine.node_world import NodeWorld, RealNodeWorld
from bolide.node.metrics.exporter import made_monitoring
from bolide.node.plugins.dispatchers import Dispatchers
from bolide.node.plugins.plugin_loading import make_dispatchers, make_hooks
from bolide.node.plugins.topic_plugins import TopicPicks
from bolide.node.ports.addresses import announced_ip, host_port
from bolide.node.ports.connection_limit import connections_of, max_connections
from bolide.node.ports.daemon_port import DaemonPort
from bolide.node.ports.fast_port import fast_port
from bolide.node.ports.front_end import FrontEnd
from bolide.node.ports.tls_renewal import TlsRenewal
from bolide.node.replication.ha_client import LoopParts
from bolide.node.replication.mode import ModeParts, ReplicationMode
from bolide.node.replication.modes import replication_mode
from bolide.node.replication.node_parts import NodeParts
from bolide.node.replication.slave_port import SlavePort
from bolide.node.routes.master_tables import MasterTables
from bolide.node.routes.name_servers import check_name_servers, name_server_context
from bolide.node.routes.registrar import Place, Registration
from bolide.node.routes.route_book import RouteBook
from bolide.node.settings.broker_settings import check_log_folder, conf_of, listen_setting
from bolide.node.settings.live_settings import LiveSettings
from bolide.remoting.bodies.base import MessageQueue
from bolide.transport.protocol_detector import Ingress
from bolide.transport.server import accepting
from bolide.transport.tls_contexts import RenewedContext
from bolide.transport.unfinished import Unfinished

if TYPE_CHECKING:
    from bolide.node.metrics.monitoring import Monitoring

log = logging.getLogger("bolide.node")
FIRST_REGISTRATION_S: Final = 3.0
IDLE_SWEEP_S: Final = 10.0
DRAIN_S: Final = 2.0


class BrokerNode:
    """One broker in the running loop.

    `conf`: file in which changes at run time are stored; None: they are not stored. `world`: environment of the node;
    None: the real one.
    """

    def __init__(
        self,
        options: BrokerOptions,
        conf: str | None = None,
        world: NodeWorld | None = None,
    ) -> None:
        self.options = options
        self.world: NodeWorld = world if world is not None else RealNodeWorld()
        self.clock = self.world.clock()
        self.root = store_root(options)
        self.failure: BaseException | None = None
        self.stopped = asyncio.Event()
        """Set when the broker cannot continue. The process then exits with STORE_FAILED."""
        self.port = 0
        self.ip = ""
        self._log = logging.getLogger(f"bolide.broker.{options.place.broker_name}")
        self._live = LiveSettings(options, conf or "", self.world.files)
        self._tls = TlsRenewal(self.world, log)
        self._life = AsyncExitStack()
        """Cleanup actions of a stop, newest first. A failed start runs those of its completed steps."""
        self._front_ends: list[FrontEnd] = []
        self._registration: Registration | None = None
        self.master_tables: MasterTables | None = None
        """Copies the master's tables, on a slave."""
        self._master_said = ("", "")
        self.monitoring: Monitoring | None = None
        """The port of /metrics, if there is one."""
        self._turns: Turns | None = None
        self._served = False
        """Whether clients may have changed the tables, so that a stop writes them."""

    @property
    def address(self) -> str:
        """`ip:port` under which clients reach this broker."""
        return host_port(self.ip, self.port)

    async def start(self) -> None:
        """Recover the store and serve. A failed start releases all ports, threads, timers, tasks and locks.

        Raises `ConfigError`, the store's errors, and `CannotListen` if a port is in use.
        """
        check_name_servers(self.options)
        check_log_folder(self.options)
        async with AsyncExitStack() as life:
            await self._begin(life)
            self._life = life.pop_all()

    async def stop(self) -> None:
        """Unregister, stop listening, write all tables and close the store. A second call does nothing."""
        life, self._life = self._life, AsyncExitStack()
        await life.aclose()

    async def _begin(self, life: AsyncExitStack) -> None:
        options, world, now = self.options, self.world, self.clock.now()
        self.ip = announced_ip(options.place.bind_address, options.place.broker_ip1, world)
        for line in options.warnings:
            self._log.warning("%s", line)
        self._tls = TlsRenewal(world, log)
        self._registration = self._turns = None
        to_name_servers = name_server_context(options)
        ingress = Ingress.of(options.tls, options.connections.trusted_proxies)
        connections = options.connections
        self._unfinished = Unfinished(connections.max_unfinished_bytes, connections.max_frame_seconds, world.monotonic)
        remoting = partial(
            accepting,
            max_frame=connections.max_frame_length,
            write_high=connections.client_write_buffer_high,
            write_limit=connections.client_write_buffer_limit,
            ingress=ingress,
            frames=self._unfinished,
        )
        self._front_ends = []
        life.callback(self._close_ports)
        port = DaemonPort(world, options.place.bind_address, options.place.listen_port, listen_setting(options))
        self._front_ends.append(FrontEnd(port, remoting, lambda row: True))
        self.port = port.number
        fast = fast_port(options, self.port, world, self._log)
        if fast is not None:
            self._front_ends.append(FrontEnd(fast, remoting, lambda row: row.fast_port))
        self.monitoring = made_monitoring(options.process, options.place.bind_address, world, life)
        self._slave_port = slave_port = SlavePort(options, world, self.port, self._log)
        life.callback(slave_port.close)
        for context in (to_name_servers, ingress.tls, *slave_port.contexts):
            self._tls.add(context)
        self._served = False
        life.callback(self._write_tables)
        effects = Effects()
        filters = consumer_filters(options, effects, now, lambda now: self.store.store_time(now))
        self.store, self._report = loaded_store(options, world, filters, now, self._log)
        life.callback(lambda: self.store.close(self.clock.now()))
        pool = world.pool(POOL_THREADS, "bolide-pool")
        life.push_async_callback(world.in_thread, pool.shutdown)
        routes = None
        if options.registration.namesrv_addr:
            credentials = options.access.inner_credentials
            servers = options.registration.namesrv_addr
            routes = RouteBook(servers, self._route_told, to_name_servers, world, credentials)
            life.push_async_callback(routes.stop)
        self._replication = mode = self._make_mode(effects, to_name_servers)
        parts = self._make_parts(life, effects, filters, routes, now)
        host = self._make_host(life, parts, pool)
        executor = self._make_executor(life, parts, effects, host)
        self._turns = turns = Turns(asyncio.get_running_loop(), executor, self.clock, self._clock_set)
        life.callback(turns.stop)
        self.connections = connections_of(options.connections, world, self._log)
        parts.timers.load(now)
        parts.transactions.begin(now)
        parts.services.start(now)
        turns.start()
        self._served = True
        life.push_async_callback(mode.stop)
        life.push_async_callback(self._drain)
        await self._serve(turns, parts)
        self._tls.start()
        life.callback(self._tls.stop)
        sweep = asyncio.create_task(self._close_idle())
        life.callback(sweep.cancel)
        if options.registration.namesrv_addr:
            await self._register_first(life, parts, turns, to_name_servers)
        if self.monitoring is not None:
            await self._watch(self.monitoring, parts)
            life.push_async_callback(self.monitoring.stop)  # before anything that it reports is closed

    async def _watch(self, monitoring: Monitoring, parts: BrokerParts) -> None:
        from bolide.node.metrics.broker_figures import BrokerSource
        from bolide.node.metrics.broker_pages import serve_broker

        source = BrokerSource(
            self.options, parts, self.store, self._executor, self._waiters, self.connections, self._configs,
            self._cold_reads, self._registration, self._tls.ends,
        )  # fmt: skip
        await serve_broker(monitoring, source, self.world, self.clock)

    def _make_mode(self, effects: Effects, tls: RenewedContext | None) -> ReplicationMode:
        options, port = self.options, self._slave_port
        return replication_mode(
            ModeParts(
                options,
                self.world,
                self.store,
                self._report,
                Role.of(options),
                Place(self.address, host_port(options.place.broker_ip2 or self.ip, port.number)),
                port,
                LoopParts(effects, self.another_turn, self.clock.now, self.world, self._log, tls),
                self.store_failed,
            )
        )

    def _make_parts(
        self, life: AsyncExitStack, effects: Effects, filters: ConsumerFilters, routes: RouteBook | None, now: int
    ) -> BrokerParts:
        """Return the services with their tables, loaded from the files in config/."""
        options, world, store, settings = self.options, self.world, self.store, conf_of(self.options)
        loop = asyncio.get_running_loop()
        life.push_async_callback(asyncio.sleep, 0)  # let the last reports of threads run before the store closes
        made = make_dispatchers(options.plugins.dispatchers, settings)
        self._dispatchers = Dispatchers(
            made, store, effects, loop.call_soon_threadsafe, self.another_turn, self.clock.now, world.worker
        )
        life.push_async_callback(lambda: world.in_thread(self._dispatchers.stop))
        hooks = make_hooks(options.plugins.broker_hooks, settings)
        hooked = Hooked(hooks, partial(log_failure, self._log))
        picks = TopicPicks(self._dispatchers, hooked, settings)
        around = Surroundings(
            self._replication.role,
            encode_host(self.ip, self.port),
            UniqKeys(encode_host(self.ip, 0)[:-4], world.process_id(), world.random.getrandbits(32)),
            self.settings,
            self._update,
            partial(machine_use, world, self.root, self._tls.ends),
            self.clock.now,
            world.monotonic,
            routes.ask if routes is not None else None,
            self._log,
        )
        more = [self._dispatchers, *self._replication.services()]
        self.parts = parts = BrokerParts(options, store, effects, around, filters, more, now, picks)
        self._cold_reads = ColdReads(store, options.pull.max_cold_read_bytes)
        self._cold_reads.around(parts.services.table)
        if hooks:
            hooked.around(parts.services.table)
        self._configs = configs = ConfigFiles(
            world.files,
            self.root + "/config",
            parts.services.persisted,
            loop.call_soon_threadsafe,
            loop.call_later,
            world.monotonic,
        )
        life.callback(configs.stop)
        configs.load()
        if parts.user_admin.make_missing():
            configs.write_now(parts.user_admin.persist_name)
        if parts.role.may_write:  # a slave has its master's tables, whose log may be ahead
            # before a slave copies the topics: it deletes topics that the master does not return
            parts.untold.tick(now, 0)
        if cut := parts.cut(configs, self._report.abnormal, now):
            self._log.warning("reset %d committed offsets that were past the ends of their queues", cut)
        picks.begin(parts.topics, parts.services.table)
        return parts

    def _make_host(self, life: AsyncExitStack, parts: BrokerParts, pool: Pool) -> NodeHost:
        soon = asyncio.get_running_loop().call_soon_threadsafe
        worker = self.world.worker(THREAD_NAME)
        sync = timed(self.store.sync_commit_log, parts.stats.syncs, self.world.monotonic)
        flusher = FlushThread(worker, sync, soon, self._flushed, self._flush_failed)
        life.push_async_callback(self.world.in_thread, flusher.stop)
        return NodeHost(self, self._log, self.world.files, pool, soon, self.clock.now, flusher, self._configs)

    def _make_executor(self, life: AsyncExitStack, parts: BrokerParts, effects: Effects, host: NodeHost) -> Executor:
        options = self.options
        self._waiters = waiters = WaitTable(options.pull.max_held_requests)
        side = self._replication.side
        admits = admission(life, self.world, self._log, options, parts)
        links = ExecutorLinks(side, admits, self._replication.send_away, parts.sends)
        self._executor = executor = Executor(
            parts.services, effects, host, parts.stats, self.store, waiters, options, links
        )
        if side is not None:
            parts.inspection.replicas = side
        parts.inspection.waiting = Waits(executor)
        return executor

    async def _serve(self, turns: Turns, parts: BrokerParts) -> None:
        for port, codec, serves in self._front_ends:
            not_served = frozenset(code for code, row in parts.services.table.rows.items() if not serves(row))
            front = Front(turns, self.connections, parts.stats, self._log, not_served)
            await port.serve(codec(front))
        await self._replication.serve()

    async def _register_first(
        self, life: AsyncExitStack, parts: BrokerParts, turns: Turns, tls: RenewedContext | None
    ) -> None:
        options, mode, role = self.options, self._replication, parts.role
        self.master_tables = tables = MasterTables(
            parts.following, self.address, self._log_end, self.another_turn, tls, self.world, options=options
        )
        life.push_async_callback(tables.stop)
        told = None if role.may_write else self._master_told
        self._registration = registration = Registration(options, mode.place, parts.topics, tls, self.world, role, told)
        life.push_async_callback(registration.stop)
        life.push_async_callback(mode.leave)
        back = partial(parts.cut, self._configs, True)
        node = NodeParts(
            role, parts.topics, parts.services, self._executor, turns, tables, registration, parts.following,
            parts.work_changed, back,
        )  # fmt: skip
        await mode.join(node, FIRST_REGISTRATION_S)

    def _master_told(self, address: str, ha_address: str) -> None:
        """Set the master of this slave, as returned by name servers."""
        told = (address or "not there", ha_address or "nowhere")
        if told != self._master_said:
            self._master_said = told
            self._log.info("the master is %s, its log comes from %s", *told)
        if self.master_tables is not None:
            self.master_tables.master_is(address)
        self._replication.master_told(ha_address)

    def _log_end(self) -> int:
        """Return the end of the log on disk, or -1 while it is not known to be a prefix of the master's log."""
        side = self._replication.side
        return int(self.store.flushed_offset) if side is None or side.shares_log() else -1

    def _close_ports(self) -> None:
        for end in self._front_ends:
            end.port.close()

    async def _drain(self) -> None:
        """Stop accepting connections, respond to received requests, and close every connection."""
        self._close_ports()
        self._executor.end_of_turn(self.clock.now())
        await within(DRAIN_S, lambda: self._executor.unanswered == 0)  # respond to requests that were already received
        for channel in list(self.connections.channels.values()):
            channel.link.close()
        if not await within(DRAIN_S, lambda: not self.connections.channels):
            for channel in list(self.connections.channels.values()):
                channel.link.abort()  # a client that does not read its last bytes

    def _write_tables(self) -> None:
        """Write all tables, the last step of a stop. Keeps group offsets even if the last write of the log fails."""
        if self._served:
            self._configs.write_all_now()

    async def reload(self) -> None:
        """Reload certificates, keys and trusted certificates."""
        await self._tls.look()

    @property
    def waiting_sends(self) -> int:
        """Number of sends whose response waits for the log."""
        return self._executor.parked_count

    def another_turn(self) -> None:
        """Schedule an `end_of_turn` to apply effects that were noted outside a request."""
        if self._turns is not None:
            self._turns.schedule()

    def register(self, topic_names: set[str]) -> None:
        """Register topics ("" = all) with the name servers, if there are any."""
        if self._registration is not None:
            self._registration.changed(topic_names)

    def store_failed(self, error: BaseException) -> None:
        """Stop serving, because the log can no longer be written or synced."""
        self.failure = error
        self._close_ports()
        self.stopped.set()

    def settings(self) -> dict[str, str]:
        """Return every setting in force, by Java key, as text."""
        found = conf_of(self.options)
        found["brokerIP1"] = self.ip
        found["listenPort"] = str(self.port)
        if self.options.controlled.enable_controller_mode:
            role = self.parts.role
            found.update(brokerRole=role.name, brokerId=str(max(role.broker_id, 0)))
        return found

    def _update(self, changes: dict[str, str]) -> str | None:
        """Change settings of the running broker. Return None on success, otherwise the reason."""
        refusal = self._live.update(changes, self._apply)
        if refusal is None:
            self.options = self._live.options
            self._log.info("settings changed: %s", ", ".join(f"{k}={v}" for k, v in sorted(changes.items())))
        return refusal

    def _apply(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self.store.maintenance.retention.configure(options.store)
        for configure in self.parts.services.configured:
            configure(options)
        self._executor.gate.configure(options)
        self._waiters.configure(options.pull.max_held_requests)
        idle_ms = options.connections.server_channel_max_idle_time_seconds * 1000
        self.connections.configure(max_connections(options.connections, self.world), idle_ms)
        if self._registration is not None:
            self._registration.configure(options)

    def _route_told(self, topic: str, queues: list[MessageQueue] | None) -> None:
        self.parts.assignments.route_arrived(topic, queues, self.clock.now())
        self.another_turn()

    def _flushed(self, target: int) -> None:
        if self._turns is not None:
            self._turns.flushed(target)

    def _flush_failed(self, error: BaseException) -> None:
        self._executor.flush_failed(error)

    def _clock_set(self, offset: int) -> None:
        self.store.clock_set(offset)
        self.parts.services.touched = True
        self._log.warning(
            "the wall clock was changed by %.1f s: store times, timers and file ages follow it, intervals do not",
            offset / 1000,
        )

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_SWEEP_S)
            self._unfinished.close_late()
            for channel in self.connections.idle(self.clock.now()):
                self._log.info("closing the connection of %s: silent for too long", channel.remote)
                channel.link.close_idle()
