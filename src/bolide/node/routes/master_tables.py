"""Copies the master's tables to a slave (RocketMQ: SlaveSynchronize.java).

Every ten seconds it requests topics (21), groups (201), offsets (43, 45), request modes (402) and the timer's metrics
(61); every three seconds the timer's progress (60). Masters of 4.9 do not support 402, 60 and 61. Progress is applied
once this broker's log on disk has reached the end of the master's log (`broker/operator/following.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from bolide.access.users import Credentials
from bolide.broker.delay.timer_metrics import UNREADABLE
from bolide.broker.operator.following import Following
from bolide.broker.options.composed import BrokerOptions
from bolide.errors import BolideError
from bolide.layout.timer_checkpoint import TimerCheckpoint, decode_timer_answer
from bolide.node.routes.master_requests import FORBIDDEN, GROUPS, TOPICS, MasterRequests, NotTold
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body
from bolide.remoting.bodies.stats import KVTable
from bolide.remoting.bodies.topics import DELETED_TOPICS, GUESSED_TOPICS
from bolide.transport.tls_contexts import RenewedContext
from bolide.world.contract import World
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.following")
LOOK_S: Final = 3.0
ROUND_S: Final = 10.0


class Deletions(NamedTuple):
    """End offsets of the master's log at which it deleted topics. `gone`: topics that exist here but not on the master,
    which was queried when the local log ended at `asked_at`."""

    marks: dict[str, Any]
    gone: frozenset[str]
    asked_at: int


NO_DELETIONS: Final = Deletions({}, frozenset(), -1)


@dataclass(slots=True)
class MasterProgress:
    """Progress of the master when its log ended at `end`."""

    end: int = -1
    deletions: Deletions = NO_DELETIONS
    offsets: dict[str, Any] | None = None
    delays: bytes = b""
    timer: TimerCheckpoint | None = None


class MasterTables:
    """Copies the tables of the current master."""

    def __init__(
        self,
        following: Following,
        own_address: str,
        log_end: Callable[[], int],
        changed: Callable[[], None],
        tls: RenewedContext | None,
        world: World,
        pauses: tuple[float, float] = (LOOK_S, ROUND_S),
        options: BrokerOptions | None = None,
    ) -> None:
        """`log_end()` returns the durable end of this broker's log, or -1 while the log is not known to be a prefix of
        the master's. `changed()` applies effects of changed tables. `options`: settings of this broker, or None without
        a controller and credentials."""
        self._following = following
        self._own_address = own_address
        self._log_end = log_end
        self._changed = changed
        self._world = world
        credentials = options.access.inner_credentials if options is not None else None
        self._requests = MasterRequests(tls, world, credentials)
        self._look_s, self._round_s = pauses
        self.careful = options is not None and options.controlled.enable_controller_mode
        """Whether to keep topics without messages that the current master never had: a controller may have elected a
        master that had not received them yet."""
        self._seen: set[str] = set()
        """Topics that the current master had."""
        self._topics_known = False
        """Whether the current master has returned its topics, so that the version shows whether they have changed."""
        self._deletions = NO_DELETIONS
        """Topic deletions reported by the current master and not applied yet."""
        self._doubted: set[str] = set()
        """Topics that the master has deleted and did not have at the last request."""
        self._soon = False
        self._master = ""
        self._waiting: MasterProgress | None = None
        self._offsets_due = False
        self._said: dict[str, str] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.rounds = 0
        """Number of complete rounds, in which every request succeeded."""

    @property
    def credentials(self) -> Credentials | None:
        """Credentials for signing requests."""
        return self._requests.credentials

    @credentials.setter
    def credentials(self, credentials: Credentials | None) -> None:
        self._requests.credentials = credentials

    def master_is(self, address: str) -> None:
        """Set the master to copy from, "" if there is none."""
        if address == self._own_address:
            address = ""
        if address == self._master:
            return
        self._master = address
        self._requests.master_is(address)
        self._waiting = None  # belongs to another master's log
        self._seen = set()
        self._topics_known = False
        self._deletions = NO_DELETIONS
        self._doubted = set()
        if address:
            self._following.topics.denied.clear()
        self._said.clear()
        self._woken.set()

    def look_soon(self) -> None:
        """Start a full round immediately, because this broker has data that the master's tables must contain."""
        self._soon = True
        self._woken.set()

    def start(self) -> None:
        """Start, unless it is running. Does not wait. The log may have been truncated since the last stop."""
        if self._task is None:
            self._waiting, self._deletions = None, NO_DELETIONS
            self._task = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Cancel running requests and close all connections."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])
        await self._requests.close()

    async def _keep(self) -> None:
        next_round = 0.0
        connected = ""
        while True:
            master = self._master
            if master != connected:
                await self._requests.close()
                connected, next_round = master, 0.0
            self._woken.clear()
            if master:
                full = self._soon or self._world.monotonic() >= next_round
                self._soon = False
                if full:
                    next_round = self._world.monotonic() + self._round_s
                await self._round(full)
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._look_s):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _round(self, full: bool) -> None:
        """Run one round. A failed request does not prevent the others."""
        good = True
        if full:
            for what, ask in (
                ("its topics", self._topics),
                ("its groups", self._groups),
                ("its request modes", self._modes),
                ("its timer's figures", self._figures),
            ):
                good = await self._try(what, ask) and good
        if self._log_end() >= 0:
            good = await self._try("its progress", partial(self._progress, full)) and good
        else:  # pending progress may belong to a log whose end the master has lost
            self._waiting, self._offsets_due = None, True
        self._changed()
        if full and good:
            self.rounds += 1

    async def _try(self, what: str, ask: Callable[[], Any]) -> bool:
        try:
            await ask()
        except (BolideError, OSError, *UNREADABLE) as error:
            text = f"{type(error).__name__}: {error}"
            if self._said.get(what) != text:  # one line for each new reason, not for every round
                self._said[what] = text
                log.warning("the master %s does not return %s: %s", self._master, what, error)
            return False
        if self._said.pop(what, ""):
            log.info("the master %s returns %s again", self._master, what)
        return True

    # -- tables

    async def _topics(self) -> None:
        topics = self._following.topics
        known = set(topics.table)
        master, asked_at = self._master, self._log_end()
        settled = self._topics_known and not topics.untold and not self._doubted
        own = topics.data_version.to_json() if settled else {}
        told = await self._requests.paged(TOPICS, own)
        if self._master != master:
            return
        if told is None:
            return
        rows = told[TOPICS.rows]
        # A promoted master may lack a topic whose messages are stored here. Java's slave drops such a topic; here its
        # messages would be deleted with it.
        following = self._following
        kept = {
            name
            for name in known
            if name not in rows and name not in self._seen and (self.careful or following.has_messages(name))
        }
        self._seen = set(rows)
        marks = told.get(DELETED_TOPICS, {})
        gone = {name for name in kept if name in marks}
        # A new master may not have found the messages of a recreated topic yet, so wait for the next round.
        self._deletions = Deletions(marks, frozenset(gone & self._doubted), asked_at)
        self._doubted = gone - self._doubted
        steps = following.take_topics(rows, told["dataVersion"], known - kept, told.get(GUESSED_TOPICS, {}))
        self._topics_known = await self._take(steps, "topics")

    async def _groups(self) -> None:
        told = await self._requests.paged(GROUPS, self._following.groups.data_version.to_json())
        if told is not None:
            steps = self._following.take_groups(told[GROUPS.rows], told.get(FORBIDDEN), told["dataVersion"])
            await self._take(steps, "groups")

    async def _modes(self) -> None:
        answer = await self._requests.ask_5x(codes.GET_ALL_MESSAGE_REQUEST_MODE)
        if answer is not None:
            self._following.take_modes(answer.body)

    async def _figures(self) -> None:
        answer = await self._requests.ask_5x(codes.GET_TIMER_METRICS)
        if answer is not None:
            self._following.take_figures(await self._requests.parsed(answer.body))

    async def _take(self, steps: Iterator[None], what: str) -> bool:
        """Run the steps, with turns of the loop between them. Return False if the master changes."""
        master = self._master
        for _ in steps:
            await asyncio.sleep(0)
            if self._master != master:
                return False
        if self._following.left_out:
            raise NotTold(f"{self._following.left_out} {what} of the master exceed the limit here: raise it")
        return True

    # -- progress

    async def _progress(self, full: bool) -> None:
        """Request the master's progress, then the end of its log. The progress is applied once the local log has
        reached that end."""
        self._offsets_due = self._offsets_due or full
        if not await self._taken():
            return
        master = self._master
        found = MasterProgress()
        if self._offsets_due:
            answer = await self._requests.ask(codes.GET_ALL_CONSUMER_OFFSET, {})
            found.offsets = await self._requests.parsed(answer.body)
        timer = await self._requests.ask_5x(codes.GET_TIMER_CHECK_POINT)
        if timer is not None:
            found.timer = decode_timer_answer(timer.body)
        if self._offsets_due or found.timer is not None:
            # After the checkpoint: this table lists the damaged messages that the checkpoint skips.
            found.delays = (await self._requests.ask(codes.GET_ALL_DELAY_OFFSET, {})).body
        if found.offsets is None and found.timer is None:
            return
        runtime = decode_body((await self._requests.ask(codes.GET_BROKER_RUNTIME_INFO, {})).body, KVTable).table
        found.end = int(runtime["commitLogMaxOffset"])
        found.deletions = self._deletions
        if self._master != master:
            return  # the new master may have another log
        self._offsets_due = self._offsets_due and found.offsets is None
        self._waiting = found
        await self._taken()

    async def _taken(self) -> bool:
        """Apply the pending progress of the master once the local log has reached its end offset. Return whether none
        is pending."""
        found = self._waiting
        if found is None:
            return True
        if self._log_end() < found.end:
            return False
        self._waiting = None
        if found.delays:
            self._following.take_delays(found.delays)
        if found.timer is not None:
            self._following.take_timer(found.timer)
        if found.offsets is not None:
            # First: offsets of a deleted topic are removed with its messages.
            deletions = found.deletions
            if self._deletions is not deletions:  # A table returned since then may contain the topic again.
                deletions = deletions._replace(gone=frozenset())
            if not await self._take(self._following.take_deletions(*deletions), "deletions"):
                return False
            if self._deletions is found.deletions:
                self._deletions = NO_DELETIONS
            await self._take(self._following.take_offsets(found.offsets), "offsets")
        return True
