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
from bolide.admin.transient import is_transient
from bolide.client.messages.errors import NoQueue, ResponseError
from bolide.errors import BolideError, LocalError
from bolide.layout.names import MASTER_ID

LOOK_S: Final = 0.5
LOOK: Final = "look into its log, and run this command again once the set is in sync"
DOWN_S: Final = 10.0
"""Seconds without a response until a broker is treated as down."""


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
        *,
        down_after: float = DOWN_S,
    ) -> None:
        """Create an executor. `seconds` is the time limit of a step, `settle` the time in seconds until producers
        notice a changed permission. A broker that does not respond for `down_after` seconds is treated as down, and
        not restarted."""
        self._admin = admin
        self._restart = restart
        self._seconds = seconds
        self._settle = settle
        self._told = told
        self._down_after = down_after

    async def take(self, steps: Iterable[RollingStep]) -> int:
        """Execute the steps one after the other; return their number.

        Repeats a request that fails transiently until the time limit of its step. Raises `StepFailed`, with the set and
        the address, and before it reports a set without write permission and the command that continues.
        """
        steps = list(steps)
        count = 0
        closed = ""
        try:
            for step in steps:
                if step.action is StepKind.CLOSE:
                    closed = step.broker_name  # also if the step fails: some name servers may have changed it
                await self._take(step)
                if step.action is StepKind.OPEN:
                    closed = ""
                count += 1
        except BaseException:
            left = dict.fromkeys(step.broker_name for step in steps[count:] if step.action is not StepKind.OPEN)
            if count and left:
                self._told(f"bolide cluster restart {' '.join(left)} continues, with the same options")
            if closed:
                self._told(f"{closed} has no write permission: bolide cluster drain {closed} --undo gives it back")
            raise
        return count

    async def _take(self, step: RollingStep) -> None:
        name = step.broker_name
        if step.action is StepKind.CLOSE:
            await self._permission(step, self._admin.wipe_write_permission, "has not lost its write permission")
            self._told(f"{name}: waiting {self._settle:g} s until producers use other sets")
            await asyncio.sleep(self._settle)
        elif step.action is StepKind.OPEN:
            await self._permission(step, self._admin.add_write_permission, "has not got its write permission back")
        elif step.action is StepKind.HAND_OVER:
            await self._hand_over(step)
        else:
            before = await self._started_at(step)
            self._told(f"{name}: restarting {step.address}")
            await self._restart(step)
            await self._until(step, lambda: self._is_another(step, before), "has not started again")
            await self._until(step, lambda: self._has_all(step), "lacks some of its set's log")
            self._told(f"{name}: {step.address} is back, with all of its log")

    async def _permission(
        self, step: RollingStep, change: Callable[[str], Awaitable[object]], otherwise: str
    ) -> None:
        """Change the write permission of a set at all name servers."""

        async def changed() -> bool:
            await change(step.broker_name)
            return True

        advice = "make sure that all name servers are running"
        await self._until(step, changed, f"{otherwise} at every name server", advice)

    async def _hand_over(self, step: RollingStep) -> None:
        """Elect the next master, and wait until it is registered."""
        epochs: list[int] = []

        async def handed_over() -> bool:
            if await self._leads(step):  # also if the response to an earlier request was lost
                return True
            if not epochs:
                epochs.append(await self._admin.switch_master(step.broker_name, step.broker_id))
            return False

        await self._until(step, handed_over, "is not the registered master")
        epoch = f" of epoch {epochs[0]}" if epochs else ""
        self._told(f"{step.broker_name}: {step.address} is the master{epoch}")

    async def _until(
        self, step: RollingStep, done: Callable[[], Awaitable[bool]], otherwise: str, advice: str = LOOK
    ) -> None:
        """Poll `done` until it returns True. Repeats it after a transient failure. Raises `StepFailed`."""
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
                if not is_transient(error):
                    raise StepFailed(f"{step.broker_name}: {step.address} {otherwise}: {error}") from error
                failure = f" ({error})"
            if loop.time() >= end:
                raise StepFailed(
                    f"{step.broker_name}: {step.address} {otherwise} after {self._seconds:g} s{failure}: {advice}"
                )
            await asyncio.sleep(LOOK_S)

    async def _started_at(self, step: RollingStep) -> str:
        """Return the start time of a broker's process. Raises `StepFailed` if no process listens at the address."""
        found: list[str] = []
        loop = asyncio.get_running_loop()
        down = loop.time() + self._down_after

        async def answers() -> bool:
            try:
                found.append(await self._booted(step.address))
            except ResponseError:
                raise  # A broker that rejects requests is running: while it changes its role, it rejects all requests.
            except BolideError as error:
                if loop.time() < down:
                    raise
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
