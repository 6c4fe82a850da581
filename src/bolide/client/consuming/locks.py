"""Queue locks of orderly groups: a broker lets one client of the group read a queue.

LOCK_BATCH_MQ and UNLOCK_BATCH_MQ, as in RocketMQ's RebalanceImpl. A lock expires at the broker after 60 s. The client
refreshes it every 20 s, and relies on it for 30 s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from bolide.client.consuming.group_member import GroupMember
from bolide.client.consuming.membership import BROADCASTING
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.instance.protocol_json import json_body, json_text, queue_json, queue_of
from bolide.client.messages.errors import ResponseError, refusal_of
from bolide.client.messages.queue import MessageQueue
from bolide.errors import BolideError
from bolide.remoting import codes

log = logging.getLogger("bolide.client")

LOCK_REFRESH: Final = 20.0
LOCK_LIVES: Final = 30.0
LOCK_TIMEOUT: Final = 1.0


class HeldLocks:
    """Acquires, refreshes and releases the locks of one consumer's queues. A broadcasting consumer needs no locks."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    async def lock(self, process_queue: ProcessQueue) -> bool:
        """Request the lock of one queue. Return whether this client holds it. Raises `ResponseError` if the broker
        rejects the group."""
        if self._member.model == BROADCASTING:
            process_queue.locked, process_queue.locked_at = True, asyncio.get_running_loop().time()
            return True
        refusal = await self._lock_at_broker(process_queue.queue.broker_name, [process_queue])
        if refusal is not None:
            raise refusal
        return process_queue.locked

    async def refresh(self) -> None:
        """Request the locks of all orderly queues, with one request per broker. Failures are logged."""
        by_broker: dict[str, list[ProcessQueue]] = {}
        for process_queue in self._member.owned.values():
            if process_queue.orderly:
                by_broker.setdefault(process_queue.queue.broker_name, []).append(process_queue)
        for name, process_queues in by_broker.items():
            await self._lock_at_broker(name, process_queues)

    async def refresh_always(self) -> None:
        """Refresh the locks until the task is cancelled."""
        while True:
            await asyncio.sleep(LOCK_REFRESH)
            if self._member.model != BROADCASTING:
                await self.refresh()

    async def _lock_at_broker(self, broker_name: str, process_queues: list[ProcessQueue]) -> ResponseError | None:
        """Request locks. Logs a failure, and returns it if the broker repeats it until someone fixes its cause."""
        instance = self._member.instance
        address = instance.master_address(broker_name)
        if address is None:
            return None
        queues = [process_queue.queue for process_queue in process_queues]
        try:
            answer = await instance.call(address, codes.LOCK_BATCH_MQ, None, self._body(queues), timeout=LOCK_TIMEOUT)
            held = {queue_of(item) for item in json_body(answer.body).get("lockOKMQSet") or []}
        except BolideError as error:
            instance.troubles.begin(("locks", address), f"locks at {address} are not refreshed", error)
            return refusal_of(error)
        instance.troubles.over(("locks", address))
        now = asyncio.get_running_loop().time()
        for process_queue in process_queues:
            process_queue.locked = process_queue.queue in held
            if process_queue.locked:
                process_queue.locked_at = now
        return None

    async def unlock(self, queue: MessageQueue) -> None:
        """Release a lock, so that the next consumer need not wait for it to expire."""
        if self._member.model == BROADCASTING:
            return
        instance = self._member.instance
        address = instance.master_address(queue.broker_name)
        if address is None:
            return
        try:
            await instance.oneway(address, codes.UNLOCK_BATCH_MQ, None, self._body([queue]))
        except BolideError as error:
            log.info("the lock of %s is left to expire: %s", queue, error)

    def _body(self, queues: Iterable[MessageQueue]) -> bytes:
        return json_text(
            {
                "clientId": self._member.instance.client_id,
                "consumerGroup": self._member.group,
                "mqSet": [queue_json(queue) for queue in queues],
                "onlyThisBroker": False,
            }
        )
