"""Sets of a master and its slaves: who is what, what an operator does to them, and what a slave's log must be.

A slave's log has the bytes of its master's, never more than the master keeps. After an event that leaves them with logs
of their own (a promotion, a loss of power with asynchronous flush) it may refuse to follow, with the offset, and must
not grow; then the operator empties it. When faults end, every slave has all of its master's log, queues and tables.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from bolide.broker.options.composed import BrokerOptions
from bolide.declaration import settings_of, text_of
from bolide.errors import BolideError
from bolide.node.broker import BrokerNode
from bolide.remoting.bodies.replication import HAConnectionRuntimeInfo
from bolide.remoting.properties_text import write_properties
from proof.ledger import Finding, Ledger
from proof.simulation.cluster import BROKER_CONF, Cluster, NotInTime
from proof.simulation.faults import RESTART_EVERY_S, Faults
from proof.simulation.plan import Action, Value
from proof.simulation.replica_parts import link_of, links_of
from proof.simulation.replica_stores import queues_lack, settled, tables_lack

LOOK_EVERY_S: Final = 0.5
CONVERGED_S: Final = 180.0
"""How long slaves may take to have all of their master's log and tables once faults are over."""
GROWN_S: Final = 30.0
"""How long a slave that does not follow is watched: it must not grow."""
TOLD_S: Final = 45.0
"""Younger changes of tables may not have reached a slave, which asks for them every ten seconds."""
CHOICE_S: Final = 120.0
WAITS_S: Final = 600.0
HA_PORT: Final = 10912
READ_AT_ONCE: Final = 1 << 20
LOG: Final = "a slave's log is its master's"


