"""One run of chaos: starts sets behind proxies and their clients, lets faults happen, ends them, and judges.

Everything but the sets is that of `proof.attack`. `proof.chaos.controlled` adds controllers.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bolide.admin.client import Admin
from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.replication import HARuntimeInfo
from proof.attack import verdict
from proof.attack.bookkeeping import CRASHED
from proof.attack.faults import Cluster
from proof.attack.run import Attack
from proof.attack.run import Plan as AttackPlan
from proof.attack.servers import Server
from proof.attack.verdict import Verdict
from proof.chaos.faults import ENDS_S, FAULTS, Chaos
from proof.chaos.java_clients import JavaClient
from proof.chaos.sets import (
    BEHIND,
    REFUSED,
    Machine,
    Set,
    address_list,
    differs,
    empty,
    make_name_servers,
    make_set,
    proxied,
)
from proof.kit.journal import Entry, Follower
from proof.kit.waiting import answers_within, holds_within
from proof.ledger import Promises

REFUSES_S: Final = 25.0
"""How long a slave may take to find that its log is not its master's."""
ASK_S: Final = 3.0
LOOK_S: Final = 0.3


@dataclass
class Plan(AttackPlan):
    """What to do. Sets take turns: the first acknowledges with a slave and loses masters, the next does neither."""

    slaves: int = 1
    controller: str = ""
    """Where a controller keeps its decisions, "file" or "etcd"; "": there is none."""
    java: bool = False
    """Whether there are a producer and a consumer of Java's client."""


