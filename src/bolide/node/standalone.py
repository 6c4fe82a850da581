"""`bolide standalone`: a name server and one or more brokers on this host, as supervised child processes.

Several brokers use several cores, as in RocketMQ: one loop owns one store. A child that crashed is restarted after
growing pauses. A child that exited because of a disk failure or invalid settings is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError
from bolide.node.logs.logs import start_logging
from bolide.node.process.daemon import new_runner, on_hangup
from bolide.node.process.exit_codes import BAD_CONFIG, FAILED, STOPPED, restartable
from bolide.node.processes import Child
from bolide.world.home import expanded
from bolide.world.lines import lines_to
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.standalone")

PORT_SPACING: Final = 10
"""Distance between the ports of two brokers, which use listenPort - 2 (fast port) to listenPort + 1 (replication)."""
PAGES_PORT: Final = "metricsPromExporterPort"
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
HEALTHY_S: Final = 60.0
"""After a child has run this long, its next pause is the shortest one again."""
STOP_TIMEOUT_S: Final = 120.0
"""Time after which a child is killed. On a slow disk the last syncs take long, and a broker killed during them must
recover everything."""
MAX_BROKERS: Final = 26
MAX_REPLICAS: Final = 5


def run_standalone(
    store: str,
    namesrv_port: int = 9876,
    broker_port: int = 10911,
    brokers: int = 1,
    host: str = "127.0.0.1",
    flags: dict[str, object] | None = None,
    replicas: int = 1,
) -> int:
    """Run all servers until SIGTERM or SIGINT. Return the exit status. Port 0 selects a free port.

    `store`: the broker's store folder, or the parent folder of several stores. `flags`: settings by Java key for every
    broker. With `replicas` above 1, each broker is a set of this size, under a controller that is also a child. Prints
    one line that starts with `ready` once requests are accepted. Raises `ConfigError` for invalid numbers.
    """
    try:
        children = plan(store, namesrv_port, broker_port, brokers, host, flags or {}, replicas)
    except OSError as error:
        start_logging()
        log.error("standalone cannot start: %s", error)
        return BAD_CONFIG
    start_logging()
    try:
        with lines_to(sys.stdout) as say:
            return new_runner().run(Standalone(children, say).run())
    except KeyboardInterrupt:
        return STOPPED


def plan(
    store: str,
    namesrv_port: int,
    broker_port: int,
    brokers: int,
    host: str,
    flags: dict[str, object],
    replicas: int = 1,
) -> list[Child]:
    """Return the children, name server first. Ports are fixed, so that a restarted child keeps its address."""
    if not 1 <= brokers <= MAX_BROKERS:
        raise ConfigError(f"--brokers {brokers} is not allowed: it must be 1 to {MAX_BROKERS}")
    if not 1 <= replicas <= MAX_REPLICAS:
        raise ConfigError(f"--replicas {replicas} is not allowed: it must be 1 to {MAX_REPLICAS}")
    root = expanded(store).resolve()
    controller_port = namesrv_port + 1 if namesrv_port else free_port(host)
    namesrv_port = namesrv_port or free_port(host)
    folder_of_names = root / "namesrv"
    names = {
        "kvConfigPath": str(folder_of_names / "kvConfig.json"),
        "configStorePath": str(folder_of_names / "namesrv.conf"),
    }
    children = [
        Child("namesrv", "namesrv", {"listenPort": namesrv_port, "bindAddress": host, **names}, "--namesrv-port"),
    ]
    if replicas > 1:
        of_sets = {
            "controllerStore": f"file:{root / 'controller' / 'sets.json'}",
            "configStorePath": str(root / "controller" / "controller.conf"),
        }
        where = {"listenPort": controller_port, "bindAddress": host}
        children.append(Child("controller", "controller", {**where, **of_sets}, "--namesrv-port"))
        controlled = {
            "enableControllerMode": True,
            "controllerAddr": f"{loopback(host)}:{controller_port}",
            "allAckInSyncStateSet": True,
            "brokerIP2": loopback(host),  # the log is not served to other hosts
        }
        flags = {**controlled, **flags}
    for number in range(brokers * replicas):
        name = f"broker-{chr(ord('a') + number // replicas)}"
        child = name if replicas == 1 else f"{name}-{number % replicas + 1}"
        port = broker_port + number * PORT_SPACING if broker_port else free_port(host)
        folder = root if brokers * replicas == 1 else root / child
        own: dict[str, object] = {
            "brokerName": name,
            "bindAddress": host,
            "listenPort": port,
            "namesrvAddr": f"{loopback(host)}:{namesrv_port}",
            "storePathRootDir": str(folder),
        }
        own_pages = port_of_pages(flags, number, host)
        children.append(Child("broker", child, {**own, **flags, **own_pages}, "--broker-port"))
    return children


def port_of_pages(flags: dict[str, object], number: int, host: str) -> dict[str, object]:
    """Return the setting for the monitoring port of a broker, spaced like `listenPort`, or {} without monitoring."""
    asked = str(flags.get(PAGES_PORT, BrokerOptions().process.metrics_prom_exporter_port))
    if flags.get("metricsExporterType", "DISABLE") == "DISABLE" or not asked.isdecimal():
        return {}  # the broker rejects a value that is not a number
    first = int(asked)
    return {PAGES_PORT: first + number * PORT_SPACING if first else free_port(host)}


def free_port(host: str) -> int:
    """Return a free port whose fast port, two below, is also a valid number."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def loopback(host: str) -> str:
    """Return the address at which a child reaches another child that listens on `host`."""
    return "127.0.0.1" if host in ("0.0.0.0", "") else host


