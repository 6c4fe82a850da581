"""Members of a controlled set that return with less, with other bytes or as copies, and whose disks hang.

One member of a set is damaged at a time, and only while the set is whole, so each acknowledged message is on two other
machines. Then an operator looks at the set every two seconds, and follows the texts of the product.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

from bolide.admin import Admin
from bolide.declaration import options_of
from bolide.errors import BolideError
from bolide.layout.shape import ShapeOptions
from bolide.remoting.properties_text import read_properties_utf8
from bolide.store.offline.inspect import NoStore, shape_of
from bolide.store.offline.member import MemberPaths, set_member_aside
from bolide.store.offline.repair import Repair
from proof.simulation.cluster import BROKER_CONF, Cluster, NotInTime
from proof.simulation.core import HealthyCore
from proof.simulation.disk import Disk
from proof.simulation.faults import Faults
from proof.simulation.plan import Action
from proof.simulation.replica_parts import membership_of, switching_of
from proof.simulation.replicas import Replicas
from proof.simulation.stored_bytes import flip_in_log, flip_in_table

ROOT: Final = "/store"
LOOK_S: Final = 2.0
PATIENCE_S: Final = 15.0
"""Time for which an operator lets a member try before setting its store aside."""
LEADERLESS_S: Final = 75.0
"""Time for which an operator waits for an election: longer than `maxWaitForMembers`."""
RESOLVED_S: Final = 500.0
Ask = Callable[[Callable[[Admin], Awaitable[Any]]], Awaitable[Any]]


class Elected(Protocol):
    """The state of the sets and their masters."""

    def whole(self, name: str) -> bool:
        """Return whether every machine of a set is in sync."""

    def leader(self, name: str) -> str | None:
        """Return the machine that accepts messages, or None."""

    def elected(self, name: str) -> str | None:
        """Return the master according to the leading controller, or None."""

    def takes(self, node: str) -> bool:
        """Return whether a machine accepts messages."""

    def damaged(self, node: str) -> None:
        """Called when the store of a machine has been changed."""


class Members:
    """Damages members of controlled sets, and repairs them as an operator does."""

    def __init__(self, cluster: Cluster, faults: Faults, replicas: Replicas, elected: Elected) -> None:
        self._cluster = cluster
        self._elected = elected
        self._faults = faults
        self._replicas = replicas
        self.core: HealthyCore | None = None
        self.ask: Ask | None = None
        """Runs something with the operator's client."""
        self.clones: dict[str, list[str]] = {name: [] for name in replicas.sets}
        """Machines with a copy of a member's store."""
        self.rotten: set[str] = set()
        """Members with other bytes in their logs, until an operator has put them right."""
        self._given_up: dict[str, int] = {}
        """Ids of members whose store was repaired, so that they join as others; an operator removes these ids."""
        self.damaged = self.set_aside = self.switched = 0
        self._copies: dict[str, Disk] = {}

    def figures(self) -> dict[str, int]:
        """Return counts for the report."""
        judged = self.core.judged if self.core is not None else 0
        return {"damaged": self.damaged, "set_aside": self.set_aside, "switched": self.switched, "cores": judged}

    def act(self, action: Action) -> None:
        """Carry out an action of the plan if the set is whole."""
        replicas = self._replicas
        name = list(replicas.sets)[action.number("broker") % len(replicas.sets)]
        member = action.number("member")
        node = replicas.masters[name] if member < 0 else replicas.sets[name][member % len(replicas.sets[name])]
        if action.do == "copy":
            if self._cluster.processes[node].alive:
                self._copies[node] = self._copied(self._faults.disk(node))
            return
        elected, leader = self._elected.elected(name), self._elected.leader(name)
        if self._elected.whole(name) and elected == leader and node in replicas.names:
            replicas._begin_move(name, self._damage(name, node, action))

    async def _damage(self, name: str, node: str, action: Action) -> None:
        self.damaged += 1
        self._elected.damaged(node)
        await getattr(self, f"_{action.do}")(name, node, action)
        await self._resolve(name, node)

    # -- less, and other bytes

    async def _restore(self, name: str, node: str, action: Action) -> None:
        """Replace the folder of a member by an earlier copy."""
        await self._end(node, action)
        self._put_copy_back(node)
        await self._cluster.sleep(action.seconds("down"))
        self._faults.held.discard(node)

    async def _rot(self, name: str, node: str, action: Action) -> None:
        """A bit flips in the log or in a table of a member. Later an operator checks its store.

        With `filled`, an operator lets the repair fill the hole as in a last copy: its records have valid CRCs. With
        `empties`, another member starts with an empty disk, so that it needs the damaged record.
        """
        runs = bool(action.of.get("runs"))
        if not runs:
            await self._end(node, action)
        self._flip(node, action, runs)
        if not runs:
            if action.of.get("filled"):
                self._repair(node, last_copy=True)
            await self._cluster.sleep(action.seconds("down"))
            self._faults.held.discard(node)
        elif action.of.get("empties"):
            await self._empty_another(name, node)
        await self._cluster.sleep(action.seconds("lasts"))
        await self._check(node, action)

    async def _empty_another(self, name: str, node: str) -> None:
        """Replace the disk of a member that is neither `node` nor the master."""
        leader = self._elected.leader(name)
        if self._elected.whole(name) and self._elected.elected(name) == leader:
            other = next(each for each in self._replicas.sets[name] if each not in (node, leader))
            await self._replicas._empty_one(other, 0.1)

    def _flip(self, node: str, action: Action, runs: bool = False) -> None:
        disk = self._faults.disk(node)
        if action.text("what") == "table":
            told = flip_in_table(disk, action.seconds("place"))
        else:
            # Logs are compared from the last record back, in one file: a filled hole is found there.
            newest = bool(action.of.get("filled")) or action.text("less") == "fill"
            told = flip_in_log(disk, action.seconds("place"), cold=runs, newest=newest)
            self.rotten.add(node)
        self._cluster.note(f"on the disk of {node} {told or 'nothing is there to flip'}")

    async def _check(self, node: str, action: Action) -> None:
        """An operator stops a member and lets `store repair` look at its log."""
        await self._end(node, action)
        self._repair(node)
        self.rotten.discard(node)
        self._faults.held.discard(node)

    async def _stop_all(self, name: str, node: str, action: Action) -> None:
        """All members stop and start again in any order, perhaps one of them with less."""
        nodes = self._replicas.sets[name]
        await asyncio.gather(*(self._end(each, action) for each in nodes))
        less = action.text("less")
        if less == "restore":
            self._put_copy_back(node)
        elif less in ("rot", "repair", "fill"):
            self._flip(node, action)
            if less != "rot":
                self._repair(node, last_copy=less == "fill")
        starts = [self._start_later(each, action.seconds(f"down{number}")) for number, each in enumerate(nodes)]
        if less == "clone" and node in self._copies:
            starts.append(self._run_clone(name, node, self._copies[node], 20.0))
        await asyncio.gather(*starts)
        if less in ("rot", "fill"):
            await self._resolve(name, node)
            await self._check(node, action)

    async def _start_later(self, node: str, seconds: float) -> None:
        await self._cluster.sleep(seconds)
        self._faults.held.discard(node)

    # -- copies that run

    async def _clone(self, name: str, node: str, action: Action) -> None:
        """Run a copy of a member's folder on another machine, while the member runs or is down."""
        copy = self._copies.get(node) if action.of.get("old") else None
        instead = bool(action.of.get("instead"))
        if instead:
            await self._end(node, action)
        await self._run_clone(name, node, copy or self._copied(self._faults.disk(node)), action.seconds("lasts"))
        if instead:
            self._faults.held.discard(node)

    async def _run_clone(self, name: str, node: str, disk: Disk, lasts: float) -> None:
        clone = f"{node}-copy-{len(self.clones[name]) + 1}"
        ip = self._cluster.machine(clone).ip
        conf = disk.read_file(BROKER_CONF)
        assert conf is not None
        disk = self._cluster.disks[clone] = self._copied(disk)
        disk.write_file(BROKER_CONF, re.sub(r"(?m)^bindAddress=.*$", f"bindAddress={ip}", conf.decode()).encode())
        self._cluster.settings[clone] = ({**self._replicas.settings_of(node)}, self._cluster.settings[node][1])
        self.clones[name].append(clone)
        self._faults.spawn(self._start_clone(clone))
        await self._cluster.sleep(lasts)
        process = self._cluster.processes.get(clone)
        if process is not None and process.alive:
            if self._elected.takes(clone):
                self._replicas._ledger.crashed(name)
            self._cluster.kill(clone)
            # Until the controller misses its heartbeats, it counts a copy that took the member's id.
            await self._cluster.sleep(PATIENCE_S)

    async def _start_clone(self, clone: str) -> None:
        try:
            await self._cluster.start_broker(clone)
        except (BolideError, OSError, NotInTime) as error:
            self._cluster.note(f"{clone} does not start: {error}")

    # -- a minority that is broken while the others are judged

    async def _hang(self, name: str, node: str, action: Action) -> None:
        """Calls of a member to its disk do not return for a time, or until its machine is switched off."""
        lasts = action.seconds("lasts")
        self._begins(f"the disk of {node} hangs ({action.text('calls')})")
        pace = self._cluster.processes[node].world.disk_files.pace
        pace.hangs(action.text("calls"), self._cluster.now + lasts + (1.0 if action.of.get("ever") else 0.0))
        await self._until_over(lasts)
        if action.of.get("ever") and self._cluster.processes[node].alive:
            self._faults.lose(node, Action(0.0, "power", {"how": "power", "down": 1.0, "seed": 1}))

    async def _gray(self, name: str, node: str, action: Action) -> None:
        """Freeze a member, or block its network, for most of the time."""
        begin, link = self._cluster.now, action.text("how") == "link"
        self._begins(f"{node} is {'cut off' if link else 'frozen'} {action.seconds('frozen'):g} s at a time")
        others = [other for other in self._cluster.hosts if other not in (node, "scenario")]
        while self._cluster.now < begin + action.seconds("lasts") and self.core is not None:
            lasts = Action(0.0, "pause", {"lasts": action.seconds("frozen"), "ways": "both"})
            if link:
                self._faults._cut_off(node, others, lasts)
            else:
                self._faults._pause(node, lasts)
            await self._cluster.sleep(action.seconds("frozen") + action.seconds("well"))
        self._ends()

    def _begins(self, what: str) -> None:
        self._cluster.note(what)
        if self.core is not None:
            self.core.broken(what)

    def _ends(self) -> None:
        if self.core is not None:
            self.core.healed()

    async def _until_over(self, seconds: float) -> None:
        await self._cluster.sleep(seconds)
        self._ends()

    # -- what an operator does

    async def _end(self, node: str, action: Action) -> None:
        """End a member by a kill, a loss of power or a clean stop; it is started once `held` has it no longer."""
        self._faults.held.add(node)
        async with self._faults.starting[node]:
            if not self._cluster.processes[node].alive:
                return
            how = action.text("how")
            if how == "stop":
                await self._faults._stop(node, 0.0)
            else:
                self._faults.lose(node, Action(0.0, how, {"how": how, "seed": action.number("seed"), "down": 0.1}))

    def _copied(self, disk: Disk) -> Disk:
        """Return a copy of a disk as a program sees it, with all of it synced."""
        copy = Disk(disk.random.getrandbits(32))
        copy.now_ms = disk.now_ms
        disk._copy_to(copy)
        copy.power_cut(1)
        copy.boots = disk.boots
        return copy

    def _put_copy_back(self, node: str) -> None:
        copy = self._copies.get(node)
        if copy is not None:
            self._cluster.note(f"the folder of {node} is replaced by an earlier copy")
            boots = self._faults.disk(node).boots
            self._cluster.disks[node] = disk = self._copied(copy)
            disk.boots = boots

    def _repair(self, node: str, last_copy: bool = False) -> bool:
        """Run `bolide store repair --yes` on a member that does not run; return whether it changed anything."""
        disk = self._faults.disk(node)
        disk.faults_over()
        conf = disk.read_file(BROKER_CONF)
        assert conf is not None
        try:
            shape = shape_of(disk, ROOT, options_of(ShapeOptions, read_properties_utf8(conf)), True)
        except NoStore:
            return False
        work = Repair(disk, ROOT, shape, MemberPaths.within(ROOT))
        try:
            plan = work.plan(False, last_copy)
            if not plan.reason:
                return False
            self._cluster.note(f"store repair of {node}: {plan.reason}")
            if plan.member:
                self._given_up[node] = _id_in(disk)
            work.carry_out(plan, disk.now_ms)
            self._elected.damaged(node)
        except BolideError as error:
            self._cluster.note(f"store repair of {node} fails: {error}")
            return False
        finally:
            work.close()
        self.set_aside += bool(plan.member)
        return True

    async def _resolve(self, name: str, node: str) -> None:
        """Look until the set is whole. A member that cannot join is repaired, or its store is set aside."""
        begin = since = led = self._cluster.now
        while not self._elected.whole(name) and self._cluster.now < begin + RESOLVED_S:
            await self._cluster.sleep(LOOK_S)
            leader = self._elected.leader(name)
            if leader is not None and (leader != node or not self._refusers(name, node)):
                led = self._cluster.now
            if node in self._faults.held or self._cluster.now - since < PATIENCE_S:
                continue
            if leader not in (None, node) and self._elected.elected(name) == leader and self._stuck(node):
                await self._replace_store(node)
                since = self._cluster.now
            elif self._cluster.now - led > LEADERLESS_S:
                await self._give_up(name, node)
                since = led = self._cluster.now

    def _stuck(self, node: str) -> bool:
        """Whether a member does not start, rejects its master, or is not admitted by the controller."""
        running = self._replicas._running(node)
        if running is None:
            return True
        membership, switching = membership_of(running), switching_of(running)
        assert switching is not None
        return bool(switching.refused() or "move its files" in membership._said)

    def _refusers(self, name: str, node: str) -> bool:
        return all(self._stuck(other) for other in self._replicas.sets[name] if other != node)

    async def _replace_store(self, node: str) -> None:
        await self._set_aside(node)
        self._faults.held.discard(node)

    async def _set_aside(self, node: str) -> None:
        """Stop a member, and repair its store or set it aside. It stays down."""
        await self._end(node, Action(0.0, "kill", {"how": "kill"}))
        if not self._move_table(node) and not self._repair(node):
            disk = self._faults.disk(node)
            self.set_aside += 1
            folder = f"{ROOT}/aside-{self.set_aside}"
            self._cluster.note(f"an operator moves the log and the identity of {node} away")
            disk.faults_over()
            disk.make_dir(folder)
            set_member_aside(disk, ROOT, MemberPaths.within(ROOT), folder)
        self._elected.damaged(node)
        self.rotten.discard(node)

    def _move_table(self, node: str) -> bool:
        """Move the table away that kept a member from starting; return whether there was one."""
        texts = [text for text in self._faults.failed_starts if text.startswith(f"{node}: ")]
        found = re.search(r"(/store/config/\S+) cannot be read", texts[-1]) if texts else None
        disk = self._faults.disk(node)
        if found is None or disk.size(found[1]) < 0:
            return False
        self._cluster.note(f"an operator moves {found[1]} of {node} away")
        disk.rename(found[1], f"{found[1]}.damaged")
        return True

    async def _give_up(self, name: str, node: str) -> None:
        """No other member leads: remove the damaged member's old id, and let the longest log of the others lead."""
        replicas = self._replicas
        running = replicas._running(node)
        own = membership_of(running).standing.own_id if running else 0
        if self._stuck(node) or self._elected.takes(node) or self._refusers(name, node):
            await self._set_aside(node)
        await self._hand_over(name, node, self._given_up.pop(node, own))
        self._faults.held.discard(node)

    async def _hand_over(self, name: str, node: str, old: int) -> None:
        replicas = self._replicas
        if self.ask is None:
            return
        rest = [each for each in replicas.sets[name] if each != node and replicas._running(each)]
        ends = {each: int(replicas._node(each).store.log.written_offset) for each in rest}
        best = max(rest, key=ends.__getitem__, default=None)
        if best is None:
            return
        membership = membership_of(replicas._node(best))
        controllers = ";".join(f"{self._cluster.machine(one).ip}:9877" for one in self._faults.controllers)
        self.switched += 1
        self._replicas._ledger.crashed(name, ahead=True)  # groups may have consumed messages of the removed log
        for work in (
            partial(_forget, name=name, broker_id=old, controllers=controllers),
            partial(_switch, name=name, broker_id=membership.standing.own_id, controllers=controllers),
        ):
            await self._asked(self.ask, work)

    async def _asked(self, ask: Ask, work: Callable[[Admin], Awaitable[Any]]) -> None:
        """Repeat a request until the controller accepts it: it counts a killed member as alive for some seconds."""
        end = self._cluster.now + PATIENCE_S
        while True:
            try:
                await ask(work)
                return
            except (BolideError, AssertionError) as error:
                self._cluster.note(f"the operator is refused: {error}")
            if self._cluster.now >= end:
                return
            await self._cluster.sleep(LOOK_S)


async def _forget(admin: Admin, *, name: str, broker_id: int, controllers: str) -> None:
    await admin.forget_member(name, broker_id, controllers)


async def _switch(admin: Admin, *, name: str, broker_id: int, controllers: str) -> None:
    await admin.switch_master(name, broker_id, controllers)


def _id_in(disk: Disk) -> int:
    identity = disk.read_file(f"{ROOT}/brokerIdentity") or b"#0"
    return int(identity.rpartition(b"#")[2])
