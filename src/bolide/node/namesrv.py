"""A running name server: sockets, timer and files around `namesrv.server.NameServer`.

`NamesrvNode` is the object inside a loop, `run_namesrv` the process. The only files are kvConfig.json and, once the
configuration was changed remotely, the file it was started with or namesrv.conf.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from bolide.namesrv.effects import KV_FILE, CloseChannel, KeepSettings, TellBroker
from bolide.namesrv.kv import read_kv
from bolide.namesrv.options import NamesrvOptions
from bolide.namesrv.server import NameServer
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
from bolide.remoting.command import Command
from bolide.remoting.errors import BodyError
from bolide.store.errors import StoreDamaged
from bolide.transport.protocol_detector import Ingress
from bolide.transport.server import accepting
from bolide.transport.unfinished import Unfinished
from bolide.world.home import expanded
from bolide.world.open_files import ENOUGH
from bolide.world.tasks import end_tasks

if TYPE_CHECKING:
    from bolide.node.metrics.monitoring import Monitoring

log = logging.getLogger("bolide.namesrv")
FOLDER: Final = "~/namesrv"
"""Default folder of a name server's files, as in RocketMQ."""


class NamesrvNode:
    """One name server in the running loop. Implements `node.ports.peers.Answers`.

    `conf`: file in which changes at run time are stored, or None for the file that the options specify. `world`:
    environment of the node, or None for the real one.
    """

    def __init__(self, options: NamesrvOptions, conf: str | None = None, world: NodeWorld | None = None) -> None:
        self.options = options
        self.world: NodeWorld = world if world is not None else RealNodeWorld()
        self._conf = kept_settings(options) if conf is None else conf
        self.stopped = asyncio.Event()
        self.failure: BaseException | None = None
        self.port = 0
        self.ip = ""
        self.monitoring: Monitoring | None = None
        """The port of /metrics, if there is one."""
        self._clock = self.world.clock()
        self._life = AsyncExitStack()
        """Cleanup actions of a stop, newest first. A failed start runs those of its completed steps."""
        self._kept = KeptFiles(self.world, log)
        self._tellings = Tellings(self.world, log, options.inner_credentials)
        self._tls = TlsRenewal(self.world, log)
        self._unfinished = Unfinished(options.max_unfinished_bytes, options.max_frame_seconds, self.world.monotonic)
        self._peers = Peers(self, self._clock, log, self._unfinished)
        self._most = ENOUGH

    @property
    def address(self) -> str:
        """`ip:port` of the server."""
        return host_port(self.ip, self.port)

    async def start(self) -> None:
        """Load kvConfig.json and start serving. A failed start releases all ports and tasks.

        Raises `StoreDamaged` if the file is unreadable, `CannotListen` if a port is in use, and `ConfigError` for
        invalid settings.
        """
        async with AsyncExitStack() as life:
            await self._begin(life)
            self._life = life.pop_all()

    async def stop(self) -> None:
        """Stop listening, close every connection, and finish writes. A second call does nothing."""
        life, self._life = self._life, AsyncExitStack()
        await life.aclose()

    async def _begin(self, life: AsyncExitStack) -> None:
        options = self.options
        self._most = share_of_connections(self.world.max_open_files(), ENOUGH)
        self.ip = announced_ip(options.bind_address, "", self.world)
        for line in options.warnings:
            log.warning("%s", line)
        ingress = Ingress.of(options, options.trusted_proxies)
        self._server = NameServer(options, self._stored(), self._clock.now())
        self._kept = KeptFiles(self.world, log)
        life.push_async_callback(self._kept.stop)
        port = DaemonPort(self.world, options.bind_address, options.listen_port, f"listenPort = {options.listen_port}")
        life.callback(port.close)
        self.port = port.number
        self.monitoring = made_monitoring(options, options.bind_address, self.world, life)
        life.push_async_callback(self._tellings.stop)
        life.push_async_callback(self._peers.close_all)
        await port.serve(accepting(self._peers, MAX_FRAME, WRITE_HIGH, WRITE_LIMIT, ingress, self._unfinished))
        self._tls = TlsRenewal(self.world, log)
        self._tls.add(ingress.tls)
        self._tls.start()
        life.callback(self._tls.stop)
        for work in (self._keep_time(), self._peers.close_idle()):
            life.push_async_callback(end_tasks, [asyncio.create_task(work)])
        life.callback(port.close)
        if self.monitoring is not None:
            await self._watch(self.monitoring)
            life.push_async_callback(self.monitoring.stop)

    async def _watch(self, monitoring: Monitoring) -> None:
        from bolide.node.metrics.namesrv_figures import NamesrvFigures

        figures = NamesrvFigures(
            self._server.tables,
            self._tls.ends,
            connections=lambda: len(self._peers),
            requests=lambda: self._peers.requests,
        )
        labels = {"node_type": "namesrv", "node_id": self.address}
        await monitoring.serve(labels, lambda families: figures.add_all(families, self.world.wall_ms()), list)

    async def reload(self) -> None:
        """Reload certificates, keys and trusted certificates."""
        await self._tls.look()

    def knows_topic(self, topic: str) -> bool:
        """Return whether any broker has registered the topic."""
        return topic in self._server.tables.topics

    # ---- called by `Peers`

    @property
    def max_connections(self) -> int:
        """Current limit of open connections."""
        return min(self._most, self._server.settings.options.max_connections)

    @property
    def max_idle_seconds(self) -> int:
        """Idle time in seconds after which a connection is closed."""
        return self._server.settings.options.server_channel_max_idle_time_seconds

    def answer(self, peer: Peer, command: Command, now: int) -> Command | None:
        """Handle a command. Return the response to send now, or None if there is none or it is sent after a write."""
        answer = self._server.handle(peer.id, peer.remote, command, now)
        return None if self._carry_out(peer, command, answer) else answer

    def is_ordinary(self, request: Command, answer: Command) -> bool:
        """Return whether this error response is part of normal operation and need not be logged."""
        return self._server.is_ordinary(request, answer)

    def peer_closed(self, peer: Peer, now: int) -> None:
        """Called when a connection closes: remove the brokers that registered on it."""
        self._server.channel_closed(peer.id, now)
        self._carry_out()

    # ---- inside

    def _carry_out(
        self, peer: Peer | None = None, command: Command | None = None, answer: Command | None = None
    ) -> bool:
        """Apply the effects of the server. Return whether the response is sent after a file is written."""
        held = False
        for effect in self._server.take_effects():
            if isinstance(effect, CloseChannel):
                self._peers.close(effect.channel_id, effect.reason)
                continue
            if isinstance(effect, TellBroker):
                self._tellings.send(effect)
                continue
            held = True
            then = partial(self._peers.send_kept, peer, command, answer)
            if isinstance(effect, KeepSettings):
                self._kept.write(self._conf, edited_file(self._kept.latest(self._conf), effect.changes), then)
            else:
                self._kept.write(self._kv_path(), effect.data, then)
        return held

    def _kv_path(self) -> str:
        return str(expanded(self.options.kv_config_path or f"{FOLDER}/{KV_FILE}"))

    def _stored(self) -> bytes:
        """Return the stored keys and values, or b"" if there are none. Raises `StoreDamaged` if they are unreadable."""
        path = self._kv_path()
        wrong = ""
        for candidate in (path, path + ".bak"):
            data = self.world.files.read_file(candidate)
            if data is None:
                continue
            try:
                read_kv(data)
            except BodyError as error:
                wrong += f"{' and ' if wrong else ''}{candidate} cannot be read ({error})"
                continue
            if wrong:
                log.warning("%s: %s is used, the copy before it", wrong, candidate)
            return data
        if wrong:
            raise StoreDamaged(f"{wrong}: replace it with an intact copy, or move it away to start without its content")
        return b""

    async def _keep_time(self) -> None:
        while True:
            due = self._server.due(self._clock.now())
            wait = 1.0 if due is None else min(max(due - self._clock.now(), 1) / 1000, 1.0)
            await asyncio.sleep(wait)
            self._server.tick(self._clock.now())
            self._carry_out()


def run_namesrv(
    flags: Mapping[str, object] | None = None,
    conf: str | None = None,
    follow_stdin: bool = False,
    tell: Told = told_to_nobody,
) -> int:
    """Run a name server as this process until it is stopped. Return its exit status (node/process/exit_codes.py)."""
    found = daemon_settings(NamesrvOptions, (flags, conf), kept_settings, lambda options: options, log, tell)
    if found is None:
        return BAD_CONFIG
    loaded, kept = found
    return run_daemon(lambda: NamesrvNode(loaded.options, conf=kept), "namesrv", follow_stdin, tell)


def kept_settings(options: NamesrvOptions) -> str:
    """Return the file that stores settings changed at run time, for a name server that was started without a file."""
    return str(expanded(options.config_store_path or f"{FOLDER}/namesrv.conf"))
