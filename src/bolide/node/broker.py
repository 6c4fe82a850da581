"""A running broker: store, services, sockets, threads and timers of one `BrokerOptions`.

`BrokerNode` is the object inside a loop (tests, `bolide.testing`, standalone); `run_broker` is the process. Start
order: settings checked, store recovered, tables loaded, listener bound, registered; the stop goes the other way.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from bolide import plugins
from bolide.broker.append.uniq_key import UniqKeys
from bolide.broker.core.effects import Effects
from bolide.broker.core.options import BrokerOptions
from bolide.broker.expressions import ExpressionTypes
from bolide.broker.hooks import Hooked
from bolide.broker.pull.hold import HoldTable
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.pull_filter import Filters
from bolide.declaration import settings_of
from bolide.errors import ConfigError
from bolide.layout.message_id import encode_host
from bolide.layout.shape import StoreShape
from bolide.node.assembly import BrokerParts
from bolide.node.loop.clock import Clock
from bolide.node.loop.cold_reads import ColdReads
from bolide.node.loop.executor import Executor
from bolide.node.loop.flusher import FlushThread
from bolide.node.loop.front import ALL_SERVED, Connections, Front
from bolide.node.loop.host import NodeHost
from bolide.node.loop.persist import ConfigFiles
from bolide.node.loop.turns import Turns
from bolide.node.plugins.dispatchers import Dispatchers
from bolide.node.plugins.plugin_loading import make_dispatchers, make_hooks
from bolide.node.plugins.topic_plugins import TopicPicks
from bolide.node.process.addresses import announced_ip, host_port
from bolide.node.process.daemon import run_daemon, start_logging
from bolide.node.process.exit_codes import BAD_CONFIG
from bolide.node.process.open_files import raise_limit, share_of_connections, share_of_store
from bolide.node.process.tls_renewal import TlsRenewal
from bolide.node.routes.registrar import Place, Registration
from bolide.node.routes.route_book import RouteBook
from bolide.node.settings.config import load_daemon, shown
from bolide.node.settings.live_settings import LiveSettings
from bolide.node.settings.unkept import refuse_unkept_options
from bolide.remoting.bodies.base import MessageQueue
from bolide.store.files import Files, RealFiles
from bolide.store.message_store import MessageStore
from bolide.store.options import Resources
from bolide.transport.address import split_addresses
from bolide.transport.protocol_detector import Ingress
from bolide.transport.server import bound_port, listen
from bolide.transport.tls_contexts import RenewedContext, client_context
from bolide.transport.unfinished import Unfinished

log = logging.getLogger("bolide.node")
FIRST_REGISTRATION_S: Final = 3.0
IDLE_SWEEP_S: Final = 10.0
DRAIN_S: Final = 2.0


class BrokerNode:
    """One broker in the running loop.

    `conf` is the file in which changes at run time are kept; None = they end with the process.
    """

    def __init__(
        self,
        options: BrokerOptions,
        files: Files | None = None,
        conf: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.options = options
        self.clock = clock if clock is not None else Clock()
        self.root = str(Path(options.store_path_root_dir).expanduser())
        self.failure: BaseException | None = None
        self.stopped = asyncio.Event()
        """Set when the broker cannot go on by itself: the process then ends with STORE_FAILED."""
        self._live = LiveSettings(options, conf or "", files if files is not None else RealFiles())
        self._files: Files = files if files is not None else RealFiles()
        self._servers: list[asyncio.Server] = []
        self._begun: list[Callable[[], None]] = []
        """What ends the threads and timers that a start has begun, should it fail later on."""
        self._registration: Registration | None = None
        self._routes: RouteBook | None = None
        self._sweep: asyncio.Task[None] | None = None
        self._tls = TlsRenewal(log)
        self.port = 0
        self.ip = ""

    @property
    def address(self) -> str:
        """`ip:port` under which clients reach this broker."""
        return host_port(self.ip, self.port)

    async def start(self) -> None:
        """Recover the store and serve. Raises `ConfigError`, the store's errors, `OSError` for a taken port."""
        loop = asyncio.get_running_loop()
        options = self.options
        now = self.clock.now()
        refuse_unkept_options(options)
        check_name_servers(options)
        check_log_folder(options)
        self.ip = announced_ip(options.bind_address, options.broker_ip1)
        self._host = host = NodeHost(f"bolide.broker.{options.broker_name}", loop, self._files)
        for line in options.warnings:
            host.log.warning("%s", line)
        effects = Effects()
        expression_types = ExpressionTypes(
            partial(plugins.find, plugins.EXPRESSION_TYPES), options.max_filter_length, options.max_filter_operations
        )
        filters = ConsumerFilters(options, Filters(expression_types), effects, now)
        self.store = store = MessageStore(
            self._files, self.root, StoreShape.of(options), options, filters.calc_bitmap, store_resources()
        )
        if options.enable_calc_filter_bit_map:
            # Recovery dispatches again, and needs to know whose bits to set.
            ConfigFiles(self._files, self.root + "/config", {filters.persist_name: filters}, loop.call_soon).load()
        report = store.load(now)
        level = logging.WARNING if report.truncated_bytes else logging.INFO
        host.log.log(level, "store %s: %s", self.root, report.sentence())
        try:
            await self._start_services(host, store, effects, filters, report.abnormal, now)
        except BaseException:
            for server in self._servers:
                server.close()
            self._servers.clear()
            while self._begun:
                self._begun.pop()()
            host.pool.shutdown(wait=True)
            store.close(self.clock.now())
            raise
        self._sweep = asyncio.create_task(self._close_idle())
        self._tls.start()
        if self._registration is not None:
            self._registration.start()
            await self._registration.first(FIRST_REGISTRATION_S)

    async def _start_services(
        self,
        host: NodeHost,
        store: MessageStore,
        effects: Effects,
        filters: ConsumerFilters,
        crashed: bool,
        now: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        options = self.options
        keys = UniqKeys(encode_host(self.ip, 0)[:-4], os.getpid(), int.from_bytes(os.urandom(4), "big"))
        self._dispatchers = Dispatchers(
            make_dispatchers(options.dispatchers, conf_of(options)),
            store,
            effects,
            loop.call_soon_threadsafe,
            host.another_turn,
            self.clock.now,
        )
        self._begun.append(self._dispatchers.stop)
        hooks = make_hooks(options.broker_hooks, conf_of(options))
        hooked = Hooked(hooks, host.failed)
        picks = TopicPicks(self._dispatchers, hooked, conf_of(options))
        more = [self._dispatchers]
        self.parts = parts = BrokerParts(
            options, store, effects, keys, self.settings, self._update, self._disk, host.log, filters, more, now, picks
        )
        parts.pulls.clock = self.clock.now
        self._cold_reads = ColdReads(store, options.max_cold_read_bytes)
        self._cold_reads.around(parts.services.table)
        if hooks:
            hooked.around(parts.services.table)
        folder, tables = self.root + "/config", parts.services.persisted
        config = ConfigFiles(self._files, folder, tables, loop.call_soon_threadsafe, loop.call_later)
        config.load()
        if crashed and not options.is_slave:  # a slave has its master's table, whose log may be ahead
            cut = parts.offsets.cut(lambda topic, queue_id: int(store.max_queue_offset(topic, queue_id)), now)
            if cut:
                host.log.warning("%d committed offsets were beyond the ends of their queues: they are set back", cut)
        picks.begin(parts.topics, parts.services.table)
        host.configs = config
        self._hold = hold = HoldTable(options.max_held_requests)
        self._executor = executor = Executor(
            parts.services,
            effects,
            host,
            parts.stats,
            store,
            hold,
            options,
        )
        self._turns = turns = Turns(loop, executor, self.clock)
        turns.on_clock_set = self._clock_set
        host.turns = turns
        host.flusher = FlushThread(store.sync_commit_log, loop.call_soon_threadsafe, self._flushed, self._flush_failed)
        self._begun += [host.flusher.stop, turns.stop]
        host.on_store_failed = self._on_store_failed
        self.connections = connections_of(options, host.log)
        await self._listen(parts, host)
        parts.writer.set_host(encode_host(self.ip, self.port))
        parts.timers.load(now)
        parts.transactions.begin()
        parts.services.start(now)
        turns.start()
        if options.namesrv_addr:
            self._prepare_registration(parts, host)

    def _prepare_registration(self, parts: BrokerParts, host: NodeHost) -> None:
        options = self.options
        place = Place(self.address, host_port(options.broker_ip2 or self.ip, options.ha_listen_port or self.port + 1))
        tls = name_server_context(options)
        self._tls.add(tls)
        self._registration = Registration(options, place, parts.topics, tls)
        host.on_register = self._registration.changed
        self._routes = RouteBook(options.namesrv_addr, self._route_told, tls)
        parts.assignments.ask_route = self._routes.ask

    async def _listen(self, parts: BrokerParts, host: NodeHost) -> None:
        options = self.options
        limits = (options.max_frame_length, options.client_write_buffer_high, options.client_write_buffer_limit)
        front = Front(self._turns, self.connections, parts.stats, host.log, ALL_SERVED)
        ingress = Ingress.of(options)
        self._tls.add(ingress.tls)
        self._unfinished = frames = Unfinished(options.max_unfinished_bytes, options.max_frame_seconds)
        given: dict[str, Any] = {"ingress": ingress, "frames": frames}
        server = await listen(front, options.bind_address, options.listen_port, *limits, **given)
        self._servers.append(server)
        self.port = bound_port(server)
        if options.fast_port_enable:
            lacks = parts.services.not_on_fast_port
            fast = Front(self._turns, self.connections, parts.stats, host.log, lacks)
            self._servers.append(await listen(fast, options.bind_address, self.port - 2, *limits, **given))

    async def stop(self) -> None:
        """Unregister, stop listening, write everything down and close the store; the second call does nothing."""
        if self._sweep is None:
            return
        sweep, self._sweep = self._sweep, None
        sweep.cancel()
        self._tls.stop()
        if self._registration is not None:
            await self._registration.stop()
        if self._routes is not None:
            await self._routes.stop()
        for server in self._servers:
            server.close()
        self._executor.end_of_turn(self.clock.now())
        await within(DRAIN_S, lambda: self._executor.unanswered == 0)  # requests already taken are still answered
        for channel in list(self.connections.channels.values()):
            channel.link.close()
        if not await within(DRAIN_S, lambda: not self.connections.channels):
            for channel in list(self.connections.channels.values()):
                channel.link.abort()  # a peer that does not take its last bytes
        self._turns.stop()
        host = self._host
        assert host.flusher is not None
        await asyncio.to_thread(host.flusher.stop)
        await asyncio.to_thread(self._dispatchers.stop)
        await asyncio.sleep(0)  # lets the last reports of these threads run before the store closes
        assert host.configs is not None
        host.configs.stop()
        await asyncio.to_thread(host.pool.shutdown)
        try:
            self.store.close(self.clock.now())
        finally:
            host.configs.write_all_now()  # even if the last write of the log fails, offsets of groups are stored

    async def reload(self) -> None:
        """Reload what may change outside while the broker runs: certificates, keys and trust."""
        await self._tls.look()

    @property
    def waiting_sends(self) -> int:
        """Sends whose answer waits for the log."""
        return self._executor.parked_count

    def another_turn(self) -> None:
        """Carry out effects noted from outside a request (tests, embedding programs)."""
        self._turns.schedule()

    def settings(self) -> dict[str, str]:
        """Every setting in force, by Java key, as text."""
        found = conf_of(self.options)
        found["brokerIP1"] = self.ip
        found["listenPort"] = str(self.port)
        return found

    def _update(self, changes: dict[str, str]) -> str | None:
        """Change settings of the running broker; says why when it cannot be."""
        refusal = self._live.update(changes, self._apply)
        if refusal is None:
            self.options = self._live.options
            self._host.log.info("settings changed: %s", ", ".join(f"{k}={v}" for k, v in sorted(changes.items())))
        return refusal

    def _disk(self) -> tuple[int, int]:
        """Total and free bytes of the store's disk."""
        usage = shutil.disk_usage(self.root)
        return usage.total, usage.free

    def _apply(self, options: BrokerOptions) -> None:
        """Tell everybody who reads a setting that may change. """
        self.store.maintenance.retention.configure(options)
        for configure in self.parts.services.configured:
            configure(options)
        self._executor.gate.configure(options)
        self._hold.configure(options.max_held_requests)
        self.connections.configure(max_connections(options), options.server_channel_max_idle_time_seconds * 1000)
        if self._registration is not None:
            self._registration.configure(options)

    def _route_told(self, topic: str, queues: list[MessageQueue] | None) -> None:
        self.parts.assignments.route_arrived(topic, queues, self.clock.now())
        self._turns.schedule()

    def _flushed(self, target: int) -> None:
        self._executor.flushed(target, self.clock.now())

    def _flush_failed(self, error: BaseException) -> None:
        self._executor.flush_failed(error)

    def _on_store_failed(self, error: BaseException) -> None:
        self.failure = error
        for server in self._servers:
            server.close()
        self.stopped.set()

    def _clock_set(self, offset: int) -> None:
        self.store.clock_set(offset)
        self.parts.services.touched = True
        self._host.log.warning(
            "the wall clock was set: it is %.1f s from where this process would have it; store times, timers and file "
            "ages follow it from here on, everything else goes by the time that has passed",
            offset / 1000,
        )

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_SWEEP_S)
            self._unfinished.close_late()
            for channel in self.connections.idle(self.clock.now()):
                self._host.log.info("closing the connection of %s: silent for too long", channel.remote)
                channel.link.close()


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until something holds; False when it does not within the time."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.005)
    return True


