"""Sets under a controller, or under several with an etcd: who leads is what is elected there, and an operator does
nothing about a master that is lost.

Every replica in sync has what is acknowledged and what is delivered (allAckInSyncStateSet), so neither is lost however
often the master changes. In one epoch one machine takes messages. A slave's log may end with what only it has until it
has found where its master's differs; from then on it has the bytes of its master's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from bolide.controller.liveness import steady
from bolide.layout.message_id import decode_offset_message_id
from bolide.node.broker import BrokerNode
from bolide.node.controller.etcd_store import EtcdStore
from bolide.node.controller.node import ControllerNode
from bolide.node.replication.auto_switch_ha_client import AutoSwitchHAClient
from bolide.replication.epochs import Epochs
from proof.ledger import Finding
from proof.simulation import liars
from proof.simulation.etcd import SimulatedEtcd
from proof.simulation.member_plans import MEMBER_FAULTS
from proof.simulation.members import Members
from proof.simulation.plan import Action, Value
from proof.simulation.rare_places import FORMER, FULL_STOP
from proof.simulation.replica_parts import membership_of, switching_of
from proof.simulation.replicas import HA_PORT, LOOK_EVERY_S, TOLD_S, WAITS_S, Replicas

LOOK_AT_MASTERS_S: Final = 0.05
PATIENT_LOOK_S: Final = 0.25
PATIENT_SUPERVISOR_S: Final = 2.5
COMPLETE_S: Final = 120.0
STEADY_S: Final = 30.0
"""Time until the members of a whole set that restarted have left and joined."""
PORT: Final = 9877
BROKER: Final[dict[str, Value]] = {
    "enable_controller_mode": True,
    "all_ack_in_sync_state_set": True,
    "ha_listen_port": HA_PORT,
    "slave_read_enable": True,
}
QUICK: Final[dict[str, Value]] = {
    "broker_heartbeat_interval": 500,
    "controller_heart_beat_timeout_mills": 3_000,
    "sync_broker_metadata_period": 2_000,
    "sync_controller_metadata_period": 2_000,
    "check_sync_state_set_period": 1_000,
    "ha_max_time_slave_not_catchup": 5_000,
}
"""Faults last some seconds: a master that is silent for three loses its place. Plans of hours have the times that users
have.
"""
MEMBERS: Final[dict[str, Value]] = {
    "min_in_sync_replicas": 2,
    "unsettled_patience": 3_000,
    "absence_window": 30_000,
    "absence_probation": 10_000,
}
"""Settings of sets whose members are damaged: two machines must have a message before it is acknowledged."""
QUICK_CONTROLLER: Final[dict[str, Value]] = {
    "scan_not_active_broker_interval": 500,
    "scan_inactive_master_interval": 500,
}
TWO_MASTERS: Final = "in an epoch one machine leads"
TWO_ACKNOWLEDGE: Final = "in an epoch one machine acknowledges"
TRUNCATED: Final = "a member keeps what its set has confirmed"
TWO_LEADERS: Final = "one controller leads at a time"
WAITS: Final = "a whole set replaces a lost master immediately"


class ControlledReplicas(Replicas):
    """All sets of a run, under one controller."""

    keeps_more_topics = True
    elections = 0
    judged = 0
    """Acknowledgements that were held against the epochs."""
    etcd: SimulatedEtcd | None = None
    """Where the controllers' decisions are; None: in a file."""
    _led: dict[tuple[str, int], str]
    """Who was the master in each epoch of a set."""
    _epochs: dict[str, int]
    """The newest of each set."""
    _waiting: set[str]
    """Sets whose election waited at the last look."""
    _former: dict[str, tuple[int | None, tuple[int, ...]]]
    """The last master of each set that was seen, and the members that could replace it."""
    _leaders: set[int]
    """What made each controller the leader, as far as somebody looked."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.members = Members(self._cluster, self._faults, self, self)
        self._held: dict[str, tuple[object, int]] = {}
        """The disk of each machine, and the confirmed offset of its log."""

    async def begin(self, namesrvs: list[Any]) -> None:
        """Start the controller, then the first machine of each set, which is its first master, then the others."""
        self._led, self._epochs, self._leaders, self._waiting, self._former = {}, {}, set(), set(), {}
        if self._patient:
            self._faults.look_every_s = PATIENT_SUPERVISOR_S
        await self._start_controllers()
        for name in self.names:
            await self._cluster.start_broker(name, self.settings_of(name), namesrvs)
            if name in self.sets:
                await self._cluster.until(partial(self._leads, name), f"{name} leads", COMPLETE_S)
        for name in self.sets:
            await self._cluster.until(partial(self.whole, name), f"{name} is whole", COMPLETE_S)

    @property
    def _patient(self) -> bool:
        return bool(self._wanted.get("patient"))

    @property
    def _liars(self) -> str:
        return str(self._wanted.get("liars", ""))

    async def _start_controllers(self) -> None:
        """Members of etcd first, if there are any."""
        given: dict[str, Any] = {} if self._patient else dict(QUICK_CONTROLLER)
        given |= liars.settings_of(self._liars)
        if self._faults.etcd:
            self.etcd = SimulatedEtcd(self._cluster, self._faults.etcd)
            given["controller_store"] = self.etcd.store
            for member in self._faults.etcd:
                await self.etcd.start(member)
                self._faults.starters[member] = self.etcd.start
            self._faults.spawn(self.etcd.watch())
        for name in self._faults.controllers:
            await self._cluster.start_controller(name, {**given, "controller_d_leger_self_id": name})

    def settings_of(self, node: str) -> dict[str, Any]:
        """The same for every machine of a set."""
        name = self.set_of(node)
        controllers = [self._cluster.machine(controller).ip for controller in self._faults.controllers]
        return {
            "clean_file_forcibly_enable": False,
            **self._settings,
            **BROKER,
            **liars.settings_of(self._liars),
            **({} if self._patient else QUICK),
            **(MEMBERS if self._wanted.get("members") else {}),
            "broker_name": name,
            "controller_addr": ";".join(f"{ip}:{PORT}" for ip in controllers),
            "in_sync_replicas": int(self._wanted["in_sync"]),
            "fast_port_enable": "true" if self._wanted["fast_port"] else "false",
        }

    def figures(self) -> dict[str, int]:
        """Counts for the reader."""
        of_etcd = {} if self.etcd is None else {"leaders": len(self._leaders), "elections_of_etcd": self.etcd.elections}
        counts = {**super().figures(), "elections": self.elections, "judged": self.judged}
        return {**counts, **of_etcd, **self.members.figures()}

    # -- what the plan says

    def act(self, action: Action) -> None:
        """Lose a master, without a promotion; replace a slave's disk; or damage a member."""
        if action.do in MEMBER_FAULTS:
            self.members.act(action)
            return
        if action.do == "promote":
            names = list(self.sets)
            name = names[action.number("broker") % len(names)]
            self._faults.lose(self.masters[name], action)
            return
        nodes = [node for name in self.sets for node in self._slaves(name) if self._may_lose_its_disk(name, node)]
        if nodes:
            node = nodes[action.number("broker") % len(nodes)]
            self._begin_move(self.set_of(node), self._empty_one(node, action.seconds("down")))

    def _may_lose_its_disk(self, name: str, node: str) -> bool:
        """Another machine leads, and has all that is acknowledged, as the controller says, too: it may have elected one
        that stands still and does not know it yet.
        """
        leader = self.leader(name)
        return leader is not None and leader != node and leader == self.masters[name] == self.elected(name)

    def elected(self, name: str) -> str | None:
        """The machine that is the master for the controller that leads; None when none does."""
        for controller in self._faults.controllers:
            running = self._cluster.nodes.get(controller)
            found = running._controller.sets.get(name) if isinstance(running, ControllerNode) else None
            if found is not None:
                ip = (found.value.address_of(found.value.master) or "").partition(":")[0]
                return self._node_at(name, ip)
        return None

    def _node_at(self, name: str, ip: str) -> str | None:
        return next((node for node in self._machines(name) if self._cluster.hosts[node].ip == ip), None)

    def _machines(self, name: str) -> list[str]:
        """Return the machines of a set, and the machines with a copy of one of their stores."""
        return [*self.sets[name], *self.members.clones[name]]

    # -- who leads

    def leader(self, name: str) -> str | None:
        """The machine of a set that takes messages, in the newest epoch if an old one has not heard of it."""
        found = [(self._epoch(node), node) for node in self._machines(name) if self.takes(node)]
        return max(found)[1] if found else None

    def _leads(self, name: str) -> bool:
        return self.leader(name) == name

    def takes(self, node: str) -> bool:
        running = self._running(node)
        return running is not None and running.parts.role.may_write

    def _epoch(self, node: str) -> int:
        last = self._epochs_at(node).last
        return -1 if last is None else last.number

    def _epochs_at(self, node: str) -> Epochs:
        switching = switching_of(self._node(node))
        assert switching is not None
        return switching.epoch_log.epochs

    def whole(self, name: str) -> bool:
        """Whether every machine of a set is in sync."""
        leader = self.leader(name)
        if leader is None:
            return False
        switching = switching_of(self._node(leader))
        sync_set = switching.sync_set if switching is not None else None
        return sync_set is not None and all(self._id_in(node, leader) in sync_set.members for node in self.sets[name])

    def _id_in(self, node: str, leader: str) -> int:
        """Return the id of a machine that has joined the epoch of this leader, or 0 if it has not."""
        running = self._running(node)
        membership = None if running is None else membership_of(running)
        if membership is None or membership.standing.epoch != self._epoch(leader):
            return 0
        return membership.standing.own_id

    def _is_steady(self, name: str) -> bool:
        """Return whether a set is whole, and the leading controller can elect each of its members immediately."""
        for controller in map(self._cluster.nodes.get, self._faults.controllers):
            if isinstance(controller, ControllerNode) and name in controller._controller.sets:
                one = controller._controller.sets[name].value
                alive = controller._controller.live.alive_in(one, controller._clock.now())
                ready = [each for each in one.in_sync if each in alive and steady(one, each, alive[each])]
                return self.whole(name) and len(ready) == len(one.in_sync) == len(self.sets[name])
        return False

    async def watch(self) -> None:
        """Look who leads, and from time to time at every slave."""
        next_look = 0.0
        while True:
            for name in self.sets:
                self._look_at_master(name)
                self._look_at_ends(name)
            self._look_at_controllers()
            self._look_at_elections()
            if self._cluster.now >= next_look:
                next_look = self._cluster.now + LOOK_EVERY_S
                self.look()
            await self._cluster.sleep(PATIENT_LOOK_S if self._patient else LOOK_AT_MASTERS_S)

    def _look_at_ends(self, name: str) -> None:
        """A member keeps all of its log that its set has confirmed while it was in sync."""
        for node in self.sets[name]:
            running = self._running(node)
            disk, held = self._held.get(node, (None, 0))
            if running is None or disk is not self._cluster.disks[node]:
                continue
            end = int(running.store.log.written_offset)
            if end < held:
                del self._held[node]
                text = f"the log of {node} ends at {end}, and its set had confirmed what it has up to {held}"
                self.findings.append(Finding(TRUNCATED, text))
        leader = self.leader(name)
        switching = None if leader is None else switching_of(self._node(leader))
        if leader is None or switching is None or switching.sync_set is None:
            return
        confirmed = int(self._node(leader).store.confirm_offset)
        for node in self.sets[name]:
            if self._id_in(node, leader) in switching.sync_set.members:
                held = min(confirmed, int(self._node(node).store.log.flushed_offset))
                disk, before = self._held.get(node, (None, 0))
                now = self._cluster.disks[node]
                self._held[node] = (now, max(held, before if disk is now else 0))

    def damaged(self, node: str) -> None:
        """Called when the store of a machine has been changed."""
        self._held.pop(node, None)
        self._compared.pop(node, None)

    def _look_at_elections(self) -> None:
        """Count the rare ones, as the controller that leads has them."""
        for controller in map(self._cluster.nodes.get, self._faults.controllers):
            if not isinstance(controller, ControllerNode) or not controller._controller.sets:
                continue
            waiting = set(controller._controller.elections.waiting)
            for _ in waiting - self._waiting:
                self._cluster.rare.reached(FULL_STOP)
            self._waiting = waiting
            for name, kept in controller._controller.sets.items():
                master, former = self._former.get(name, (None, ()))
                if kept.value.master != master and kept.value.master in former:
                    self._cluster.rare.reached(FORMER)
                self._former[name] = (kept.value.master or master, kept.value.former)
            return

    def _look_at_controllers(self) -> None:
        """At most one of those that have an etcd is sure that it leads."""
        leaders = []
        for name in self._faults.controllers:
            node = self._cluster.nodes.get(name)
            store = node._store if isinstance(node, ControllerNode) else None
            if isinstance(store, EtcdStore) and store._leader_key and self._cluster.now < store._lives_until:
                leaders.append(name)
                self._leaders.add(store._leader_key)
        if len(leaders) > 1:
            self.findings.append(Finding(TWO_LEADERS, f"{' and '.join(leaders)} are sure that they do"))

    def _look_at_master(self, name: str) -> None:
        for node in self._machines(name):
            if self.takes(node):
                first = self._led.setdefault((name, self._epoch(node)), node)
                if first != node:
                    text = f"{node} takes messages in epoch {self._epoch(node)} of {name}, which {first} began"
                    self.findings.append(Finding(TWO_MASTERS, text))
        leader = self.leader(name)
        if leader is None:
            return
        epoch = self._epoch(leader)
        if epoch == self._epochs.setdefault(name, epoch):
            return
        self._epochs[name] = epoch
        self.elections += 1
        # Also of the machine that led before: it continues from what its set had confirmed.
        self._ledger.crashed(name)
        if leader != self.masters[name]:
            self._ledger.unsure(name, self._step_at(self._ledger.now - TOLD_S))
            self.masters[name] = leader
            self.moved.add(name)
            self.changed()

    # -- what a slave has

    def _compares(self, name: str, node: str, slave: BrokerNode, master: BrokerNode) -> bool:
        """Once it has found the front of its master's log, and while neither has bytes that flipped."""
        if self.members.rotten & {node, self.masters[name]}:
            return False
        mine = switching_of(slave)
        link = mine.side if mine is not None else None
        session = link._session if isinstance(link, AutoSwitchHAClient) and master.parts.role.may_write else None
        return session is not None and session.follows and bool(self._links(node, master))

    # -- the end

    async def converge(self, tables: bool = False) -> None:
        """Every set has a master, and every machine of it is in sync and has all."""
        await self._cluster.until(lambda: not self.busy, "operators are through", WAITS_S)
        for name in self.sets:
            try:
                await self._cluster.until(partial(self.whole, name), f"{name} is whole", COMPLETE_S)
            except AssertionError:
                self.findings.append(Finding("a set is whole when faults end", f"{name}: {self._standing(name)}"))
                continue
            try:
                await self._cluster.until(partial(self._is_steady, name), f"{name} has only steady members", STEADY_S)
            except AssertionError:
                text = f"an election of {name} would wait for a member that restarted: {self._standing(name)}"
                self.findings.append(Finding(WAITS, text))
        for name in self.sets:
            self._look_at_master(name)
            await asyncio.gather(*(self._converge_one(name, node, tables) for node in self._slaves(name)))

    def judge_answers(self, kept: Iterable[tuple[str, str]]) -> None:
        """In an epoch one machine acknowledges: the one that led when the log got its bytes from there on.

        Where a loss of power may take what was acknowledged, another epoch may have begun at its offset.
        """
        if not self._sync:
            return
        leaders = {name: self.leader(name) for name in self.sets}
        epochs = {name: self._epochs_at(leader) for name, leader in leaders.items() if leader is not None}
        for name, stored in kept:
            ip, _, offset = decode_offset_message_id(stored)
            epoch = epochs[name].covering(offset) if name in epochs else None
            if epoch is None:
                continue
            node = self._node_at(name, ip)
            assert node is not None
            first = self._led.setdefault((name, epoch.number), node)
            self.judged += 1
            if first != node:
                text = f"{node} acknowledged offset {offset} of {name} in epoch {epoch.number}, in which {first} led"
                self.findings.append(Finding(TWO_ACKNOWLEDGE, text))

    def _standing(self, name: str) -> str:
        return ", ".join(
            f"{node} {'leads' if self.takes(node) else 'runs' if self._running(node) else 'is down'}"
            for node in self.sets[name]
        )