class ChaosRun(Attack):
    """A run of a plan."""

    plan: Plan
    kinds = FAULTS

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        super().__init__(plan, say)
        self.plan = plan

    def _make(self) -> None:
        plan, folder = self.plan, self.plan.folder
        folder.mkdir(parents=True, exist_ok=True)
        self.name_servers, places = make_name_servers(folder, 2, plan.seed)
        self.sets = [
            self._set_of(
                make_set(
                    f"broker-{number}",
                    folder,
                    places,
                    slaves=plan.slaves,
                    in_sync=2 - (number + 1) % 2,
                    sync=number % 2 == 1,
                    seed=plan.seed + 10 * number,
                )
            )
            for number in range(1, plan.brokers + 1)
        ]
        self.brokers = [one.machines[0].server for one in self.sets]
        for_clients = proxied("clients", places)
        self.proxies = [*for_clients, *(proxy for machine in self.machines for proxy in machine.proxies)]
        self._make_clients(address_list(for_clients), [one.name for one in self.sets])
        self.cluster = Cluster(
            [machine.server for machine in self.machines],
            self.name_servers,
            [*self.producers, *self.consumers],
            self.operator,
            self._say_fault,
            plan.only_brokers,
        )
        self.chaos = Chaos(self.cluster, self.sets, self.proxies, self._may_promote)
        self.emptied = 0
        self.late: list[str] = []
        """Slaves that did not get everything in time."""

    @property
    def machines(self) -> list[Machine]:
        """All of all sets."""
        return [machine for one in self.sets for machine in one.machines]

    @property
    def servers(self) -> list[Server]:
        """Name servers and brokers, slaves among them."""
        return [*self.name_servers, *(machine.server for machine in self.machines)]

    async def run(self) -> Verdict:
        """Everything; the verdict of what happened, also after an interruption."""
        self._admin = Admin(address_list(self.proxies[:2]), timeout=ASK_S, client_id="chaos-looks")
        try:
            for proxy in self.proxies:
                await proxy.start()
            await self._admin.start()
            return await super().run()
        finally:
            await self._admin.close()
            for proxy in self.proxies:
                await proxy.stop()

    async def _lane(self, number: int) -> None:
        chance = random.Random(self.plan.seed * 1000 + number)
        while True:
            await asyncio.sleep(chance.expovariate(1.0))
            name = chance.choice(self.plan.faults)
            self.cluster.counts[name] = self.cluster.counts.get(name, 0) + 1
            await self.kinds[name](self.chaos, random.Random(chance.getrandbits(32)))

    def _set_of(self, one: Set) -> Set:
        return one

    def _make_clients(self, namesrv: str, broker_names: list[str]) -> None:
        """With Java's client, a producer and a consumer more; the producer has the numbers that no other one has."""
        super()._make_clients(namesrv, broker_names)
        plan, folder = self.plan, self.plan.folder
        if not plan.java:
            return
        shared = {"namesrv": namesrv, "seed": plan.seed}
        stride = plan.producers + 1
        numbers = {"first": stride, "stride": stride, "pause": plan.pause, "brokers": broker_names}
        added = [
            JavaClient("java-producer", {**shared, **numbers}, folder),
            JavaClient("java-consumer", shared, folder),
        ]
        self.producers.append(added[0])
        self.consumers.append(added[1])
        self.progress.followers += [Follower(Path(client.setup["journal"])) for client in added]

    # -- what is looked at

    async def _answer(self, machine: Machine, code: int) -> bytes:
        """What a broker says, asked past its proxies; b"" when it does not answer."""
        try:
            return (await self._admin.ask(f"{BEHIND}:{machine.port}", code, {})).body
        except (BolideError, OSError):
            return b""

    async def _asked(self, machine: Machine, code: int) -> dict[str, object]:
        """The same of an answer in JSON; {} when there is none."""
        try:
            found: dict[str, object] = json.loads(await self._answer(machine, code))
        except ValueError:
            return {}
        return found

    async def _topics(self, machine: Machine) -> set[str]:
        table = (await self._asked(machine, codes.GET_ALL_TOPIC_CONFIG)).get("topicConfigTable")
        return set(table) if isinstance(table, dict) else set()

    async def _may_promote(self, one: Set) -> bool:
        """A slave asks for topics every ten seconds, and may not have all of them."""
        theirs = await self._topics(one.master)
        return bool(theirs) and theirs <= await self._topics(one.slaves[0])

    async def _log_end(self, machine: Machine) -> int:
        table = (await self._asked(machine, codes.GET_BROKER_RUNTIME_INFO)).get("table")
        return int(table["commitLogMaxOffset"]) if isinstance(table, dict) else -1

    async def _reported(self, machine: Machine) -> int:
        """What the slave that has most of a master's log reported to it; -1 when none follows."""
        body = await self._answer(machine, codes.GET_BROKER_HA_STATUS)
        return reported_in(body) if body else -1

    # -- the end

    async def _recovery(self) -> None:
        for proxy in self.proxies:
            proxy.heal()
        for server in self.servers:
            server.calm()
        await self._followed()
        await super()._recovery()
        await self._followed()

    async def _followed(self) -> None:
        """Every slave has all of its master's log; one with a log of its own says so and is emptied."""
        for one in self.sets:
            for slave in one.slaves:
                if await self._follows(one, slave, REFUSES_S):
                    continue
                said = slave.server.log.read_text("utf-8", "replace")[-20_000:]
                if one.promoted_at and REFUSED.search(said):
                    one.refusals += 1
                    self.emptied += 1
                    self._say_fault(f"{slave.name} has a log of its own and says so: it is emptied")
                    slave.server.hold()
                    slave.server.signal(signal.SIGKILL)
                    await holds_within(partial(_has_ended, slave.server), ENDS_S)
                    empty(slave)
                    slave.server.release()
                if not await self._follows(one, slave, self.plan.bound):
                    self.late.append(f"{slave.name} has not all of the log of {one.master.name}")

    async def _follows(self, one: Set, slave: Machine, seconds: float) -> bool:
        return await answers_within(partial(self._have_all, one, [slave]), seconds, LOOK_S)

    async def _have_all(self, one: Set, slaves: list[Machine]) -> bool:
        """Whether these slaves have all of their master's log, and one has reported it."""
        end = await self._log_end(one.master)
        held = [await self._log_end(slave) for slave in slaves]
        # A slave with a longer log of its own has reached the end, but reports nothing of it.
        return 0 <= end <= min(*held, await self._reported(one.master))

    async def _judged(self) -> Verdict:
        """Stop everything cleanly, read what the masters have, and compare what the slaves have."""
        for client in (*self.producers, *self.consumers):
            await client.stop(60.0)
        self.progress.read()
        statuses = {server.name: await server.stop(60.0) for server in self._in_stopping_order()}
        promises = Promises(early_s=0.25, late_s=self.plan.bound, faults_over_at=self.over)
        masters = {one.name: one.master.server for one in self.sets}
        members = {machine.name: one.name for one in self.sets for machine in one.machines}
        clients = [*self.producers, *self.consumers]
        found = await asyncio.to_thread(
            verdict.of_run,
            self.servers,
            clients,
            [*self.progress.entries, *self._replaced()],
            promises,
            time.monotonic(),
            verdict.Sets(masters, members),
        )
        for one in self.sets:
            for slave in one.slaves:
                where = await asyncio.to_thread(differs, slave.server.folder, one.master.server.folder)
                if where:
                    found.wrong("a slave's log is its master's", f"{slave.name} differs from {one.master.name} {where}")
        for text in self.late:
            found.wrong("slaves have everything when faults end", text)
        self._resumption(found, statuses)
        self._figures(found)
        found.figures.update(
            promotions=sum(len(one.promoted_at) for one in self.sets),
            refused_and_emptied=self.emptied,
            passed_bytes=sum(proxy.passed for proxy in self.proxies),
        )
        return found

    def _in_stopping_order(self) -> list[Server]:
        return self.servers[::-1]

    def _replaced(self) -> list[Entry]:
        """What was delivered without a slave may be gone with its master, and consumers are beyond it."""
        return [[at, CRASHED, one.name, True] for one in self.sets for at in one.promoted_at]


def reported_in(body: bytes) -> int:
    """The most that a slave reported, by its master's answer to GET_BROKER_HA_STATUS; -1 when none follows."""
    slaves = decode_answer(body, HARuntimeInfo).ha_connection_info
    return max((slave.slave_ack_offset for slave in slaves), default=-1)


def _has_ended(server: Server) -> bool:
    return server.process is None
