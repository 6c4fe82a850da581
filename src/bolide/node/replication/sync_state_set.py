"""Requests changes of the in-sync set from the controller (ReplicasManager.java, ALTER_SYNC_STATE_SET)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import BolideError
from bolide.node.replication.controllers import Controllers, NoController
from bolide.node.replication.role_taker import RoleTaker
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer, encode_body
from bolide.remoting.bodies.controller import SyncStateSet
from bolide.remoting.headers.controller import AlterSyncStateSetRequestHeader
from bolide.remoting.replica_claims import Claims
from bolide.replication.standing import Standing
from bolide.world.contract import World

FIRST_RETRY_S: Final = 0.2
LINGER_S: Final = 10.0
"""Maximum delay of a request that was sent on an abandoned connection."""
NOT_TAKEN: Final = frozenset(
    {
        codes.SYSTEM_BUSY,
        codes.CONTROLLER_FENCED_MASTER_EPOCH,
        codes.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        codes.CONTROLLER_INVALID_MASTER,
        codes.CONTROLLER_INVALID_REPLICAS,
        codes.CONTROLLER_BROKER_NOT_ALIVE,
    }
)
"""Error codes after which the requested set was certainly not applied. After any other error it may have been: the
controller's engine may have stored it without reporting so, or it already is the current set (2013)."""


async def wait_for(news: asyncio.Event, seconds: float) -> None:
    """Wait until `news` is set, for at most `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return


class SyncStateSetReporter:
    """Reports changes of the set while this broker is the master, and applies the response."""

    def __init__(
        self,
        options: BrokerOptions,
        world: World,
        controllers: Controllers,
        part: RoleTaker,
        standing: Callable[[], Standing],
        notified: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        """`standing()` returns the current state; `notified()` makes the broker query the controller for the master."""
        self._options = options
        self._world = world
        self._controllers = controllers
        self._part = part
        self._standing = standing
        self._notified = notified
        self._log = log
        self._certain_at = 0.0
        """Time until which an abandoned request may still reach the controller."""
        self._news = asyncio.Event()

    def look(self) -> None:
        """Check the set now: a replica may have to join or leave it."""
        self._news.set()

    async def keep(self) -> None:
        """Check the set periodically, and after each `look`. Never returns."""
        said = ""
        while True:
            await wait_for(self._news, self._next_look())
            self._news.clear()
            try:
                refusal = await self.alter()
                if refusal and refusal != said:
                    self._log.info("the controller keeps the set: %s", refusal)
                said = refusal
                if refusal:  # the requested set is unchanged, so do not retry immediately
                    await asyncio.sleep(FIRST_RETRY_S)
            except (BolideError, OSError) as error:
                self._certain_at = self._world.monotonic() + LINGER_S
                if str(error) != said:
                    said = str(error)
                    self._log.warning("requested another in-sync set from the controller: %s", said)
                await asyncio.sleep(FIRST_RETRY_S)

    def _next_look(self) -> float:
        """Return the seconds until the next check of the set without a notification."""
        period = self._options.controlled.check_sync_state_set_period / 1000
        sync_set = self._part.sync_set
        now = self._part.now()
        at = sync_set.again_at(now) if sync_set is not None else -1
        return period if at < 0 else min(period, max((at - now) / 1000, FIRST_RETRY_S))

    async def alter(self) -> str:
        """Request the set that is due. Return the reason if the controller rejects it, else "".

        A request whose response is lost is repeated, because it may still be applied.
        """
        sync_set = self._part.sync_set
        if sync_set is None or not self._standing().leads:
            return ""
        wanted = sync_set.question or sync_set.wanted(self._part.now())
        if wanted is None:
            return ""
        sync_set.asked(wanted)
        self._part.set_changed()
        request = AlterSyncStateSetRequestHeader(
            broker_name=self._options.place.broker_name,
            master_broker_id=self._standing().own_id,
            master_epoch=self._standing().epoch,
            invoke_time=self._world.wall_ms(),
        )
        body = encode_body(SyncStateSet(sorted(wanted), sync_set.set_epoch))
        ext = request.to_ext() | Claims(self._standing().life).to_ext()
        answer = await self._controllers.ask(codes.CONTROLLER_ALTER_SYNC_STATE_SET, ext, body)
        if sync_set is not self._part.sync_set:
            return ""
        refusal = ""
        if answer.code == codes.SUCCESS:
            told = decode_answer(answer.body, SyncStateSet)
            members, before = frozenset(told.sync_state_set), sync_set.members
            for reason in sync_set.answered(members, told.sync_state_set_epoch, self._part.now()):
                self._log.warning("%s", reason)
            self._part.disconnect(before - sync_set.members)  # their reports may be outdated
            self._log.info("in sync are %s", sorted(sync_set.members))
        else:
            self._notified()
            refusal = answer.remark or codes.response_name(answer.code)
            if answer.code not in NOT_TAKEN:
                raise NoController(f"it may have been taken: {refusal}")
            if self._world.monotonic() >= self._certain_at:
                sync_set.refused(self._part.now())
        self._part.set_changed()
        return refusal
