"""The faults of a run: what the plan breaks, and how it is put right again."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from bolide.errors import BolideError
from proof.ledger import Ledger
from proof.simulation.cluster import Cluster, NotInTime
from proof.simulation.disk import Disk
from proof.simulation.plan import Action
from proof.simulation.process import Process

RESTART_EVERY_S: Final = 2.0
"""A broker whose start fails is started again after this time, as a supervisor does."""
LOOK_EVERY_S: Final = 0.5
FOLLOWED_S: Final = 29.5
"""A clock that is wrong for less leaves no trace."""
STOP_S: Final = 120.0
CONTROLLER: Final = "controller"
"""The machines of the controllers, as a plan calls them, and the first of them."""
DELIVERY_CALLS: Final = 3
"""Calls to the disk that a broker still makes before it is killed "at a delivery"."""


class Faults:
    """Breaks what the plan says, keeps brokers running, and tells the ledger of each crash."""

    def __init__(self, cluster: Cluster, ledger: Ledger, brokers: Sequence[str], namesrvs: Sequence[str]) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self.brokers = brokers
        self.namesrvs = namesrvs
        self.controllers: Sequence[str] = ()
        self.etcd: Sequence[str] = ()
        """Members of the etcd that keeps the decisions of controllers."""
        self.starters: dict[str, Callable[[str], Coroutine[Any, Any, Process]]] = {}
        """How machines other than brokers are started."""
        self.clients: dict[str, list[str]] = {"producer": [], "consumer": [], "operator": []}
        self.armed: list[tuple[str, Action]] = []
        """Kills that wait for a telling moment."""
        self.look_every_s = LOOK_EVERY_S
        """How often a supervisor looks whether its process has ended."""
        self.cuts = 0
        self.kills = 0
        self.failed_starts: list[str] = []
        self.clock_off: dict[str, float] = {}
        """By how much the clock of each broker is off."""
        self.lasting_s = 0.0
        """By how much clocks were set for longer than a broker needs to follow."""
        self.unsure_s = 0.0
        """By how much they were off when a broker started: it takes what its clock says for true."""
        self.held: set[str] = set()
        """Processes that nobody starts now."""
        self.starting: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held by who stops or starts a process."""
        self.known_as: Callable[[str], str] = str
        """How the ledger calls a broker: masters by the name of their set."""
        self.peers: Callable[[str], list[str]] = _nobody
        """The other machines of a broker's set."""
        self.master_of: Callable[[str], str] = str
        """The machine that is the master of a set."""
        self._down: dict[str, float] = {}
        """Seconds until a process that has ended is started again."""
        self._noted: set[int] = set()
        """Numbers of processes whose end the ledger knows, or need not know."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pending: list[Callable[[], None]] = []

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something beside the plan."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def disk(self, name: str) -> Disk:
        """The disk of a broker."""
        found = self._cluster.disks[name]
        assert isinstance(found, Disk)
        return found

    # -- what the plan says

    def act(self, action: Action) -> None:
        """Break something."""
        name = self.brokers[action.number("broker") % len(self.brokers)]
        if action.text("after") == "delivery":
            self._cluster.kill_at_disk_call(name, DELIVERY_CALLS, power=action.do == "power")
        elif action.text("after"):
            self.armed.append((action.text("after"), action))
        else:
            getattr(self, f"_{action.do}")(name, action)

    def told(self, kind: str, broker: str) -> None:
        """A client was answered: a kill may have waited for that."""
        for waiting in self.armed:
            if waiting[0] == kind:
                self.armed.remove(waiting)
                action = waiting[1]
                name = self.brokers[action.number("broker") % len(self.brokers)]
                name = self.master_of(broker) if broker in self.brokers else name
                getattr(self, f"_{action.do}")(name, action)
                return

    def _kill(self, name: str, action: Action) -> None:
        if self._alive(name):
            self._down[name] = action.seconds("down")
            self._cluster.kill(name)
            self._note_end(self._cluster.processes[name])

    def _power(self, name: str, action: Action) -> None:
        if self._alive(name):
            self._down[name] = action.seconds("down")
            self._cluster.power_cut(name, action.number("seed"))
            self._note_end(self._cluster.processes[name])

    def _restart(self, name: str, action: Action) -> None:
        if self._alive(name):
            self.spawn(self._stop(name, action.seconds("down")))

    def _kill_namesrv(self, name: str, action: Action) -> None:
        namesrv = self.namesrvs[action.number("broker") % len(self.namesrvs)]
        if self._alive(namesrv):
            self._down[namesrv] = action.seconds("down")
            self._cluster.kill(namesrv)

    def _controller(self, name: str, action: Action) -> None:
        """A controller is killed, loses its power, stands still, has its clock set, or fails to write."""
        how = action.text("how")
        controller = self.controllers[action.number("which") % len(self.controllers)]
        if how == "disk":
            self.disk(controller).fail(action.text("error"), action.text("call"), times=action.number("times"))
        elif how == "pause":
            self._pause(controller, action)
        elif how == "clock":
            self._cluster.jump_clock(controller, action.seconds("jump"))
        else:
            self.lose(controller, action)

    def _etcd(self, name: str, action: Action) -> None:
        """A member of etcd is killed, loses its power, stands still, or is cut off."""
        how = action.text("how")
        member = self.etcd[action.number("which") % len(self.etcd)]
        if how == "pause":
            self._pause(member, action)
        elif how == "cut":
            whom = action.text("whom")
            others = [other for other in self.etcd if other != member] if whom in ("etcd", "all") else []
            self._cut_off(member, [*others, *(self.controllers if whom != "etcd" else ())], action)
        else:
            self.lose(member, action)

    def lose(self, name: str, action: Action) -> None:
        """A machine is killed or loses its power, as the plan says; it is started again by itself."""
        if action.text("how") == "power":
            self._power(name, action)
        else:
            self._kill(name, action)

    def _pause(self, name: str, action: Action) -> None:
        if self._alive(name):
            self._cluster.pause(name)
            self._later(action.seconds("lasts"), partial(self._cluster.resume, name))

    def _clock(self, name: str, action: Action) -> None:
        jump, lasts = action.seconds("jump"), action.seconds("lasts")
        if not 0.0 < lasts < FOLLOWED_S:
            self.lasting_s += abs(jump)
        self._set_clock(name, jump)
        if lasts:
            self._later(lasts, partial(self._set_clock, name, -jump))

    def _set_clock(self, name: str, jump: float) -> None:
        self.clock_off[name] = self.clock_off.get(name, 0.0) + jump
        self._cluster.jump_clock(name, jump)

    def _cut(self, name: str, action: Action) -> None:
        self._cut_off(name, self._whom(name, action), action)

    def _cut_off(self, name: str, others: Sequence[str], action: Action) -> None:
        ways = action.text("ways")
        for other in others:
            pairs = [(name, other)] * (ways != "to") + [(other, name)] * (ways != "from")
            for source, target in pairs:
                self._cluster.partition(source, target, one_way=True)
                self._later(action.seconds("lasts"), partial(self._heal, source, target))

    def _heal(self, source: str, target: str) -> None:
        hosts = self._cluster.hosts
        self._cluster.network.heal(hosts[source].ip, hosts[target].ip)

    def _slow_network(self, name: str, action: Action) -> None:
        for other in self._whom(name, action):
            self._cluster.slow_link(name, other, 300.0)
            self._later(action.seconds("lasts"), partial(self._cluster.slow_link, name, other, 1.0))

    def _reset_connections(self, name: str, action: Action) -> None:
        """Both ends are told, or neither is: a router on the way forgot the connections."""
        if action.text("ways", "both") == "both":
            self._cluster.reset_connections(name)
        else:
            for other in self._whom(name, action):
                self._cluster.black_hole(name, other)

    def _whom(self, name: str, action: Action) -> list[str]:
        whom = action.text("whom", "all")
        if whom == "set":
            return self.peers(name)
        if whom == "name_server":
            return list(self.namesrvs)
        if whom == CONTROLLER:
            return list(self.controllers)
        if whom in self.clients:
            return self.clients[whom]
        return [name for names in self.clients.values() for name in names]

    def _disk_error(self, name: str, action: Action) -> None:
        error, call, path = action.text("error"), action.text("call"), action.text("path")
        self.disk(name).fail(error, call, path, action.number("skip"), action.number("times"))

    def _no_descriptors(self, name: str, action: Action) -> None:
        fault = self.disk(name).fail("EMFILE", times=-1)

        def end() -> None:
            fault.times = 0

        self._later(action.seconds("lasts"), end)

    def _no_new_files(self, name: str, action: Action) -> None:
        disk = self.disk(name)
        faults = [disk.fail("ENOSPC", call, "commitlog", times=-1) for call in ("create", "reserve", "reserve_new")]

        def end() -> None:
            for fault in faults:
                fault.times = 0

        self._later(action.seconds("lasts"), end)

    def _disk_full(self, name: str, action: Action) -> None:
        disk = self.disk(name)
        disk.capacity = disk.used() + 100

        def end() -> None:
            disk.capacity = None

        self._later(action.seconds("lasts"), end)

    def _slow_disk(self, name: str, action: Action) -> None:
        self._cluster.slow_disk(name, 200.0)
        self._later(action.seconds("lasts"), partial(self._quick_disk, name))

    def _quick_disk(self, name: str) -> None:
        if self._alive(name):
            self._cluster.slow_disk(name, 1.0)

    # -- processes

    def _alive(self, name: str) -> bool:
        return self._cluster.processes[name].alive

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        """Put something right after a time, or when all faults end."""
        self._pending.append(action)

        async def wait() -> None:
            await self._cluster.sleep(seconds)
            if action in self._pending:
                self._pending.remove(action)
                action()

        self.spawn(wait())

    async def _stop(self, name: str, down: float) -> None:
        process = self._cluster.processes[name]
        self._noted.add(process.number)
        self._down[name] = down
        before = self._disk_failures(name)
        try:
            await self._cluster.stop(name, STOP_S)
        except NotInTime:
            self._noted.discard(process.number)
            self._cluster.kill(name)
        except (BolideError, OSError) as error:  # it failed as it stopped: what that costs is a crash's
            self._noted.discard(process.number)
            self._cluster.note(f"{name} did not stop cleanly: {error!r}")
        else:
            if self._disk_failures(name) > before:
                self._noted.discard(process.number)  # tables that could not be written are those of an earlier time

    def _disk_failures(self, name: str) -> int:
        return sum(fault.hits for fault in self.disk(name).faults) if name in self.brokers else 0

    async def supervise(self, name: str) -> None:
        """Start a broker or name server again whenever it has ended, and tell the ledger of crashes."""
        while True:
            process = self._cluster.processes[name]
            if not process.alive and name not in self.held:
                self._note_end(process)
                await self._cluster.sleep(self._down.pop(name, RESTART_EVERY_S))
                async with self.starting[name]:
                    await self._start(name)
            await self._cluster.sleep(self.look_every_s)

    def _note_end(self, process: Process) -> None:
        if process.number not in self._noted:
            self._noted.add(process.number)
            if process.name in self.brokers:
                power = not process.host.up
                self.cuts += power
                self.kills += not power
                self._ledger.crashed(self.known_as(process.name), power=power)

    def expect_end(self, name: str) -> None:
        """The process ends because an operator or a plan wants it: who says so tells the ledger."""
        self._noted.add(self._cluster.processes[name].number)

    async def _start(self, name: str) -> None:
        start = self.starters.get(name, self._cluster.start_broker)
        while name not in self.held and not self._cluster.processes[name].alive:
            self.unsure_s += abs(self.clock_off.get(name, 0.0))
            try:
                await start(name)
            except (BolideError, OSError) as error:
                self.failed_starts.append(f"{name}: {error}")
                self._note_end(self._cluster.processes[name])
                await self._cluster.sleep(RESTART_EVERY_S)
            except NotInTime as error:
                self.failed_starts.append(f"{name}: {error}")
                self._cluster.kill(name)
            else:
                return

    def end_all(self) -> None:
        """Put everything right: no fault is left, and none comes."""
        self.armed.clear()
        pending, self._pending = self._pending, []
        for action in pending:
            action()
        self._cluster.heal()
        for name in (*self.brokers, *self.controllers):
            disk = self.disk(name)
            disk.faults_over()
            disk.capacity = None
            self._cluster.processes[name].die_at_call = -1


def _nobody(name: str) -> list[str]:
    return []
