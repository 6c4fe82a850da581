"""Stores decisions in the engine: one at a time per set. Responses are sent once the decision is stored.

After a decision with an unknown result (the engine did not respond), this controller gives up its leadership until it
has reloaded the state of the engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from bolide.controller.consensus import ConsensusStore, LeadershipLost, StoreUnavailable
from bolide.controller.decisions import SetDecision
from bolide.controller.server import Controller, Open
from bolide.errors import BolideError, LocalError
from bolide.node.loop.clock import Clock
from bolide.remoting import codes
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.controller")


class Deciding:
    """The decisions of one controller. `changed` is called after each stored decision."""

    def __init__(
        self, controller: Controller, store: ConsensusStore, clock: Clock, changed: Callable[[], object]
    ) -> None:
        self._controller = controller
        self._store = store
        self._clock = clock
        self._changed = changed
        self._under_way: dict[str, tuple[asyncio.Lock, int]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._electing: dict[str, None] = {}

    @property
    def in_progress(self) -> int:
        """Number of waiting requests and elections."""
        return len(self._tasks)

    def answer(self, opened: Open, then: Callable[[SetDecision], object]) -> None:
        """Decide, and call `then` with the stored decision or with an error."""
        self._begin(self._answered(opened, then), f"decide {opened.name}")

    def elect(self, name: str) -> None:
        """Elect a master for a set, unless an election is already in progress."""
        if name not in self._electing:
            self._electing[name] = None
            self._begin(self._elect(name), f"elect {name}")

    def keep_confirmed(self, name: str) -> None:
        """Store the confirm offset of a set, like any other decision."""
        self.answer(self._controller.note_confirmed(name), lambda _: None)

    async def stop(self) -> None:
        """Cancel pending requests and elections."""
        await end_tasks(self._tasks)

    async def _answered(self, opened: Open, then: Callable[[SetDecision], object]) -> None:
        try:
            decision = await self._decide(opened)
        except LeadershipLost:
            decision = SetDecision(codes.CONTROLLER_NOT_LEADER, "The controller is not in leader state")
        except LocalError as error:
            decision = SetDecision(codes.SYSTEM_ERROR, f"the decision may not be kept: {error}")
        except BolideError as error:
            decision = SetDecision(codes.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        except Exception as error:  # the only boundary: an internal error becomes an error response, not a crash
            log.exception("a decision about %s failed", opened.name)
            decision = SetDecision(codes.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        then(decision)

    async def _elect(self, name: str) -> None:
        try:
            for _ in range(self._controller.settings.options.elect_master_max_retry_count):
                try:
                    decision = await self._decide(self._controller.election(name))
                except StoreUnavailable as error:
                    log.warning("the election of a master of %s is not kept: %s", name, error)
                    continue
                except LeadershipLost:
                    return
                after = decision.after
                if after is not None and after.master is not None:
                    log.info("%s: %d is master of epoch %d", name, after.master, after.master_epoch)
                elif after is not None and decision.waits is None:
                    log.warning("%s has no master: %s", name, decision.remark)
                return
        finally:
            self._electing.pop(name, None)

    async def _decide(self, opened: Open) -> SetDecision:
        """Make and store one decision. Raises `StoreUnavailable` if it may not be stored, `LeadershipLost` if another
        controller may decide."""
        controller = self._controller
        lock, waiting = self._under_way.get(opened.name, (asyncio.Lock(), 0))
        self._under_way[opened.name] = (lock, waiting + 1)
        try:
            async with lock:
                if not controller.leads:
                    raise LeadershipLost("another controller leads")
                found = controller.sets.get(opened.name)
                decision = opened.decide(None if found is None else found.value, self._clock.now())
                if decision.after is not None:
                    revision = await self._store.change(decision.after, 0 if found is None else found.revision)
                    controller.kept(decision, revision, self._clock.now())
        finally:
            lock, waiting = self._under_way[opened.name]
            if waiting == 1:
                del self._under_way[opened.name]
            else:
                self._under_way[opened.name] = (lock, waiting - 1)
        if said := controller.decided(opened, decision, self._clock.now()):
            log.warning("%s has no master: %s", opened.name, said)
        if decision.after is not None:
            self._changed()
        return decision

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a decision failed", exc_info=error)
