"""One run of a plan: a cluster on virtual time, its clients, its faults, and the verdict of the ledger."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from bolide.client import MessageQueue
from bolide.errors import BolideError
from proof.ledger import Content, Finding, Group, Ledger, Promises, View, judge, outstanding
from proof.simulation.auditor import Auditor, readable
from proof.simulation.cluster import Cluster, Simulation
from proof.simulation.consumers import Failing, Member
from proof.simulation.controlled import ControlledReplicas
from proof.simulation.core import HealthyCore
from proof.simulation.disk import Disk
from proof.simulation.faults import CONTROLLER, Faults
from proof.simulation.liars import CAPTURED, Attacker, keys_of, settings_of
from proof.simulation.member_plans import MEMBER_FAULTS
from proof.simulation.operators import Operator
from proof.simulation.plan import Action, Plan
from proof.simulation.process import MOST_DRIFT, Process
from proof.simulation.producers import Sender, Transactions
from proof.simulation.replicas import Replicas, machines
from proof.simulation.swarm import TOPICS

SETTLE_S: Final = 900.0
"""How long everything may take that is outstanding when the faults end: retries wait for up to a minute each."""
RESUME_S: Final = 90.0
"""How long it may take until a message is taken again."""
PROGRESS_S: Final = 5.0
"""How long after its interval the progress of delays may take to the disk: the log has to be there first."""
LATE_PROGRESS: Final = frozenset({
    "pause", "disk_error", "disk_full", "no_new_files", "no_descriptors", "slow_disk", "promote",
})  # fmt: skip
"""Faults that keep it from the disk for as long as they like."""
CLOCKS_APART_S: Final = 4.5
"""By how much the clocks of two machines differ, of which one delivers what the other stored."""
LOOKS_S: Final = (2.0, 3.0, 5.0, 10.0, 20.0, 40.0)
KINDS: Final = ("push", "orderly", "pull", "broadcast", "filtered")
"""Kinds of consumer groups."""


def above_four(content: Content) -> bool:
    """What the filtered group's SQL92 expression says, in Python."""
    return int(dict(content.properties).get("n", 0)) > 4


@dataclass
class Report:
    """What one run gave."""

    plan: Plan
    findings: list[Finding]
    digest: str
    seconds: float
    """Simulated."""
    took: float
    """Processor time."""
    figures: dict[str, int] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)
    rare: Mapping[str, int] = field(default_factory=dict)
    """Number of times that the run reached each rare place."""

    @property
    def promises(self) -> set[str]:
        """Which promises were broken."""
        return {finding.promise for finding in self.findings}


def run_plan(plan: Plan, lines: int = 400) -> Report:
    """Run a plan from its beginning to the verdict. Raises nothing that is Bolide's: that is a finding."""
    began = time.process_time()
    simulation = Simulation(plan.seed, disk=lambda name, seed: Disk(seed), kept=lines)
    run = Run(plan, simulation.cluster)
    try:
        result = simulation.run(run.scenario)
    except Exception as error:
        run.findings.append(Finding("the run ends", f"{type(error).__name__}: {error}"))
        seconds = simulation.cluster.now
    else:
        seconds = result.seconds
    findings = list(dict.fromkeys(run.findings))
    took = time.process_time() - began
    story, rare = list(simulation.trace.story()), simulation.cluster.rare.counts
    return Report(plan, findings, simulation.trace.digest, seconds, took, run.figures(), story, rare)


