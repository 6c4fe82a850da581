"""A running controller: sockets, timer, engine and settings file around `controller.server.Controller`.

`ControllerNode` is the object inside a loop, `run_controller` the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from bolide.controller.consensus import ConsensusStore, LeadershipLost, Member, StoreUnavailable
from bolide.controller.decisions import SetDecision
from bolide.controller.effects import ClosePeer, Elect, KeepConfirmed, KeepControllerSettings
from bolide.controller.options import ControllerOptions
from bolide.controller.replica_set import StateDamaged
from bolide.controller.replies import answer_of
from bolide.controller.server import Controller
from bolide.errors import ConfigError
from bolide.node.controller.deciding import Deciding
from bolide.node.controller.etcd import Etcd
from bolide.node.controller.etcd_place import endpoints
from bolide.node.controller.etcd_store import RENEWALS, EtcdStore
from bolide.node.controller.file_store import FileStore
from bolide.node.machine.kept_files import KeptFiles
from bolide.node.machine.node_world import NodeWorld, RealNodeWorld
from bolide.node.machine.open_files import share_of_connections
from bolide.node.metrics.exporter import made_monitoring
from bolide.node.ports.addresses import announced_ip, host_port
from bolide.node.ports.daemon_port import DaemonPort
from bolide.node.ports.peers import MAX_FRAME, WRITE_HIGH, WRITE_LIMIT, Peer, Peers
from bolide.node.ports.tls_renewal import TlsRenewal
from bolide.node.process.daemon import Told, run_daemon, told_to_nobody
from bolide.node.process.exit_codes import BAD_CONFIG
from bolide.node.routes.tellings import Tellings
from bolide.node.settings.daemon_settings import daemon_settings
from bolide.node.settings.live_settings import edited_file
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.transport.protocol_detector import Ingress
from bolide.transport.server import accepting
from bolide.transport.unfinished import Unfinished
from bolide.world.home import expanded
from bolide.world.open_files import ENOUGH
from bolide.world.tasks import end_tasks

if TYPE_CHECKING:
    from bolide.node.metrics.monitoring import Monitoring

log = logging.getLogger("bolide.controller")
FOLDER: Final = "~/controller"
"""Default folder of a controller's settings file, as in RocketMQ, and of its decisions."""
PAUSE_S: Final = 1.0
"""Pause between two attempts to reach the engine."""


