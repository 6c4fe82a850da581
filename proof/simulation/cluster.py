"""A simulation and the cluster in it: what a scenario and its faults are written with.

    async def scenario(cluster: Cluster) -> None:
        names = await cluster.start_namesrv("names")
        broker = await cluster.start_broker("broker-a", {"flush_disk_type": "SYNC_FLUSH"}, [names])
        client = cluster.start("client", produce)          # async def produce(process): ... world=process.world
        await cluster.sleep(10)                            # virtual seconds; they cost next to nothing
        cluster.kill("broker-a")                           # SIGKILL: its disk and the page cache stay
        await cluster.start_broker("broker-a")             # the same disk, the same settings
        cluster.power_cut("broker-a")                      # the whole machine; the disk decides what it kept
        cluster.partition("client", "broker-a", one_way=True); cluster.heal()
        cluster.pause("broker-a"); cluster.resume("broker-a")
        cluster.jump_clock("broker-a", -3600)
        await cluster.stop("broker-a")
        await cluster.ended(client)

    result = Simulation(seed=7).run(scenario)              # result.digest, result.trace, result.faults

Each name is a machine of its own with one process, unless `machine=` puts several processes on one. The scenario runs
in a process that no fault reaches. Objects may be shared between processes, asyncio's events and futures may not: wait
with `until`. All chance of a scenario comes from `cluster.random`.
"""

from __future__ import annotations

import gc
import logging
import random
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TextIO, TypeVar

from bolide.broker.options.composed import BrokerOptions
from bolide.client.instance.instance import _instances as client_instances
from bolide.client.instance.unclosed import Closeable
from bolide.controller.options import ControllerOptions
from bolide.declaration import Options, options_of, settings_of, text_of
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.controller.node import ControllerNode
from bolide.node.namesrv import NamesrvNode
from bolide.remoting.properties_text import read_properties_utf8, write_properties
from bolide.testing.files import SimulatedFiles
from proof.simulation.escapes import watch
from proof.simulation.log_lines import IntoTrace
from proof.simulation.network import Network
from proof.simulation.owner import Disk
from proof.simulation.process import Host, Process
from proof.simulation.rare_places import RarePlaces
from proof.simulation.scheduler import Scheduler
from proof.simulation.threads import THREADS
from proof.simulation.trace import KEPT, Trace
from proof.simulation.world import ProcessWorld

T = TypeVar("T")
Main = Callable[[Process], Coroutine[Any, Any, Any]]
Node = BrokerNode | NamesrvNode | ControllerNode
CONTROL: Final = "scenario"
NAMESRV_CONF: Final = "/namesrv/namesrv.conf"
CONTROLLER_CONF: Final = "/controller/controller.conf"
BROKER_CONF: Final = "/store/broker.conf"
SMALL: Final[Mapping[str, Any]] = {
    "mapped_file_size_commit_log": 1 << 18,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 500,
    "max_index_num": 2000,
    "mapped_file_size_timer_log": 1 << 16,
}
"""Sizes of files with which a simulated broker rolls, deletes and recovers as often as a real one in months."""
COLLECT_EVERY_S: Final = 30.0
"""Virtual seconds between two collections of cycles: never at a moment that depends on the build."""


class NotInTime(AssertionError):
    """A condition of the scenario did not come true within its time."""


class Result:
    """One run."""

    def __init__(self, value: object, trace: Trace, cluster: Cluster, seconds: float, steps: int) -> None:
        self.value = value
        self.trace = trace
        self.digest = trace.digest
        self.cluster = cluster
        self.seconds = seconds
        """How long it took, in virtual time."""
        self.steps = steps
        self.faults = cluster.faults