class Run:
    """The scenario of one plan."""

    def __init__(self, plan: Plan, cluster: Cluster) -> None:
        self.plan = plan
        self.cluster = cluster
        self.findings: list[Finding] = []
        self.ledger = Ledger(self._time)
        size = plan.cluster
        self.brokers = [f"broker-{'abcdef'[at]}" for at in range(int(size["brokers"]))]
        self.namesrvs = [f"names-{at}" for at in range(int(size["name_servers"]))]
        names = machines(self.brokers, int(size.get("slaves", 0)))
        self.faults = Faults(cluster, self.ledger, names, self.namesrvs)
        self.controllers = [CONTROLLER, "controller-b", "controller-c"][: int(size.get("controller", 0))]
        self.etcd = [f"etcd-{at}" for at in range(int(size.get("etcd", 0)))]
        self.faults.controllers, self.faults.etcd = self.controllers, self.etcd
        starters = self.faults.starters
        starters.update(dict.fromkeys(self.namesrvs, cluster.start_namesrv))
        starters.update(dict.fromkeys(self.controllers, cluster.start_controller))
        kind = ControlledReplicas if self.controllers else Replicas
        self.replicas = kind(cluster, self.faults, self.ledger, self.brokers, size, plan.settings)
        servers = {"controller": self.controllers, "name server": self.namesrvs}
        self.attacker = Attacker(plan, cluster, self.replicas, servers)
        self.senders: list[Sender] = []
        self.members: dict[str, Member] = {}
        self.operator: Operator
        self.namesrv_addr = ""

    def figures(self) -> dict[str, int]:
        """Counts for the reader."""
        sends = self.ledger.sends
        return {
            "sent": len(sends),
            "acknowledged": sum(send.outcome.value == "done" for send in sends),
            "consumed": len(self.ledger.seen),
            "changes": sum(map(len, self.ledger.changes.values())),
            "kills": self.faults.kills,
            "cuts": self.faults.cuts,
            "failed_starts": len(self.faults.failed_starts),
            **self.replicas.figures(),
            **self.attacker.figures(),
        }

    def told(self, kind: str, text: str, broker: str) -> None:
        """A client has an answer: a line of the trace, and perhaps the moment for a fault."""
        self._note("client", text)
        self.faults.told(kind, broker)

    def _time(self) -> float:
        """As far as the process that runs has come."""
        scheduler = self.cluster.network.scheduler
        running = scheduler.running
        return max(scheduler.now, running.strand.now) if isinstance(running, Process) else scheduler.now

    def _note(self, kind: str, text: str) -> None:
        scheduler = self.cluster.network.scheduler
        running = scheduler.running
        scheduler.trace.note(self._time(), running.name if running is not None else "-", kind, text)

    # -- the scenario

    async def scenario(self, cluster: Cluster) -> None:
        """Start everything, follow the plan, end the faults, wait, judge."""
        await self._start_servers()
        await self._start_clients()
        names = self.replicas.names
        supervised = [*names, *self.namesrvs, *self.controllers, *self.etcd]
        supervisors = [asyncio.ensure_future(self.faults.supervise(name)) for name in supervised]
        if self.replicas.slaves:
            supervisors.append(asyncio.ensure_future(self.replicas.watch()))
        if self.attacker.life:
            self.attacker.start()
            supervisors.append(asyncio.ensure_future(self.attacker.watch()))
        begin = cluster.now
        for action in self.plan.actions:
            if begin + action.at > cluster.now:
                await cluster.sleep(begin + action.at - cluster.now)
            self._act(action)
        if begin + self.plan.seconds > cluster.now:
            await cluster.sleep(begin + self.plan.seconds - cluster.now)
        self.attacker.stop()
        self.faults.end_all()
        await self._all_up()
        if self.attacker.life == CAPTURED:
            answers = (kept for sender in self.senders for kept in sender.kept)
            self.attacker.judge_disks(answers, killed=self.faults.kills + self.faults.cuts > 0)
        else:
            await self._judge()
        self.findings += self.replicas.findings + self.attacker.findings
        for name, where, error in cluster.faults + [
            (process.name, *fault) for process in cluster.processes.values() for fault in process.faults
        ]:
            self.findings.append(Finding("nothing goes uncaught", f"{name}: {where}: {error!r}"))
        for supervisor in supervisors:
            supervisor.cancel()

    async def _judge(self) -> None:
        """Wait until everything is consumed, and check it against the guarantees."""
        over = self.cluster.now
        if self.replicas.slaves:
            await self.replicas.converge()
            over = self.cluster.now
        await self._resume(over)
        view, promises = await self._settle(over)
        if view is None:
            self.findings.append(Finding("everything can be read", f"not {SETTLE_S:g} s after the last fault"))
        else:
            self.findings += judge(self.ledger, view, promises)
        self.findings += self.ledger.findings if view is None else []
        if self.replicas.slaves:
            await self.replicas.converge(tables=True)
            self.replicas.judge_answers(kept for sender in self.senders for kept in sender.kept)

    async def _start_servers(self) -> None:
        plan = self.plan
        given = settings_of(self.attacker.life)
        names = [await self.cluster.start_namesrv(name, given) for name in self.namesrvs]
        self.namesrv_addr = ";".join(f"{process.host.ip}:9876" for process in names)
        self.cluster.network.doubled = float(plan.cluster.get("doubled", 0.0))
        await self.replicas.begin(names)

    def _address(self, name: str) -> str:
        if name in self.brokers:
            return f"{self.cluster.hosts[self.replicas.masters[name]].ip}:10911"
        return f"{self.cluster.hosts[name].ip}:9876"

    async def _start_clients(self) -> None:
        size = self.plan.cluster
        addresses = [(name, self._address(name)) for name in self.brokers]
        namesrvs = [self._address(name) for name in self.namesrvs]
        self.operator = Operator(self.ledger, self.told, addresses, namesrvs)
        self.operator.keys = keys_of(self.attacker.life)
        self.replicas.changed = lambda: addresses.__setitem__(
            slice(None), [(name, self._address(name)) for name in self.brokers]
        )
        operator = self._client("operator", "operator", self.operator.start)
        await self.cluster.sleep(0.1)
        for topic in TOPICS:
            for at in range(len(self.brokers)):
                put = Action(0.0, "put_topic", {"topic": topic, "queues": size["queues"], "broker": at})
                await self.cluster.call(operator, partial(self.operator.act, put))
        transactions = Transactions(self.ledger)
        for at in range(int(size["producers"])):
            sender = Sender(f"producer-{at}", self.ledger, transactions, self.told, int(size["retries"]))
            self.senders.append(sender)
            self._client(sender.name, "producer", sender.start)
        if isinstance(self.replicas, ControlledReplicas):
            self.replicas.members.ask = lambda work: self.cluster.call(
                operator, partial(work, self.operator.admin), SETTLE_S
            )
            if size.get("core"):
                self._begin_core(self.replicas, Sender("producer-core", self.ledger, transactions, self.told, 0))
        for kind in KINDS:
            self._start_group(kind, int(size[kind]))
        await self.cluster.sleep(1.0)

    def _begin_core(self, replicas: ControlledReplicas, sender: Sender) -> None:
        """Send messages to the first set while one of its members is broken."""
        self.senders.append(sender)
        self._client(sender.name, "producer", sender.start)
        queue = MessageQueue(TOPICS[0], self.brokers[0], 0)
        core = replicas.members.core = HealthyCore(
            self.cluster, lambda: self._probed(sender, queue), self.findings
        )
        self.faults.spawn(core.watch())

    def _start_group(self, kind: str, count: int) -> None:
        """A group of so many members."""
        if not count:
            return
        size = self.plan.cluster
        group = self.ledger.groups[f"G-{kind}"] = Group(
            f"G-{kind}",
            TOPICS[:1] if kind == "orderly" else TOPICS,
            broadcast=kind == "broadcast",
            orderly=kind == "orderly",
            most_retries=int(size["most_retries"]) if kind == "push" else 16,
        )
        if kind == "filtered":
            group.wants = above_four
        failing = Failing(self.plan.seed, group.name, float(size["failing"]) if kind == "push" else 0.0)
        for at in range(count):
            member = Member(f"{kind}-{at}", group, kind, self.ledger, failing, group.most_retries)
            self.members[member.name] = member
            if group.broadcast:
                group.members.add(member.name)
            self._client(member.name, "consumer", member.start)

    def _client(self, name: str, kind: str, start: Callable[[str, Any], Coroutine[Any, Any, None]]) -> Process:
        async def main(process: Process) -> None:
            while True:
                try:
                    await start(self.namesrv_addr, process.world)
                    break
                except BolideError as error:
                    process.note("client", f"does not start: {error}")
                    await asyncio.sleep(1.0)
            await asyncio.Event().wait()

        if name not in self.faults.clients[kind]:
            self.faults.clients[kind].append(name)
        return self.cluster.start(name, main)

    def _act(self, action: Action) -> None:
        self._note("plan", str(action).strip())
        if action.do in ("promote", "empty") or action.do in MEMBER_FAULTS:
            self.replicas.act(action)
        elif action.do == "lie":
            self.faults.spawn(self.attacker.act(action))
        elif action.fault:
            self.faults.act(action)
        elif action.do in ("send", "recall"):
            senders = self.senders
            sender = senders[action.number("producer") % len(senders)]
            self._in_process(sender.name, partial(sender.act, action))
        elif action.do == "member":
            self._restart_member(action)
        else:
            self._in_process("operator", partial(self.operator.act, action))

    def _in_process(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.faults.spawn(self._called(name, work))

    async def _called(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await self.cluster.call(self.cluster.processes[name], work, SETTLE_S)
        except Exception as error:
            self.findings.append(Finding("clients end what they begin", f"{name}: {type(error).__name__}: {error}"))

    def _restart_member(self, action: Action) -> None:
        if not self.members:
            return
        names = sorted(self.members)
        name = names[action.number("which") % len(names)]
        if self.cluster.processes[name].alive:
            self.cluster.kill(name)
            self.faults.spawn(self._start_member(name, action.seconds("down")))

    async def _start_member(self, name: str, down: float) -> None:
        await self.cluster.sleep(down)
        self._client(name, "consumer", self.members[name].start)

    # -- the end

    async def _all_up(self) -> None:
        """Servers whose machine was switched off before the last fault begin when their time has come."""
        end = self.cluster.now + RESUME_S
        servers = (*self.replicas.names, *self.namesrvs, *self.controllers, *self.etcd)
        while self.cluster.now < end and not all(
            self.cluster.processes[name].alive or name in self.faults.held for name in servers
        ):
            await self.cluster.sleep(0.1)

    async def _resume(self, over: float) -> None:
        """Every broker takes messages again, soon after the last fault."""
        for at, name in enumerate(self.brokers):
            sender = self.senders[at % len(self.senders)]
            queue = MessageQueue(TOPICS[0], name, 0)
            while True:
                taken = await self._probed(sender, queue)
                took = self.cluster.now - over
                if taken or took > RESUME_S:
                    break
                await self.cluster.sleep(1.0)
            self.ledger.figure("time to resume", took, RESUME_S)

    async def _probed(self, sender: Sender, queue: MessageQueue) -> bool:
        try:
            return await self.cluster.call(
                self.cluster.processes[sender.name], partial(sender.probe, TOPICS[0], queue), SETTLE_S
            )
        except Exception as error:
            self.findings.append(Finding("clients end what they begin", f"{sender.name}: {error!r}"))
            return True

    async def _settle(self, over: float) -> tuple[View | None, Promises]:
        auditor = Auditor(self.ledger, self.operator, self._stored_at)
        promises = self._promises(over)
        operator = self.cluster.processes["operator"]
        due = max((send.due_at for send in self.ledger.sends), default=0.0)
        if due > self.cluster.now:
            await self.cluster.sleep(due - self.cluster.now)
        end, look = self.cluster.now + SETTLE_S, 0
        while True:
            view = await self.cluster.call(operator, partial(readable, auditor), SETTLE_S)
            busy = self.operator.busy or any(sender.busy for sender in self.senders)
            if self.cluster.now >= end or (view and not busy and not outstanding(self.ledger, view, promises)):
                return view, promises
            await self.cluster.sleep(LOOKS_S[min(look, len(LOOKS_S) - 1)])
            look += 1

    def _promises(self, over: float) -> Promises:
        settings = self.plan.settings
        unsure = self.faults.unsure_s + (CLOCKS_APART_S if self.replicas.moved else 0.0)
        interval = int(settings.get("flush_interval_commit_log", 500)) / 1000
        last = max((send.due_at for send in self.ledger.sends), default=0.0)
        slow = any(action.do in ("slow_disk", "pause") for action in self.plan.actions)
        # A replica that leads now goes by the last copy of the progress.
        kept = not self.replicas.moved and not any(action.do in LATE_PROGRESS for action in self.plan.actions)
        levels_s = int(settings.get("flush_delay_offset_interval", 10_000)) / 1000
        timer_s = int(settings.get("timer_flush_interval_ms", 1_000)) / 1000
        return Promises(
            sync_flush=settings.get("flush_disk_type", "SYNC_FLUSH") == "SYNC_FLUSH",
            tail_s=interval + (120.0 if slow else 5.0),
            early_s=0.1 + unsure + 2 * MOST_DRIFT * last,  # of the sender's clock, and of the broker's
            late_s=10.0 + unsure,
            clock_s=self.faults.lasting_s,
            level_progress_s=levels_s + PROGRESS_S if kept else math.inf,
            timer_progress_s=timer_s + PROGRESS_S if kept else math.inf,
            faults_over_at=over,
        )

    def _stored_at(self, broker: str, store_ms: int) -> float | None:
        if self.faults.clock_off or broker in self.replicas.moved:
            return None
        host = self.cluster.hosts[broker]
        began = host.wall_ns(0.0) // 1_000_000
        return (store_ms - began) / 1000.0
