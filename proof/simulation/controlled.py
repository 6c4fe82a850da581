"""Sets under a controller: who leads is what it elects, and an operator does nothing about a master that is lost.

Every replica in sync has what is acknowledged and what is delivered (allAckInSyncStateSet), so neither is lost however
often the master changes. In one epoch one machine takes messages. A slave's log may end with what only it has until it
has found where its master's differs; from then on it has the bytes of its master's.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from bolide.node.broker import BrokerNode
from bolide.node.replication.switch_link import SwitchLink
from proof.ledger import Finding
from proof.simulation.faults import CONTROLLER
from proof.simulation.plan import Action, Value
from proof.simulation.replicas import HA_PORT, LOOK_EVERY_S, TOLD_S, Replicas

LOOK_AT_MASTERS_S: Final = 0.05
COMPLETE_S: Final = 120.0
PORT: Final = 9877
BROKER: Final[dict[str, Value]] = {
    "enable_controller_mode": True,
    "all_ack_in_sync_state_set": True,
    "ha_listen_port": HA_PORT,
    "slave_read_enable": True,
    "broker_heartbeat_interval": 500,
    "controller_heart_beat_timeout_mills": 3_000,
    "sync_broker_metadata_period": 2_000,
    "sync_controller_metadata_period": 2_000,
    "check_sync_state_set_period": 1_000,
    "ha_max_time_slave_not_catchup": 5_000,
}
"""Faults last some seconds: a master that is silent for three loses its place."""
TWO_MASTERS: Final = "in an epoch one machine leads"


class ControlledReplicas(Replicas):
    """All sets of a run, under one controller."""

    keeps_more_topics = True
    elections = 0
    _led: dict[tuple[str, int], str]
    """Who was the master in each epoch of a set."""
    _epochs: dict[str, int]
    """The newest of each set."""

    async def begin(self, namesrvs: list[Any]) -> None:
        """Start the controller, then the first machine of each set, which is its first master, then the others."""
        self._led, self._epochs = {}, {}
        await self._cluster.start_controller(CONTROLLER)
        for name in self.names:
            await self._cluster.start_broker(name, self.settings_of(name), namesrvs)
            if name in self.sets:
                await self._cluster.until(partial(self._leads, name), f"{name} leads", COMPLETE_S)
        for name in self.sets:
            await self._cluster.until(partial(self.whole, name), f"{name} is whole", COMPLETE_S)

    def settings_of(self, node: str) -> dict[str, Any]:
        """The same for every machine of a set."""
        name = self.set_of(node)
        return {
            "clean_file_forcibly_enable": False,
            **self._settings,
            **BROKER,
            "broker_name": name,
            "controller_addr": f"{self._cluster.machine(CONTROLLER).ip}:{PORT}",
            "in_sync_replicas": int(self._wanted["in_sync"]),
            "fast_port_enable": bool(self._wanted["fast_port"]),
        }

    def figures(self) -> dict[str, int]:
        """Counts for the reader."""
        return {**super().figures(), "elections": self.elections}

    # -- what the plan says

    def act(self, action: Action) -> None:
        """A master is lost, and nobody promotes another; or a slave's disk is replaced."""
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
        """Another machine leads, and has all that is acknowledged."""
        leader = self._leader(name)
        return leader is not None and leader != node and leader == self.masters[name]

    # -- who leads

    def _leader(self, name: str) -> str | None:
        """The machine of a set that takes messages, in the newest epoch if an old one has not heard of it."""
        found = [(self._epoch(node), node) for node in self.sets[name] if self._takes(node)]
        return max(found)[1] if found else None

    def _leads(self, name: str) -> bool:
        return self._leader(name) == name

    def _takes(self, node: str) -> bool:
        running = self._running(node)
        return running is not None and running.parts.role.may_write

    def _epoch(self, node: str) -> int:
        running = self._node(node)
        switching = running._joining.switching
        assert switching is not None
        last = switching.epoch_log.epochs.last
        return -1 if last is None else last.number

    def whole(self, name: str) -> bool:
        """Whether every machine of a set is in sync."""
        leader = self._leader(name)
        if leader is None:
            return False
        switching = self._node(leader)._joining.switching
        sync_set = switching.sync_set if switching is not None else None
        return sync_set is not None and len(sync_set.members) >= len(self.sets[name])

    async def watch(self) -> None:
        """Look who leads, and from time to time at every slave."""
        next_look = 0.0
        while True:
            for name in self.sets:
                self._look_at_master(name)
            if self._cluster.now >= next_look:
                next_look = self._cluster.now + LOOK_EVERY_S
                self.look()
            await self._cluster.sleep(LOOK_AT_MASTERS_S)

    def _look_at_master(self, name: str) -> None:
        for node in self.sets[name]:
            if self._takes(node):
                first = self._led.setdefault((name, self._epoch(node)), node)
                if first != node:
                    text = f"{node} takes messages in epoch {self._epoch(node)} of {name}, which {first} began"
                    self.findings.append(Finding(TWO_MASTERS, text))
        leader = self._leader(name)
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
        """Once it has found the front of its master's log."""
        mine = slave._joining.switching
        link = mine.side if mine is not None else None
        session = link._session if isinstance(link, SwitchLink) and master.parts.role.may_write else None
        return session is not None and session.follows and bool(self._links(node, master))

    # -- the end

    async def converge(self, tables: bool = False) -> None:
        """Every set has a master, and every machine of it is in sync and has all."""
        await self._cluster.until(lambda: not self.busy, "operators are through", COMPLETE_S)
        for name in self.sets:
            try:
                await self._cluster.until(partial(self.whole, name), f"{name} is whole", COMPLETE_S)
            except AssertionError:
                self.findings.append(Finding("a set is whole when faults end", f"{name}: {self._standing(name)}"))
        for name in self.sets:
            self._look_at_master(name)
            await asyncio.gather(*(self._converge_one(name, node, tables) for node in self._slaves(name)))

    def _standing(self, name: str) -> str:
        return ", ".join(
            f"{node} {'leads' if self._takes(node) else 'runs' if self._running(node) else 'is down'}"
            for node in self.sets[name]
        )