class Simulation:
    """One run from one seed. `disk` makes the disk of each process, by its name and a seed."""

    def __init__(
        self,
        seed: int,
        disk: Callable[[str, int], Disk] | None = None,
        kept: int = KEPT,
        out: TextIO | None = None,
        log_level: int = logging.WARNING,
    ) -> None:
        self.trace = Trace(kept, out)
        self.scheduler = Scheduler(seed, self.trace)
        self.cluster = Cluster(self.scheduler, disk or _plain_disk)
        self._log_level = log_level

    def run(self, scenario: Callable[[Cluster], Coroutine[Any, Any, object]]) -> Result:
        """Run a scenario to its end. Raises what it raises."""
        cluster, scheduler = self.cluster, self.scheduler
        collects = gc.isenabled()
        gc.disable()
        scheduler.after(COLLECT_EVERY_S, self._collect)
        log = logging.getLogger("bolide")
        handler, level, propagates = IntoTrace(scheduler, cluster.said, cluster.rare), log.level, log.propagate
        log.addHandler(handler)
        log.setLevel(self._log_level)
        log.propagate = False
        try:
            with warnings.catch_warnings():
                # Of clients whose process was killed, when their memory is collected.
                warnings.filterwarnings("ignore", "Unclosed ", ResourceWarning)
                control = cluster.start(CONTROL, lambda process: scenario(cluster))
                watch(partial(self._inside, threading.get_ident()))
                scheduler.run(lambda: not control.alive)
                cluster.kill_all()
                scheduler.run(scheduler.idle)
                _close_the_dead()
        finally:
            watch(None)
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagates
            if collects:
                gc.enable()
        if control.error is not None:
            raise control.error
        return Result(control.result, self.trace, cluster, scheduler.now, scheduler.steps)

    def _inside(self, thread: int) -> bool:
        """Whether this is code of a simulated process, which may touch nothing real."""
        running = self.scheduler.running
        if running is None or running.name == CONTROL:
            return False
        here = threading.get_ident()
        return here == thread or here in THREADS.known

    def _collect(self) -> None:
        gc.collect(1)
        self.scheduler.after(COLLECT_EVERY_S, self._collect)


def _close_the_dead() -> None:
    """Nobody closes the clients of a process that was killed. They must not warn of it, long after, in another test."""
    for one in gc.get_objects():
        if issubclass(type(one), Closeable) and one._open_in:
            one._closing()


def _plain_disk(name: str, seed: int) -> Disk:
    return SimulatedFiles()


