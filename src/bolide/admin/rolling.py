"""Restarts the brokers of a cluster one after the other: slaves first, and each master after another broker has taken
its role."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bolide.admin.client import Admin
from bolide.admin.cluster import MemberRow
from bolide.admin.drain import only_at
from bolide.admin.joining import behind, controlled_members
from bolide.client.messages.errors import NoQueue, ResponseError
from bolide.errors import BolideError, LocalError
from bolide.layout.names import MASTER_ID

LOOK_S: Final = 0.5


class StepKind(StrEnum):
    """Kinds of steps."""

    RESTART = "restart"
    HAND_OVER = "hand over"
    """Elect the next master; only under a controller."""
    CLOSE = "take write permission"
    """Make producers use other sets."""
    OPEN = "give write permission"


class StepFailed(LocalError):
    """A step failed or timed out; later steps are not executed."""


@dataclass(frozen=True, slots=True)
class RollingStep:
    """One step. `address` is the address of the broker, or of the next master for HAND_OVER. `note` describes the
    effect on clients."""

    broker_name: str
    action: StepKind
    address: str = ""
    broker_id: int = -1
    note: str = ""


async def restart_plan(admin: Admin, sets: Iterable[str] = ()) -> list[RollingStep]:
    """Return the steps for these sets, or for all sets. Raises `NoQueue` for a set that is not registered, and
    `StepFailed` for a set that is not fully in sync: it could lose its last in-sync replica."""
    info = await admin.cluster_info()
    known = sorted(info.broker_addr_table)
    wanted = list(dict.fromkeys(sets)) or known
    strange = [name for name in wanted if name not in info.broker_addr_table]
    if strange:
        raise NoQueue(f"no broker of {', '.join(strange)} is registered; known brokers: {', '.join(known) or 'none'}")
    steps: list[RollingStep] = []
    for name in wanted:
        members = await controlled_members(admin, name)
        if members:
            steps += _under_a_controller(name, members)
        else:
            steps += await _plain(admin, name, info.broker_addr_table[name].broker_addrs)
    return steps


def _under_a_controller(name: str, members: list[MemberRow]) -> list[RollingStep]:
    missing = [f"{each.broker_id} ({each.address})" for each in members if not (each.alive and each.in_sync)]
    if missing:
        raise StepFailed(
            f"{name} is degraded: {', '.join(missing)} is down or not in sync; start it, or remove it with "
            f"bolide cluster leave"
        )
    master = next((each for each in members if each.master), None)
    if master is None:
        raise StepFailed(f"{name} has no master: wait until the controller elects one")
    others = [each for each in members if not each.master]
    steps = [RollingStep(name, StepKind.RESTART, each.address, each.broker_id) for each in others]
    if others:
        steps.append(RollingStep(name, StepKind.HAND_OVER, others[0].address, others[0].broker_id))
        steps.append(RollingStep(name, StepKind.RESTART, master.address, master.broker_id))
    else:
        steps.append(
            RollingStep(name, StepKind.RESTART, master.address, master.broker_id, "takes no messages meanwhile")
        )
    return steps


async def _plain(admin: Admin, name: str, addresses: dict[int, str]) -> list[RollingStep]:
    if MASTER_ID not in addresses:
        raise StepFailed(f"{name} has no master: start it first")
    slaves = [
        RollingStep(name, StepKind.RESTART, at, number)
        for number, at in sorted(addresses.items())
        if number != MASTER_ID
    ]
    master = addresses[MASTER_ID]
    alone = await only_at(admin, name)
    if alone:
        note = f"no messages of {alone[0]}{f' and {len(alone) - 1} more topics' if len(alone) > 1 else ''} meanwhile"
        return [*slaves, RollingStep(name, StepKind.RESTART, master, MASTER_ID, note)]
    return [
        *slaves,
        RollingStep(name, StepKind.CLOSE, master, MASTER_ID),
        RollingStep(name, StepKind.RESTART, master, MASTER_ID),
        RollingStep(name, StepKind.OPEN, master, MASTER_ID),
    ]


class Rolling:
    """Executes the steps of a plan. `restart` stops and starts one broker's process, and raises if that fails."""

    def __init__(
        self,
        admin: Admin,
        restart: Callable[[RollingStep], Awaitable[None]],
        seconds: float,
        settle: float,
        told: Callable[[str], None],
    ) -> None:
        """Create an executor. `seconds` is the time limit of a step, `settle` the time in seconds until producers
        notice a changed permission."""
        self._admin = admin
        self._restart = restart
        self._seconds = seconds
        self._settle = settle
        self._told = told

    async def take(self, steps: Iterable[RollingStep]) -> int:
        """Execute the steps one after the other; return their number.
        Raises `StepFailed`, with the set and the address."""
        count = 0
        closed = ""
        try:
            for step in steps:
                await self._take(step)
                closed = {StepKind.CLOSE: step.broker_name, StepKind.OPEN: ""}.get(step.action, closed)
                count += 1
        except BaseException:
            if closed:
                self._told(f"{closed} has no write permission: bolide cluster drain {closed} --undo gives it back")
            raise
        return count

    async def _take(self, step: RollingStep) -> None:
        name = step.broker_name
        if step.action is StepKind.CLOSE:
            await self._admin.wipe_write_permission(name)
            self._told(f"{name}: waiting {self._settle:g} s until producers use other sets")
            await asyncio.sleep(self._settle)
        elif step.action is StepKind.OPEN:
            await self._admin.add_write_permission(name)
        elif step.action is StepKind.HAND_OVER:
            epoch = await self._admin.switch_master(name, step.broker_id)
            await self._until(step, lambda: self._leads(step), "is not the registered master")
            self._told(f"{name}: {step.address} is the master of epoch {epoch}")
        else:
            before = await self._started_at(step)
            self._told(f"{name}: restarting {step.address}")
            await self._restart(step)
            await self._until(step, lambda: self._is_another(step, before), "has not started again")
            await self._until(step, lambda: self._has_all(step), "lacks some of its set's log")
            self._told(f"{name}: {step.address} is back, with all of its log")

    async def _until(self, step: RollingStep, done: Callable[[], Awaitable[bool]], otherwise: str) -> None:
        """Poll `done` until it returns True. A failed query is repeated."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        while True:
            failure = ""
            try:
                if await done():
                    return
            except StepFailed:
                raise
            except BolideError as error:
                failure = f" ({error})"
            if loop.time() >= end:
                raise StepFailed(
                    f"{step.broker_name}: {step.address} {otherwise} after {self._seconds:g} s{failure}: look into its "
                    f"log, and run this command again once the set is in sync"
                )
            await asyncio.sleep(LOOK_S)

    async def _started_at(self, step: RollingStep) -> str:
        """Return the start time of a broker's process. Raises `StepFailed` if no process listens at the address."""
        found: list[str] = []

        async def answers() -> bool:
            try:
                found.append(await self._booted(step.address))
            except ResponseError:
                raise  # A broker that rejects requests is running: while it changes its role, it rejects all requests.
            except BolideError as error:
                raise StepFailed(f"{step.broker_name}: {step.address} does not respond: start it first") from error
            return True

        await self._until(step, answers, "rejects the query of its figures")
        return found[0]

    async def _booted(self, address: str) -> str:
        return (await self._admin.broker_runtime(address)).get("bootTimestamp", "")

    async def _is_another(self, step: RollingStep, before: str) -> bool:
        booted = await self._booted(step.address)
        return bool(booted) and booted != before

    async def _leads(self, step: RollingStep) -> bool:
        data = (await self._admin.cluster_info()).broker_addr_table.get(step.broker_name)
        return data is not None and data.broker_addrs.get(MASTER_ID) == step.address

    async def _has_all(self, step: RollingStep) -> bool:
        """Return whether the broker is registered, caught up, and in sync if it is under a controller."""
        return await behind(self._admin, step.broker_name, step.broker_id) == 0
