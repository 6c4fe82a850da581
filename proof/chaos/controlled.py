"""A run of chaos whose sets are under controllers: one with a file, or two with three members of etcd."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import Final

from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.controller import BrokerReplicasInfo, ReplicasInfo
from proof.attack.bookkeeping import CRASHED
from proof.attack.producing import QUEUES, TOPICS
from proof.attack.run import START_SECONDS
from proof.attack.servers import Server
from proof.chaos.controlled_faults import CONTROLLED
from proof.chaos.etcd import Etcd, make_etcd
from proof.chaos.proxy import Proxy
from proof.chaos.run import ChaosRun
from proof.chaos.sets import BEHIND, WORLD, Machine, Set
from proof.kit.journal import Entry
from proof.kit.ports import reserve_port
from proof.kit.waiting import answers_within

LOOK_S: Final = 0.2
TOPICS_S: Final = 60.0
MEMBERS: Final = 3
CONTROLLER: Final[dict[str, object]] = {
    "bindAddress": BEHIND,
    "scanNotActiveBrokerInterval": 500,
    "scanInactiveMasterInterval": 500,
}
BROKER: Final[dict[str, object]] = {
    "enableControllerMode": True,
    "inSyncReplicas": 2,
    "brokerHeartbeatInterval": 500,
    "controllerHeartBeatTimeoutMills": 3_000,
    "syncBrokerMetadataPeriod": 2_000,
    "syncControllerMetadataPeriod": 2_000,
    "checkSyncStateSetPeriod": 1_000,
    "haMaxTimeSlaveNotCatchup": 5_000,
}
"""Faults last up to eight seconds: a master that is silent for three loses its place."""


class ControlledSet(Set):
    """A set whose master the controllers choose."""

    def lead(self, machine: Machine) -> None:
        """Note who leads; every machine has the same settings."""
        super().lead(machine)
        for one in self.machines:
            for key in ("brokerRole", "brokerId"):
                one.server.flags.pop(key, None)
            one.server.flags |= {**BROKER, "haListenPort": one.port + 1}


class ControlledRun(ChaosRun):
    """A run of a plan that names where controllers keep their decisions."""

    kinds = CONTROLLED

    def _set_of(self, one: Set) -> Set:
        return ControlledSet(one.name, one.machines, 2)

    def _make(self) -> None:
        self.epochs: dict[str, int] = {}
        super()._make()
        self.etcd: list[Etcd] = []
        self.controllers: list[Server] = []
        if self.plan.controller == "etcd":
            self.etcd, ways = make_etcd(self.plan.folder, MEMBERS, self.plan.seed + 1000)
            self.proxies += ways
        for number in range(1, 3 if self.etcd else 2):
            self._add_controller(number)
        for machine in self.machines:
            ways = self._ways(machine.name, self.controllers)
            shown = {
                b"%s:%d" % (proxy.target[0].encode(), proxy.target[1]): b"%s:%d"
                % (proxy.listen[0].encode(), proxy.listen[1])
                for proxy in ways
            }
            for proxy in ways:
                proxy.shown = shown
            machine.proxies += ways
            machine.server.flags["controllerAddr"] = ";".join(f"{WORLD}:{proxy.listen[1]}" for proxy in ways)
        self.chaos.controllers, self.chaos.etcd = self.controllers, self.etcd

    def _add_controller(self, number: int) -> None:
        name = f"controller-{number}"
        folder = self.plan.folder / name / "files"
        folder.mkdir(parents=True, exist_ok=True)
        ways = self._ways(name, self.etcd)
        urls = ",".join(f"http://{WORLD}:{proxy.listen[1]}" for proxy in ways)
        flags = {
            **CONTROLLER,
            "listenPort": reserve_port(),
            "controllerStore": f"etcd:{urls}" if ways else f"file:{folder}/sets.json",
            "controllerDLegerSelfId": name,
            "configStorePath": str(folder / "controller.conf"),
        }
        self.controllers.append(Server(name, "controller", flags, folder, self.plan.seed + 2000 + number))

    def _ways(self, whose: str, servers: list[Server] | list[Etcd]) -> list[Proxy]:
        ways = [
            Proxy(
                f"{whose} to {server.name}",
                (WORLD, reserve_port()),
                (BEHIND, int(str(server.flags["listenPort"]))),
            )
            for server in servers
        ]
        self.proxies += ways
        return ways

    @property
    def servers(self) -> list[Server]:
        """etcd and controllers, too."""
        return [*self.etcd, *self.controllers, *super().servers]

    def _in_stopping_order(self) -> list[Server]:
        """Without controllers nobody is elected while a set stops. etcd is killed at the end."""
        slaves = [machine.server for one in self.sets for machine in one.slaves]
        return [*self.controllers, *slaves, *(one.master.server for one in self.sets), *self.name_servers]

    def _replaced(self) -> list[Entry]:
        """Nothing is delivered before every replica in sync has it."""
        return [[at, CRASHED, one.name] for one in self.sets for at in one.promoted_at]

    async def _start(self) -> None:
        """The first machine of each set is its first master."""
        if self.etcd:
            await self._begin(list(self.etcd))
        await self._begin([*self.controllers, *self.name_servers])
        await self._begin([one.machines[0].server for one in self.sets])
        await self._begin([machine.server for one in self.sets for machine in one.machines[1:]])
        for one in self.sets:
            if not await answers_within(partial(self._complete, one), START_SECONDS, LOOK_S):
                raise RuntimeError(f"{one.name} does not get in sync; the logs are in {self.plan.folder}")

    async def _faults(self) -> None:
        """Once the slaves have the topics."""
        for one in self.sets:
            await self._topics_everywhere(one)
        self.begin = time.monotonic()
        watching = asyncio.create_task(self._watch())
        try:
            await super()._faults()
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _topics_everywhere(self, one: Set) -> None:
        async def reached() -> bool:
            await self._look_at(one)
            held = await self._topics(one.master)
            for topic in TOPICS:
                if held and topic not in held:  # on a slow machine this master was elected before it had copied it
                    await self.operator.put_topic(one.master.server, topic, QUEUES)
            return held.issuperset(TOPICS) and all([held <= await self._topics(slave) for slave in one.slaves])

        if not await answers_within(reached, TOPICS_S, LOOK_S):
            raise RuntimeError(f"{one.name}: the topics do not reach every slave")

    # -- who leads

    async def _watch(self) -> None:
        while True:
            for one in self.sets:
                await self._look_at(one)
            await asyncio.sleep(LOOK_S)

    async def _look_at(self, one: Set) -> ReplicasInfo | None:
        """What a controller that leads says of a set; None while none does."""
        for server in self.controllers:
            body = b'["%s"]' % one.name.encode()
            try:
                address = f"{BEHIND}:{server.flags['listenPort']}"
                answer = await self._admin.ask(address, codes.CONTROLLER_GET_SYNC_STATE_DATA, {}, body)
                found = decode_answer(answer.body, BrokerReplicasInfo).replicas_info_table.get(one.name)
            except (BolideError, OSError):
                continue
            if found is not None and found.master_address:
                self._note_master(one, found)
                return found
        return None

    def _note_master(self, one: Set, found: ReplicasInfo) -> None:
        port = int((found.master_address or "").rpartition(":")[2])
        before = self.epochs.setdefault(one.name, found.master_epoch)
        if found.master_epoch > before:
            self.epochs[one.name] = found.master_epoch
            one.promoted_at.append(time.monotonic())
            self._say_fault(f"the master of {one.name} is at port {port}, epoch {found.master_epoch}")
        master = next(machine for machine in one.machines if machine.port == port)
        if master is not one.master:
            one.lead(master)

    async def _complete(self, one: Set) -> bool:
        """Every replica is in sync."""
        found = await self._look_at(one)
        return found is not None and len(found.in_sync_replicas) == len(one.machines)

    async def _followed(self) -> None:
        """Every replica gets in sync, and has all of its master's log."""
        began = time.monotonic()
        for one in self.sets:
            if not await answers_within(partial(self._has_followed, one), self.plan.bound, LOOK_S):
                self.late.append(f"not every replica of {one.name} is in sync and has all of its master's log")
        self._say_fault(f"every replica is in sync after {time.monotonic() - began:.1f} s")

    async def _has_followed(self, one: Set) -> bool:
        """Look up the master each time. A controller that has just started names the old one until it elects one."""
        return await self._complete(one) and await self._have_all(one, one.slaves)