def check_name_servers(options: BrokerOptions) -> None:
    """Raise `ConfigError` when namesrvAddr holds anything but addresses."""
    if options.namesrv_addr.strip():
        try:
            split_addresses(options.namesrv_addr)
        except ConfigError as error:
            raise ConfigError(f"namesrvAddr = {options.namesrv_addr!r} is not allowed: {error}") from None


def name_server_context(options: BrokerOptions) -> RenewedContext | None:
    """How name servers are spoken to; None in the clear. Raises `ConfigError`."""
    wanted = options.tls_enable == "true" or (options.tls_enable == "" and options.tls_mode == "enforcing")
    if not wanted:
        return None
    paths = (options.tls_client_trust_cert_path, options.tls_client_cert_path, options.tls_client_key_path)
    make = partial(client_context, options.tls_client_auth_server, *paths, options.tls_client_key_password)
    return RenewedContext(make, paths)


def conf_of(options: BrokerOptions) -> dict[str, str]:
    """All options as the text a broker.conf would hold: what GET_BROKER_CONFIG answers and plug-ins get."""
    return {key: shown(key, getattr(options, setting.name)) for key, setting in settings_of(BrokerOptions).items()}


def check_log_folder(options: BrokerOptions) -> None:
    """Raise `ConfigError` when storePathCommitLog names another folder than the one that is used."""
    used = Path(options.store_path_root_dir).expanduser() / "commitlog"
    wanted = options.store_path_commit_log
    if wanted and Path(wanted).expanduser().resolve() != used.resolve():
        raise ConfigError(
            f"storePathCommitLog = {wanted} is not supported: the log is in commitlog/ under storePathRootDir, which "
            f"is {used.resolve()}; leave it out"
        )


