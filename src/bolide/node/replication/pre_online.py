"""Steps of a broker in a set with acting masters before it registers (RocketMQ: BrokerPreOnlineService.java).

A master sends each running slave the address of its log, waits for a limited time until the slave replicates from it,
and copies the offsets that consumers committed there in its absence. With enableRemoteEscape it also copies the slave's
progress of delayed and half messages, which it does not process before. A slave waits until it replicates from the
running master. So clients return to a master only once it has the consumption progress. A slave with a diverging log
never replicates and does not delay the master. (Java's slave replicates any log.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from bolide.broker.operator.following import Following
from bolide.errors import BolideError
from bolide.layout.names import MASTER_ID
from bolide.node.replication.log_address import Asker
from bolide.node.replication.mode import ModeParts, ReplicationMode
from bolide.node.routes.members import Members
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.replication import ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader
from bolide.remoting.json import parse_long
from bolide.transport.address import split_address

RETRY_S: Final = 1.0
LOOK_S: Final = 0.05
TIMEOUT_S: Final = 5.0


class NotReady(BolideError):
    """Another broker of the set is not ready yet."""

    retriable = True


class PreOnline:
    """Startup steps of one broker. `following` applies the progress that was copied from a slave."""

    def __init__(self, around: ModeParts, mode: ReplicationMode, following: Following) -> None:
        options, loop = around.options, around.loop
        self._log = loop.log
        # a slave reconnects after one interval
        self._follows_s = 2 * options.replication.ha_send_heartbeat_interval / 1000
        self._options = options
        self._place = around.place
        self._role = around.role
        self._mode = mode
        self._following = following
        self._asker = Asker(loop.world, loop.tls, options.access.inner_credentials)
        self._world = loop.world
        self._asked: set[int] = set()

    async def run(self, members: Members) -> None:
        """Return once the other brokers of the set are ready. Retries until they are ready or have left the set."""
        said = ""
        while True:
            try:
                await self._prepare(await members.ask())
                return
            except (BolideError, OSError) as error:
                if str(error) != said:
                    said = str(error)
                    self._log.warning("not registered with name servers yet: %s", said)
            await asyncio.sleep(RETRY_S)

    async def _prepare(self, members: dict[int, str]) -> None:
        own = self._role.broker_id
        others = {number: at for number, at in members.items() if number != own and at != self._place.address}
        if not self._role.may_write:
            if MASTER_ID in others:
                await self._join(others[MASTER_ID])
            return
        if self._mode.side is None:
            return
        for number in sorted(others.keys() - self._asked):
            await self._take_back(number, others[number])
            self._asked.add(number)

    async def _join(self, master: str) -> None:
        """Replicate from the running master, unless it serves no log."""
        answer = await self._ask(master, codes.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoRequestHeader().to_ext())
        told = decode_header(answer, ExchangeHAInfoResponseHeader)
        if told.master_ha_address:
            self._mode.master_told(told.master_ha_address)
            if not await self._until(self._mode.follows):
                raise NotReady(f"the master {master} is not followed after {self._follows_s:.0f} s")

    async def _take_back(self, number: int, slave: str) -> None:
        """Connect a slave to this master, and copy the consumption progress from the slave."""
        place = self._place
        told = ExchangeHAInfoRequestHeader(
            master_address=place.address, master_ha_address=place.ha_address, master_flush_offset=0
        )
        await self._ask(slave, codes.EXCHANGE_BROKER_HA_INFO, told.to_ext())
        host = split_address(slave)[0]
        follows = await self._until(lambda: self._mode.followed_by(host))
        if not follows:
            self._log.warning("the slave %d at %s does not follow after %.0f s", number, slave, self._follows_s)
        answer = await self._ask(slave, codes.GET_ALL_CONSUMER_OFFSET, {})
        found: Any = await self._world.in_thread(partial(parse_long, answer.body))
        # A slave with a diverging log has assigned these offsets to other messages.
        delivers = follows and self._options.acting.enable_remote_escape
        self._following.take_back(found, self._world.wall_ms(), transactions=delivers)
        if delivers:
            self._following.take_back_delays((await self._ask(slave, codes.GET_ALL_DELAY_OFFSET, {})).body)

    async def _until(self, holds: Callable[[], bool]) -> bool:
        """Poll `holds` until it is true. Return False after the follow timeout."""
        deadline = self._world.monotonic() + self._follows_s
        while not holds():
            if self._world.monotonic() >= deadline:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    async def _ask(self, address: str, code: int, ext: dict[str, str]) -> Command:
        answer = await self._asker.ask(address, code, ext, TIMEOUT_S)
        if answer.code != codes.SUCCESS:
            raise NotReady(f"{address} rejected {codes.request_name(code)}: {answer.remark}")
        return answer