class Standalone:
    """Supervises the children until a stop is requested."""

    def __init__(self, children: list[Child], say: Callable[[str], None]) -> None:
        """`say` receives the line for standard output."""
        self._children = children
        self._say = say
        self._asked = asyncio.Event()
        self._status = STOPPED
        self._why = ""
        """Name of the child whose failure stopped the supervisor, with the reason, or ""."""
        self._alive = sum(1 for child in children if child.kind == "broker")

    async def run(self) -> int:
        """Start, announce, supervise and stop. Return the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, self._asked.set)
        try:
            for child in self._children:
                await child.start()
            if await self._all_ready():
                where = " ".join(f"{child.name}={child.address}" for child in self._children)
                self._say(f"ready {where}")
                await self._supervise_all()
        finally:
            await self._stop_all()
        if self._why:  # after everything that the other children log while they stop
            log.error("standalone has stopped: %s", self._why)
        return self._status

    async def _supervise_all(self) -> None:
        tasks = [asyncio.create_task(self._supervise(child)) for child in self._children]
        tasks.append(asyncio.create_task(self._pass_on(on_hangup(self._asked.set))))
        await self._asked.wait()
        await end_tasks(tasks)

    async def _pass_on(self, hangup: asyncio.Event) -> None:
        """Pass SIGHUP on to the children."""
        while True:
            await hangup.wait()
            hangup.clear()
            for child in self._children:
                child.reload()

    async def _all_ready(self) -> bool:
        """Wait for every child. Return False if one exits first or a stop is requested."""
        waits = asyncio.gather(*(child.ready() for child in self._children))
        asked = asyncio.ensure_future(self._asked.wait())
        futures: list[asyncio.Future[Any]] = [waits, asked]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            waits.cancel()
            return False
        asked.cancel()
        for child, served in zip(self._children, await waits, strict=True):
            if not served:
                self._status = child.process.returncode or FAILED if child.process else FAILED
                why = f"{child.name} did not start: {child.reason or f'it ended with status {self._status}'}"
                self._why += f"{'; ' if self._why else ''}{why}"
        return self._status == STOPPED

    async def _supervise(self, child: Child) -> None:
        pause = FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            status = await child.ended()
            if not restartable(status):
                log.error("%s exited with status %d and is not restarted", child.name, status)
                self._given_up(child, status)
                return
            if time.monotonic() - started > HEALTHY_S:
                pause = FIRST_PAUSE_S
            log.error("%s exited with status %d: restarting in %.1f s", child.name, status, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
            await child.start()
            if await child.ready():
                log.info("%s is serving again at %s", child.name, child.address)

    def _given_up(self, child: Child, status: int) -> None:
        """Stop the supervisor if the name server or the last broker has ended and is not restarted."""
        if child.kind == "broker":
            self._alive -= 1
        if child.kind != "broker" or self._alive == 0:
            self._status = max(status, STOPPED)
            self._why = f"{child.name} ended with status {status}" + (f": {child.reason}" if child.reason else "")
            self._asked.set()

    async def _stop_all(self) -> None:
        """Stop brokers first, so that they can unregister; then the controller and the name server."""
        for kind in ("broker", "controller", "namesrv"):
            running = [child for child in self._children if child.kind == kind and child.process is not None]
            for child in running:
                child.terminate()
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await asyncio.gather(*(child.ended() for child in running))
            except TimeoutError:
                log.error("a child did not stop within %.0f s and is killed", STOP_TIMEOUT_S)
                for child in running:
                    child.kill()
                await asyncio.gather(*(child.ended() for child in running))