def store_resources() -> Resources:
    """What this machine gives the store."""
    return Resources(memory_bytes=machine_memory(), max_open_files=share_of_store(raise_limit()))


def connections_of(options: BrokerOptions, told: logging.Logger) -> Connections:
    """The table of connections; logs when it holds fewer than the settings allow."""
    table = Connections(max_connections(options), options.server_channel_max_idle_time_seconds * 1000)
    if table.limit < options.max_connections:
        told.info(
            "%d connections are allowed, not maxConnections = %d: raise the limit of open files with ulimit -n",
            table.limit,
            options.max_connections,
        )
    return table


def max_connections(options: BrokerOptions) -> int:
    """Connections that may be open without taking a descriptor from the store."""
    limit = raise_limit()
    return share_of_connections(limit, options.max_connections, share_of_store(limit))


def machine_memory() -> int:
    """Bytes of memory of this machine, 0 where it cannot be asked: what counts as "in memory" hangs on it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def run_broker(flags: Mapping[str, object] | None = None, conf: str | None = None, follow_stdin: bool = False) -> int:
    """Run a broker as this process until it is told to stop; returns the exit status (node/process/exit_codes.py).

    `flags` are settings by Java key that beat the file `conf`; `follow_stdin` stops it at the end of standard input.
    """
    start_logging()
    try:
        loaded, kept = load_daemon(BrokerOptions, flags, conf, kept_settings)
    except ConfigError as error:
        log.error("%s", error)
        return BAD_CONFIG
    for line in loaded.warnings:
        log.warning("%s", line)
    name = loaded.options.broker_name
    if loaded.options.namesrv_addr:
        log.info("name servers: %s (%s)", loaded.options.namesrv_addr, loaded.origins["namesrvAddr"])
    else:
        log.warning("no name server is set, so clients cannot find this broker: give -n HOST:PORT or namesrvAddr")
    return run_daemon(lambda: BrokerNode(loaded.options, conf=kept), f"broker {name}", follow_stdin)


def kept_settings(options: BrokerOptions) -> str:
    """The file in which a broker that is started without one keeps changes made while it runs."""
    return str(Path(options.store_path_root_dir).expanduser() / "config" / "broker.conf")