class Replicas:
    """All sets of a run; without slaves there is nothing to do."""

    keeps_more_topics = False
    """Whether a slave keeps topics that its master was never told of."""

    def __init__(
        self,
        cluster: Cluster,
        faults: Faults,
        ledger: Ledger,
        sets: list[str],
        wanted: Mapping[str, Value],
        settings: Mapping[str, Value],
    ) -> None:
        """`wanted` are the plan's figures of its cluster, `settings` those of every broker."""
        self._cluster = cluster
        self._faults = faults
        self._ledger = ledger
        self._wanted = wanted
        self._settings = settings
        self.sets = {name: [node for node in faults.brokers if node.startswith(name)] for name in sets}
        self.masters = {name: name for name in sets}
        self.moved: set[str] = set()
        """Sets that had more than one master."""
        self.findings: list[Finding] = []
        self.promotions = self.emptied = self.refusals = 0
        self.changed: Callable[[], None] = lambda: None
        """Called when another machine is a master."""
        self._own_tail: set[str] = set()
        """Slaves that may have a log of their own: they need not follow."""
        self._moving: set[str] = set()
        """Sets in which an operator is at work."""
        self.slaves = len(faults.brokers) - len(sets)
        self._compared: dict[str, tuple[tuple[int, ...], int]] = {}
        self._away: dict[str, list[float]] = {name: [] for name in sets}
        """When nobody was the master of a set."""
        self._steps: deque[tuple[float, int]] = deque()
        self._crashes = 0
        self._ends: dict[str, int] = {}
        """Where the log of each master ended that was lost last."""
        self._sync = settings.get("flush_disk_type", "SYNC_FLUSH") == "SYNC_FLUSH"
        faults.known_as, faults.peers, faults.master_of = self.known_as, self._peers, self.masters.__getitem__

    @property
    def names(self) -> list[str]:
        """Every machine."""
        return list(self._faults.brokers)

    @property
    def busy(self) -> bool:
        """Whether an operator is at work."""
        return bool(self._moving)

    def set_of(self, node: str) -> str:
        """The set that a machine belongs to."""
        return next(name for name, nodes in self.sets.items() if node in nodes)

    def known_as(self, node: str) -> str:
        """How the ledger calls a machine: a master by the name of its set, which queues have, too."""
        name = self.set_of(node)
        return name if self.masters[name] == node else _as_a_slave(node)

    def _peers(self, node: str) -> list[str]:
        return [other for other in self.sets[self.set_of(node)] if other != node]

    def figures(self) -> dict[str, int]:
        """Counts for the reader."""
        seen = self._ledger.seen
        away = {name: sorted(times) for name, times in self._away.items() if times}
        alone = sum(
            any(at <= one.at < at + LOOK_EVERY_S for at in away.get(one.place.queue.broker, ())) for one in seen
        )
        return {
            "slaves": self.slaves,
            "promotions": self.promotions,
            "emptied": self.emptied,
            "refusals": self.refusals,
            "consumed_from_slaves": alone,
        }

    def settings_of(self, node: str) -> dict[str, Any]:
        """What the operator writes for this machine, as it is now."""
        name = self.set_of(node)
        drawn: dict[str, Any] = {"clean_file_forcibly_enable": False, **self._settings}
        nodes = self.sets[name]
        if len(nodes) == 1:
            return drawn
        fast = "true" if self._wanted["fast_port"] else "false"
        drawn |= {"broker_name": name, "slave_read_enable": True, "fast_port_enable": fast}
        if self.masters[name] != node:
            return {**drawn, "broker_role": "SLAVE", "broker_id": nodes.index(node) or len(nodes)}
        in_sync = int(self._wanted["in_sync"])
        if in_sync > 1:
            return {**drawn, "broker_role": "SYNC_MASTER", "in_sync_replicas": in_sync}
        return {**drawn, "broker_role": "ASYNC_MASTER", "ha_listen_port": HA_PORT}

    async def begin(self, namesrvs: list[Any]) -> None:
        """Start every machine."""
        for name in self.names:
            await self._cluster.start_broker(name, self.settings_of(name), namesrvs)

    # -- what the plan says

    def act(self, action: Action) -> None:
        """Let an operator begin."""
        names = list(self.sets)
        if action.do == "promote":
            name = names[action.number("broker") % len(names)]
            work = self._promote(name, action)
        else:
            nodes = [node for name in self.sets for node in self._slaves(name)]
            if not nodes:
                return
            node = nodes[action.number("broker") % len(nodes)]
            name = self.set_of(node)
            work = self._empty_one(node, action.seconds("down"))
        self._begin_move(name, work)

    def _begin_move(self, name: str, work: Any) -> None:
        """Let an operator work at a set, unless one does."""
        if len(self.sets[name]) > 1 and name not in self._moving:
            self._moving.add(name)
            self._faults.spawn(self._move(name, work))
        else:
            work.close()

    async def _move(self, name: str, work: Any) -> None:
        try:
            await work
        finally:
            self._moving.discard(name)

    async def _promote(self, name: str, action: Action) -> None:
        """The master is lost, and the slave that has most is the master from now on."""
        old = self.masters[name]
        chosen: list[str] = []
        end = self._cluster.now + CHOICE_S
        while not chosen and self._cluster.now < end:
            async with self._faults.starting[old]:
                chosen = self._candidates(name)
                if chosen:
                    self._faults.held.add(old)
                    self._lose(name, old, power=action.text("how") == "power", seed=action.number("seed"))
            if not chosen:
                await self._cluster.sleep(1.0)
        if not chosen:
            return
        await self._cluster.sleep(action.seconds("down"))
        new = await self._furthest(chosen)
        self._own_tail |= set(self.sets[name])
        tail = int(self._wanted["in_sync"]) < 2 or self._lost_power(name)
        ahead = self._ends[name] > int(self._node(new).store.log.written_offset)
        if tail or ahead:
            self._ledger.crashed(name, tail=tail, ahead=ahead)
        self._ledger.unsure(name, self._step_at(self._ledger.now - TOLD_S - action.seconds("down")))
        self.masters[name] = new
        self.moved.add(name)
        self.promotions += 1
        await self._write_and_start(new)
        self.changed()
        back = action.seconds("back")
        if back < 0:
            return
        await self._cluster.sleep(back)
        async with self._faults.starting[old]:
            self._write_conf(old)
        self._faults.held.discard(old)

    def _lose(self, name: str, node: str, *, power: bool, seed: int) -> None:
        if not self._cluster.processes[node].alive:
            return
        self._faults.expect_end(node)
        self._ends[name] = int(self._node(node).store.log.written_offset)
        self._ledger.crashed(name)
        if power:
            self._cluster.power_cut(node, seed)
        else:
            self._cluster.kill(node)

    def _lost_power(self, name: str) -> bool:
        slaves = {_as_a_slave(node) for node in self.sets[name]}
        return not self._sync and any(crash.power and crash.broker in slaves for crash in self._ledger.crashes)

    def _candidates(self, name: str) -> list[str]:
        """The slaves that an operator may promote: their log is their master's, from its first byte on, they know its
        topics, and one of them has all that was acknowledged. Another machine may have lost it before.
        """
        master = self._running(self.masters[name])
        if master is None:
            return []
        begin = int(master.store.log.segments.min_offset)
        found: dict[str, int] = {}
        for node in self._slaves(name):
            slave = self._running(node)
            if slave is None or int(slave.store.log.segments.min_offset) > begin or self.differs(node):
                continue
            if (
                master.parts.topics.table.keys() <= slave.parts.topics.table.keys()
            ):  # it asks for them from time to time
                found[node] = int(slave.store.log.written_offset)
        links = links_of(master)
        acknowledged = links._in_sync.acknowledged if links is not None and int(self._wanted["in_sync"]) > 1 else 1
        return list(found) if max(found.values(), default=0) >= acknowledged else []

    async def _furthest(self, chosen: list[str]) -> str:
        """Of these the one whose log is longest, once all of them run."""
        await self._cluster.until(lambda: all(self._running(node) for node in chosen), "slaves run", WAITS_S)
        return max(chosen, key=lambda node: int(self._node(node).store.log.written_offset))

    async def _write_and_start(self, node: str) -> None:
        """Stop a machine, give it the settings it has now, and start it."""
        async with self._faults.starting[node]:
            if self._cluster.processes[node].alive:
                self._faults.expect_end(node)
                try:
                    await self._cluster.stop(node)
                except NotInTime:
                    self._cluster.kill(node)
                except (BolideError, OSError) as error:
                    self._cluster.note(f"{node} did not stop cleanly: {error!r}")
            self._write_conf(node)
            while True:
                try:
                    await self._cluster.start_broker(node)
                except (BolideError, OSError) as error:
                    self._cluster.note(f"{node} does not start: {error!r}")
                except NotInTime:
                    self._cluster.kill(node)
                else:
                    return
                await self._cluster.sleep(RESTART_EVERY_S)

    def _write_conf(self, node: str) -> None:
        """As an operator does, on a disk that is put right before."""
        disk = self._faults.disk(node)
        disk.faults_over()
        disk.capacity = None
        settings = {**self._cluster.defaults(node), **self.settings_of(node)}
        keys = {setting.name: key for key, setting in settings_of(BrokerOptions).items()}
        disk.write_file(
            BROKER_CONF, write_properties({keys[field]: text_of(value) for field, value in settings.items()})
        )
        self._cluster.settings[node] = (self.settings_of(node), self._cluster.settings[node][1])

    async def _empty_one(self, node: str, down: float) -> None:
        """A slave's disk is replaced by an empty one."""
        self._faults.held.add(node)
        async with self._faults.starting[node]:
            if self._cluster.processes[node].alive:
                self._faults.expect_end(node)
                self._cluster.kill(node)
            self._cluster.empty_disk(node)
            self._cluster.settings[node] = (self.settings_of(node), self._cluster.settings[node][1])
            self._own_tail.discard(node)
            self._compared.pop(node, None)
            self.emptied += 1
        await self._cluster.sleep(down)
        self._faults.held.discard(node)

    # -- what is looked at

    def _slaves(self, name: str) -> list[str]:
        return [node for node in self.sets[name] if node != self.masters[name] and node not in self._faults.held]

    def _running(self, node: str) -> BrokerNode | None:
        found = self._cluster.nodes.get(node)
        return found if isinstance(found, BrokerNode) else None

    def _node(self, node: str) -> BrokerNode:
        found = self._running(node)
        assert found is not None, f"{node} does not run"
        return found

    def _step_at(self, at: float) -> int:
        return max((step for time, step in self._steps if time <= at), default=0)

    async def watch(self) -> None:
        """Look at every slave, again and again."""
        while True:
            self.look()
            await self._cluster.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Compare what came since the last look."""
        now = self._ledger.now
        self._steps.append((now, self._ledger.step()))
        while self._steps and self._steps[0][0] < now - 10 * TOLD_S:
            self._steps.popleft()
        for crash in self._ledger.crashes[self._crashes :]:
            if crash.power and crash.broker in self.sets and not self._sync:
                self._own_tail |= set(self.sets[crash.broker])
        self._crashes = len(self._ledger.crashes)
        for name in self.sets:
            master = self._running(self.masters[name])
            if master is None:
                self._away[name].append(now)
                continue
            for node in self._slaves(name):
                slave = self._running(node)
                if slave is None or not self._compares(name, node, slave, master):
                    continue
                self._acknowledges(node, slave, master)
                kept, end = settled(master), int(slave.store.log.written_offset)
                if end > kept:
                    self._find(f"{node} ends at {end}, and its master {self.masters[name]} keeps what is below {kept}")
                else:
                    differs = self.differs(node)
                    if differs:
                        self._find(f"{node} differs from its master {self.masters[name]}: {differs}")

    def _acknowledges(self, node: str, slave: BrokerNode, master: BrokerNode) -> None:
        """A slave reports no more than it keeps; without syncs a loss of power may take what it reported."""
        for one in self._links(node, master) if self._sync else ():
            if one.slave_ack_offset > settled(slave):
                text = f"{node} has acknowledged {one.slave_ack_offset} and keeps what is below {settled(slave)}"
                self.findings.append(Finding("a slave acknowledges what it keeps", text))

    def _compares(self, name: str, node: str, slave: BrokerNode, master: BrokerNode) -> bool:
        """Whether a slave's log must be its master's now."""
        if node in self._own_tail and not self._follows_again(name, node):
            return False
        self._own_tail.discard(node)
        return True

    def _follows_again(self, name: str, node: str) -> bool:
        """Whether a slave that may have a log of its own was found to have its master's."""
        link, master = link_of(self._node(node)), self._node(self.masters[name])
        session = link._session if link is not None else None
        if session is None or not session.compared or self.differs(node):
            return False
        return bool(self._links(node, master))

    def _links(self, node: str, master: BrokerNode) -> list[HAConnectionRuntimeInfo]:
        """A slave's connections, as its master sees them."""
        side, ip = master._replication.side, self._cluster.hosts[node].ip
        connections = side.connections(0) if side is not None else []
        return [one for one in connections if one.addr.startswith(f"{ip}:")]

    def _find(self, text: str) -> None:
        self.findings.append(Finding(LOG, text))

    def forget_looks(self) -> None:
        """Compare all of the logs at the next look."""
        self._compared.clear()

    def differs(self, node: str) -> str:
        """Where a slave's log is not its master's; "" for nowhere. Both run."""
        name = self.set_of(node)
        slave, master = self._node(node), self._node(self.masters[name])
        key = (self._cluster.processes[node].number, self._cluster.processes[self.masters[name]].number)
        first = max(int(one.store.log.segments.min_offset) for one in (slave, master))
        known, done = self._compared.get(node, (key, 0))
        if known != key:
            done = 0
        end = int(slave.store.log.written_offset)
        if end > settled(master):
            return f"it ends at {end}, the master at {settled(master)}"
        for offset, one, other in self._pieces(node, self.masters[name], max(first, done), end):
            if one != other:
                at = next(at for at in range(len(one)) if one[at : at + 1] != other[at : at + 1])
                return f"at offset {offset + at}"
        self._compared[node] = (key, max(end, done))
        return ""

    def _pieces(self, node: str, master: str, begin: int, end: int) -> Iterator[tuple[int, bytes, bytes]]:
        size = int(self._node(node).store.log.segment_size)
        while begin < end:
            stop = min(end, begin - begin % size + size, begin + READ_AT_ONCE)
            path = f"/store/commitlog/{begin - begin % size:020d}"
            one, other = (self._faults.disk(at).bytes_of(path, begin % size, stop - begin) for at in (node, master))
            yield begin, one, other
            begin = stop

    # -- the end

    def judge_answers(self, kept: Iterable[tuple[str, str]]) -> None:
        """Hold every SEND_OK, as its set and the id of the record, against the epochs; only a controller has some."""

    async def converge(self, tables: bool = False) -> None:
        """Every slave has all of the log, those that refuse with the offset once they are emptied; with `tables` all of
        the queues and tables, too.
        """
        await self._cluster.until(lambda: not self.busy, "operators are through", WAITS_S)
        for name, nodes in self.sets.items():
            if len(nodes) > 1:
                if not self._slaves(name):  # those that were lost for good are replaced, as sends may wait for one
                    await self._empty_one(next(node for node in nodes if node != self.masters[name]), 0.1)
                await asyncio.gather(*(self._converge_one(name, node, tables) for node in self._slaves(name)))

    async def _converge_one(self, name: str, node: str, tables: bool) -> None:
        lacks = await self._until_equal(name, node, tables)
        if lacks and node in self._own_tail and self._all_run(name, node) and self.differs(node):
            await self._refused(node)
            await self._empty_one(node, 0.1)
            lacks = await self._until_equal(name, node, tables)
        if lacks:
            self.findings.append(Finding("slaves have everything when faults end", f"{node} of {name}: {lacks}"))

    async def _refused(self, node: str) -> None:
        """A slave with a log of its own says so with the offset, and does not grow."""
        end = int(self._node(node).store.log.written_offset)
        await self._cluster.sleep(GROWN_S)
        slave = self._running(node)
        if slave is None:
            return
        self.refusals += 1
        differs, now = self.differs(node), int(slave.store.log.written_offset)
        if now > end:
            text = f"{node} differs from its master {differs}, and grew from {end} to {now}"
            self.findings.append(Finding("a diverged slave does not follow", text))
        said = [text for text in self._cluster.said.values() if node in text or self._cluster.hosts[node].ip in text]
        if not any("offset" in text or "the end" in text for text in said):
            text = f"{node} differs from its master {differs}, and nobody names an offset: {said[-3:]}"
            self.findings.append(Finding("a diverged slave says where", text))

    async def _until_equal(self, name: str, node: str, tables: bool) -> str:
        end, lacks = self._cluster.now + CONVERGED_S, ""
        while self._cluster.now < end:
            lacks = self._lacks(name, node, tables)
            if not lacks:
                return ""
            if lacks.startswith("it differs") and self._cluster.now > end - CONVERGED_S + GROWN_S:
                return lacks
            await self._cluster.sleep(2.0)
        return lacks

    def _all_run(self, name: str, node: str) -> bool:
        return self._running(node) is not None and self._running(self.masters[name]) is not None

    def _deleted(self, name: str) -> set[str]:
        return {key[2] for key in self._ledger.changes if key[0] == "topic" and self._ledger.deletions(name, key[2])}

    def _lacks(self, name: str, node: str, tables: bool) -> str:
        """What a slave does not have, or has otherwise, of what its master has; "" for nothing."""
        slave, master = self._running(node), self._running(self.masters[name])
        if slave is None or master is None:
            return "it or its master does not run"
        differs = self.differs(node)
        if differs:
            return f"it differs {differs}"
        ends = [int(one.store.log.written_offset) for one in (slave, master)]
        if ends[0] != ends[1]:
            return f"its log ends at {ends[0]}, and the master's at {ends[1]}"
        groups = list(self._ledger.groups)
        if not tables:
            return ""
        return queues_lack(slave, master, self._deleted(name)) or tables_lack(
            slave, master, groups, self.keeps_more_topics
        )


def machines(sets: list[str], slaves: int) -> list[str]:
    """Every machine of these sets, the first masters first."""
    return [*sets, *(f"{name}-{at}" for at in range(1, slaves + 1) for name in sets)]


def _as_a_slave(node: str) -> str:
    return f"{node} as a slave"