class Cluster:
    """All machines of a simulation."""

    def __init__(self, scheduler: Scheduler, disk: Callable[[str, int], Disk]) -> None:
        self.network = Network(scheduler)
        self.random: random.Random = scheduler.stream("scenario")
        self.hosts: dict[str, Host] = {}
        self.disks: dict[str, Disk] = {}
        """By name of the process; they outlive it."""
        self.processes: dict[str, Process] = {}
        """The newest of each name."""
        self.nodes: dict[str, Node] = {}
        self.settings: dict[str, tuple[dict[str, Any], list[str]]] = {}
        self.faults: list[tuple[str, str, BaseException | None]] = []
        """What nobody in a process caught: its name, where it was, the error."""
        self.said: dict[str, str] = {}
        """The newest warnings of all processes, each after the name of its process. Of those that differ in their
        numbers alone, only the last is there: one that comes each second hides no other."""
        self.rare = RarePlaces()
        self._scheduler = scheduler
        self._make_disk = disk
        self._chance = scheduler.stream("cluster")
        self._number = 100

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self._scheduler.now

    # ---- processes

    def machine(self, name: str) -> Host:
        """The machine of this name, made if there is none."""
        host = self.hosts.get(name)
        if host is None:
            ip = f"10.0.{len(self.hosts) // 250}.{len(self.hosts) % 250 + 1}"
            host = self.hosts[name] = self.network.hosts[ip] = Host(self._scheduler, self.network, name, ip)
            self.network.names[name] = ip
        return host

    def start(self, name: str, main: Main, machine: str = "") -> Process:
        """Start a process; it ends with `main`. A machine without power gets it."""
        old = self.processes.get(name)
        assert old is None or not old.alive, f"{name} runs"
        host = old.host if old is not None and not machine else self.machine(machine or name)
        host.power_on()
        self._number += 1
        disk = self.disks.get(name)
        if disk is None:
            disk = self.disks[name] = self._make_disk(name, self._chance.getrandbits(32))
        process = self.processes[name] = Process(self.network, host, name, self._number, disk)
        process.world = ProcessWorld(process, self.network)
        process.on_end(partial(self._ended, process))
        process.start(main)
        return process

    def _ended(self, process: Process) -> None:
        self.faults += [(process.name, message, error) for message, error in process.faults]
        process.faults.clear()
        client_instances.pop(process.loop, None)  # their options hold the world, and with it the whole simulation

    async def start_namesrv(self, name: str, settings: Mapping[str, Any] | None = None, machine: str = "") -> Process:
        """Start a name server and wait until it serves; without `settings` with those of before. Raises what the start
        raises.
        """
        given, _ = self._settings(name, settings, [])
        process = self.start(name, partial(self._namesrv, given), machine)
        await self._served(process)
        return process

    async def start_broker(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        namesrvs: Sequence[Process] = (),
        machine: str = "",
    ) -> Process:
        """Start a broker and wait until it serves; without `settings` with those of before, and with what was changed
        while it ran. Raises what the start raises.
        """
        given, _ = self._settings(name, settings, [f"{process.host.ip}:9876" for process in namesrvs])
        process = self.start(name, partial(self._broker, name, given), machine)
        await self._served(process)
        return process

    async def start_controller(self, name: str, settings: Mapping[str, Any] | None = None) -> Process:
        """The same of a controller."""
        given, _ = self._settings(name, settings, [])
        process = self.start(name, partial(self._controller, given))
        await self._served(process)
        return process

    def _settings(
        self, name: str, settings: Mapping[str, Any] | None, addresses: list[str]
    ) -> tuple[dict[str, Any], list[str]]:
        if settings is not None or name not in self.settings:
            self.settings[name] = dict(settings or {}), addresses
        return self.settings[name]

    async def _served(self, process: Process) -> None:
        await self.until(lambda: process.name in self.nodes or not process.alive, f"{process.name} starts", 600)
        if process.error is not None:
            raise process.error

    async def _namesrv(self, settings: dict[str, Any], process: Process) -> object:
        known = {"bind_address": process.host.ip, "kv_config_path": "/namesrv/kv.json", **settings}
        options = await self._options(NamesrvOptions, known, NAMESRV_CONF, process)
        return await self._serve(process, NamesrvNode(options, NAMESRV_CONF, process.world))

    async def _broker(self, name: str, settings: dict[str, Any], process: Process) -> object:
        known = {**self.defaults(name), **settings}
        options = await self._options(BrokerOptions, known, BROKER_CONF, process)
        return await self._serve(process, BrokerNode(options, BROKER_CONF, process.world))

    async def _controller(self, settings: dict[str, Any], process: Process) -> object:
        known = {"bind_address": process.host.ip, "controller_store": "file:/controller/sets.json", **settings}
        options = await self._options(ControllerOptions, known, CONTROLLER_CONF, process)
        return await self._serve(process, ControllerNode(options, CONTROLLER_CONF, process.world))

    def defaults(self, name: str) -> dict[str, Any]:
        """The settings of a broker, where a scenario gives no other."""
        return {
            "bind_address": self.hosts[name].ip, "broker_name": name, "store_path_root_dir": "/store",
            "namesrv_addr": ";".join(self.settings[name][1]), **SMALL,
        }  # fmt: skip

    async def _options(self, kind: type[Options], settings: dict[str, Any], conf: str, process: Process) -> Options:
        """As a daemon reads them: from the file of settings, which the operator wrote before the first start."""
        files = process.disk
        data = files.read_file(conf)
        if data is None:
            keys = {setting.name: key for key, setting in settings_of(kind).items()}
            texts = {keys[field]: text_of(value) for field, value in settings.items()}
            files.make_dir(conf.rpartition("/")[0])
            files.sync_dir("/")
            data = write_properties(texts)
            files.write_file(conf, data)
        return options_of(kind, read_properties_utf8(data))

    async def _serve(self, process: Process, node: Node) -> object:
        """What `bolide.node.process.daemon` does, without signals."""
        try:
            await node.start()
            self.nodes[process.name] = node
            process.note("process", f"serves at {node.address}")
            process.work.start_again()
            process.on_end(partial(self._not_served, process.name))
            await node.stopped.wait()
            process.work.counts = False
        finally:
            if process.alive:
                await node.stop()
        if node.failure is not None:
            raise node.failure
        return "stopped"

    def _not_served(self, name: str) -> None:
        self.nodes.pop(name, None)

    async def stop(self, name: str, timeout: float = 60.0) -> Process:
        """Stop a name server or broker cleanly, as SIGTERM does, and wait for its end."""
        process, node = self.processes[name], self.nodes.get(name)
        process.note("process", "is told to stop")
        if node is not None and process.alive:
            process.loop.call_soon_threadsafe(node.stopped.set)
        await self.ended(process, timeout)
        return process

    def node(self, name: str) -> Node:
        """The node that runs under this name; only to look at."""
        return self.nodes[name]

    # ---- waiting

    async def sleep(self, seconds: float) -> None:
        """Let so much virtual time pass."""
        future = self._control.loop.create_future()
        self._control.loop.call_later(seconds, _done, future)
        await future

    async def until(self, condition: Callable[[], object], what: str = "", timeout: float = 60.0) -> None:
        """Wait until something holds. Raises `NotInTime`."""
        end, pause = self.now + timeout, 0.001
        while not condition():
            if self.now >= end:
                raise NotInTime(f"{what or 'a condition'} does not hold after {timeout:g} s")
            await self.sleep(pause)
            pause = min(pause * 1.5, 0.25)

    async def ended(self, process: Process, timeout: float = 60.0) -> object:
        """Wait for the end of a process; returns what its main returned. Raises what it raised, and `NotInTime`."""
        await self.until(lambda: not process.alive, f"{process.name} ends", timeout)
        if process.error is not None:
            raise process.error
        return process.result

    async def call(self, process: Process, work: Callable[[], Awaitable[T]], timeout: float = 60.0) -> T:
        """Run something in a process, such as a call of a client that lives there, and wait for its result."""
        got: list[tuple[T | None, BaseException | None]] = []

        async def one() -> None:
            try:
                got.append((await work(), None))
            except Exception as error:
                got.append((None, error))

        process.loop.call_soon_threadsafe(lambda: process.tasks.append(process.loop.create_task(one())))
        await self.until(lambda: got or not process.alive, f"a call in {process.name}", timeout)
        assert got, f"{process.name} ended"
        value, error = got[0]
        if error is not None:
            raise error
        result: Any = value
        return result  # type: ignore[no-any-return] # it is a T where there is no error

    # ---- faults

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.processes[name].kill()

    def kill_at_disk_call(self, name: str, calls: int, power: bool = False) -> None:
        """Kill the process, or cut the power of its machine, in its n-th call to the disk from now on."""
        process = self.processes[name]
        process.die_at_call, process.die_with_power = process.disk_calls + calls, power

    def power_cut(self, machine: str, seed: int | None = None) -> None:
        """Cut the power of a machine; `seed` decides what its disks kept (0 nothing that was not synced, 1 all)."""
        chance = self._chance
        self._host(machine).power_off(lambda: chance.getrandbits(32) if seed is None else seed)

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        self.processes[name].pause()

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self.processes[name].resume()

    def partition(self, one: str, other: str, one_way: bool = False) -> None:
        """Let nothing arrive from one machine at another, nor the other way unless `one_way`."""
        source, target = self._host(one).ip, self._host(other).ip
        self.note(f"nothing arrives from {one} at {other}{'' if one_way else ', nor back'}")
        self.network.block(source, target)
        if not one_way:
            self.network.block(target, source)

    def heal(self) -> None:
        """End every partition, slow link and slow disk, let paused processes continue, and kill nobody any more."""
        self.note("partitions are healed")
        for source, target in self.network.blocked():
            self.network.heal(source, target)
        for link in self.network.links():
            link.slowed = 1.0
        for process in list(self.processes.values()):
            process.world.disk_files.pace.slowed = 1.0
            process.world.disk_files.pace.hung = frozenset()
            process.die_at_call = -1
            process.resume()

    def slow_link(self, one: str, other: str, factor: float) -> None:
        """Let everything between two machines take so many times as long."""
        source, target = self._host(one).ip, self._host(other).ip
        self.note(f"the link between {one} and {other} is {factor:g} times as slow")
        for link in (self.network.link(source, target), self.network.link(target, source)):
            link.slowed = factor

    def slow_disk(self, name: str, factor: float) -> None:
        """Let reads and syncs of a process take so many times as long."""
        self.note(f"the disk of {name} is {factor:g} times as slow")
        self.processes[name].world.disk_files.pace.slowed = factor

    def reset_connections(self, one: str, other: str = "") -> None:
        """End the connections of a machine, or those between two, by RST at both ends."""
        for connection in self._connections(one, other):
            self.note(f"connection {connection} is reset")
            connection.reset()

    def black_hole(self, one: str, other: str = "") -> None:
        """Let nothing arrive over these connections any more; neither end is told."""
        for connection in self._connections(one, other):
            self.note(f"connection {connection} loses everything")
            connection.black_holed = True

    def empty_disk(self, name: str) -> None:
        """Give a process that does not run another disk, with nothing on it."""
        self.note(f"the disk of {name} is replaced by an empty one")
        self.disks[name] = self._make_disk(name, self._chance.getrandbits(32))

    def jump_clock(self, machine: str, seconds: float) -> None:
        """Set the time of day of a machine forwards or back."""
        self._host(machine).jump_clock(seconds)

    def kill_all(self) -> None:
        """End everything, at the end of a simulation."""
        for process in list(self.processes.values()):
            process.kill()

    def _connections(self, one: str, other: str) -> list[Any]:
        return self.network.between(self._host(one).ip, self._host(other).ip if other else "")

    def _host(self, name: str) -> Host:
        return self.hosts[name] if name in self.hosts else self.processes[name].host

    @property
    def _control(self) -> Process:
        return self.processes[CONTROL]

    def note(self, text: str) -> None:
        """A line of the trace about what is done to the cluster."""
        self._scheduler.trace.note(self.now, CONTROL, "fault", text)


def _done(future: Any) -> None:
    if not future.done():
        future.set_result(None)