class ControllerNode:
    """One controller in the running loop. Implements `node.ports.peers.Answers`.

    `conf`: file in which changes at run time are stored, or None for the file that the options specify. `world`:
    environment of the node, or None for the real one.
    """

    def __init__(self, options: ControllerOptions, conf: str | None = None, world: NodeWorld | None = None) -> None:
        self.options = options
        self.world: NodeWorld = world if world is not None else RealNodeWorld()
        self._conf = kept_settings(options) if conf is None else conf
        self.stopped = asyncio.Event()
        self.failure: BaseException | None = None
        self.port = 0
        self.ip = ""
        self._clock = self.world.clock()
        self._life = AsyncExitStack()
        """Cleanup actions of a stop, newest first. A failed start runs those of its completed steps."""
        self._kept = KeptFiles(self.world, log)
        self._tellings = Tellings(self.world, log, options.inner_credentials)
        self._tls = TlsRenewal(self.world, log)
        self._unfinished = Unfinished(options.max_unfinished_bytes, options.max_frame_seconds, self.world.monotonic)
        self._peers = Peers(self, self._clock, log, self._unfinished)
        self._most = ENOUGH
        self._answers: Counter[tuple[int, bool]] = Counter()
        """Number of responses by request code, and whether the request succeeded."""
        self.monitoring: Monitoring | None = None

    @property
    def address(self) -> str:
        """`ip:port` of the server."""
        return host_port(self.ip, self.port)

    async def start(self) -> None:
        """Connect to the engine and start serving. A failed start releases all ports, tasks and locks.

        Raises `StateDamaged` if the stored state is unreadable, `CannotListen` if a port is in use, and `ConfigError`
        for invalid settings.
        """
        async with AsyncExitStack() as life:
            await self._begin(life)
            self._life = life.pop_all()

    async def stop(self) -> None:
        """Stop listening, resign the leadership, and close every connection. A second call does nothing."""
        life, self._life = self._life, AsyncExitStack()
        await life.aclose()

    async def reload(self) -> None:
        """Reload certificates, keys and trusted certificates."""
        await self._tls.look()

    async def _begin(self, life: AsyncExitStack) -> None:
        options = self.options
        self._most = share_of_connections(self.world.max_open_files(), ENOUGH)
        self.ip = announced_ip(options.bind_address, "", self.world)
        for line in options.warnings:
            log.warning("%s", line)
        ingress = Ingress.of(options, options.trusted_proxies)
        port = DaemonPort(self.world, options.bind_address, options.listen_port, f"listenPort = {options.listen_port}")
        life.callback(port.close)
        self.port = port.number
        self.monitoring = made_monitoring(options, options.bind_address, self.world, life)
        self._store = await self._engine(life, Member(options.controller_d_leger_self_id, self.address))
        self._controller = Controller(options, self._store)
        life.push_async_callback(self._kept.stop)
        self._deciding = Deciding(self._controller, self._store, self._clock, self._carry_out)
        life.push_async_callback(self._tellings.stop)
        life.push_async_callback(self._deciding.stop)
        life.push_async_callback(self._peers.close_all)
        await port.serve(accepting(self._peers, MAX_FRAME, WRITE_HIGH, WRITE_LIMIT, ingress, self._unfinished))
        self._tls.add(ingress.tls)
        self._tls.start()
        life.callback(self._tls.stop)
        for work in (self._lead(), self._keep_time(), self._peers.close_idle()):
            life.push_async_callback(end_tasks, [asyncio.create_task(work)])
        life.callback(port.close)
        if self.monitoring is not None:
            await self._watch(self.monitoring)
            life.push_async_callback(self.monitoring.stop)

    async def _watch(self, monitoring: Monitoring) -> None:
        from bolide.node.metrics.controller_figures import ControllerFigures, ControllerSource, controller_troubles

        source = ControllerSource(
            self._controller,
            self._store,
            self.address,
            answers=lambda: list(self._answers.items()),
            deciding=lambda: self._deciding.in_progress,
            connections=lambda: len(self._peers),
            requests=lambda: self._peers.requests,
            certificate_ends=self._tls.ends,
        )
        figures = ControllerFigures(source)
        labels = {"node_type": "controller", "node_id": self.address, "group": self.options.controller_d_leger_group}
        await monitoring.serve(
            labels,
            lambda families: figures.add_all(families, self._clock.now(), self.world.wall_ms()),
            lambda: controller_troubles(source),
        )

    async def _engine(self, life: AsyncExitStack, me: Member) -> ConsensusStore:
        """Return the engine that `controllerStore` selects. Raises `ConfigError`."""
        options = self.options
        kind, _, place = (options.controller_store or f"file:{FOLDER}/sets.json").partition(":")
        if kind == "file" and place:
            file = FileStore(self.world, absolute(place), me)
            await file.start()
            life.push_async_callback(file.stop)
            return file
        if kind == "etcd" and place:
            seconds = options.leader_lease_seconds
            etcd = Etcd(self.world, endpoints(place, options), seconds / RENEWALS)
            store = EtcdStore(self.world, etcd, options.controller_d_leger_group, me, seconds)
            life.push_async_callback(store.stop)
            store.start()
            return store
        raise ConfigError(
            f"controllerStore = {options.controller_store} is not known; write file:PATH or etcd:http://HOST:2379"
        )

    # ---- called by `Peers`

    @property
    def max_connections(self) -> int:
        """Current limit of open connections."""
        return min(self._most, self._controller.settings.options.max_connections)

    @property
    def max_idle_seconds(self) -> int:
        """Idle time in seconds after which a connection is closed."""
        return self._controller.settings.options.server_channel_max_idle_time_seconds

    def answer(self, peer: Peer, command: Command, now: int) -> Command | None:
        """Handle a command. Return the response to send now, or None if there is none or it is sent after a write."""
        answer = self._controller.handle(peer.id, peer.remote, command, now)
        if answer is None or isinstance(answer, Command):
            self._count(command, answer)
            return None if self._carry_out(peer, command, answer) else answer
        if self._deciding.in_progress >= self._controller.settings.options.max_requests_in_progress:
            remark = "too many requests wait for their decision to be kept (maxRequestsInProgress)"
            refusal = make_response(command, codes.SYSTEM_BUSY, remark)
            self._count(command, refusal)
            return None if command.is_oneway else refusal
        self._deciding.answer(answer, partial(self._decided, peer, command))
        return None

    def is_ordinary(self, request: Command, answer: Command) -> bool:
        """Return whether this error response is part of normal operation and need not be logged."""
        return self._controller.is_ordinary(request, answer)

    def peer_closed(self, peer: Peer, now: int) -> None:
        """Called when a connection closes: remove the brokers whose heartbeats arrived on it."""
        self._controller.channel_closed(peer.id, now)
        self._carry_out()

    # ---- inside

    def _decided(self, peer: Peer, command: Command, decision: SetDecision) -> None:
        answer = answer_of(command, decision)
        self._count(command, answer)
        if not command.is_oneway:
            self._peers.send(peer, command, answer)

    def _count(self, command: Command, answer: Command | None) -> None:
        if answer is not None and command.code in self._controller.table.handlers:
            self._answers[command.code, answer.code == codes.SUCCESS] += 1

    def _carry_out(
        self, peer: Peer | None = None, command: Command | None = None, answer: Command | None = None
    ) -> bool:
        """Apply the effects of the controller. Return whether the response is sent after a file is written."""
        held = False
        for effect in self._controller.take_effects():
            if isinstance(effect, ClosePeer):
                self._peers.close(effect.channel_id, effect.reason)
            elif isinstance(effect, Elect):
                self._deciding.elect(effect.name)
            elif isinstance(effect, KeepConfirmed):
                self._deciding.keep_confirmed(effect.name)
            elif isinstance(effect, KeepControllerSettings):
                held = True
                then = partial(self._peers.send_kept, peer, command, answer)
                self._kept.write(self._conf, edited_file(self._kept.latest(self._conf), effect.changes), then)
            else:
                self._tellings.send(effect)
        return held

    async def _lead(self) -> None:
        """Become the leader whenever the engine elects this controller, with the sets stored at that time."""
        said = ""
        while True:
            try:
                await self._store.lead()
                sets = await self._store.load()
                self._controller.lead(sets, self._clock.now())
                said = ""
                log.info("this controller leads; it knows %d sets of replicas", len(sets))
                await self._store.deposed()
                log.warning("this controller is no longer the leader")
            except (LeadershipLost, StoreUnavailable) as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("this controller does not lead: %s", said)
                await asyncio.sleep(PAUSE_S)
            except StateDamaged as error:
                self.failure = error
                self.stopped.set()
                return
            finally:
                self._controller.follow()

    async def _keep_time(self) -> None:
        while True:
            now = self._clock.now()
            await asyncio.sleep(min(max(self._controller.due(now) - now, 1) / 1000, 1.0))
            self._controller.tick(self._clock.now())
            self._carry_out()


def absolute(path: str) -> str:
    """Return an absolute path, with `~` expanded."""
    return str(expanded(path).absolute())


def run_controller(
    flags: Mapping[str, object] | None = None,
    conf: str | None = None,
    follow_stdin: bool = False,
    tell: Told = told_to_nobody,
) -> int:
    """Run a controller as this process until it is stopped. Return its exit status (node/process/exit_codes.py)."""
    found = daemon_settings(ControllerOptions, (flags, conf), kept_settings, lambda options: options, log, tell)
    if found is None:
        return BAD_CONFIG
    loaded, kept = found
    return run_daemon(lambda: ControllerNode(loaded.options, conf=kept), "controller", follow_stdin, tell)


def kept_settings(options: ControllerOptions) -> str:
    """Return the file that stores settings changed at run time, for a controller that was started without a file."""
    return str(expanded(options.config_store_path or f"{FOLDER}/controller.conf"))
