"""Queue locks of orderly consumption: LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42).

A lock says which client of a group consumes a queue in order. It lives in memory only and expires after 60 s without
a refresh, so a crash of the client frees the queue a minute later and a restart of the broker at once
(RocketMQ's RebalanceLockManager). Both requests always answer success; what was not granted is left out of the set.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.tables.request_limits import MAX_QUEUES, check_body, check_listed
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, decode_body, encode_body
from bolide.remoting.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from bolide.remoting.command import Command, make_response
from bolide.remoting.request_access import LOCKS
from bolide.remoting.request_routes import Kind, RawRoute

LOCK_EXPIRY_MS: Final = 60_000
MAX_NAME: Final = 1024
"""Characters of a group, client, topic or broker; real ones have a quarter of that at most."""


class QueueLocks:
    """Who holds which queue, by group."""

    def __init__(self, expiry_ms: int = LOCK_EXPIRY_MS, most: int = 200_000) -> None:
        self._expiry_ms = expiry_ms
        self._most = most
        self._count = 0
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(self, group: str, client_id: str, queues: list[MessageQueue], now: int) -> list[MessageQueue]:
        """Take or refresh the locks of a client; returns the queues it holds now, in the order asked, each once.

        A lock beyond the limit is not granted, as if another client held it; nor is one with a name no client can have.
        """
        if len(group) > MAX_NAME or len(client_id) > MAX_NAME:
            return []
        held = self._groups.setdefault(group, {})
        granted = []
        for queue in dict.fromkeys(queues):
            owner = held.get(queue)
            if owner is None:
                if self._count >= self._most or len(queue.topic) > MAX_NAME or len(queue.broker_name) > MAX_NAME:
                    continue
                self._count += 1
            if owner is None or owner[0] == client_id or now - owner[1] > self._expiry_ms:
                held[queue] = (client_id, now)
                granted.append(queue)
        if not held:
            del self._groups[group]
        return granted

    def unlock(self, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        """Give up locks; those of other clients stay."""
        held = self._groups.get(group)
        if held is None:
            return
        for queue in queues:
            owner = held.get(queue)
            if owner is not None and owner[0] == client_id:
                del held[queue]
                self._count -= 1
        if not held:
            del self._groups[group]

    def any_locked(self, group: str, now: int) -> bool:
        """True while the group holds a lock that has not expired: it consumes in order (5.x sends to the DLQ then)."""
        held = self._groups.get(group)
        return held is not None and any(now - locked_at <= self._expiry_ms for _, locked_at in held.values())

    def drop_expired(self, now: int) -> None:
        """Forget expired locks, so that groups that went away do not stay in memory."""
        for group in list(self._groups):
            held = self._groups[group]
            for queue in [q for q, (_, locked_at) in held.items() if now - locked_at > self._expiry_ms]:
                del held[queue]
                self._count -= 1
            if not held:
                del self._groups[group]

    def configure(self, options: BrokerOptions) -> None:
        """Take over what may change while the broker runs."""
        self._most = options.consumers.max_queue_locks


class LockService(Service):
    """Serves the two lock requests over one table."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks
        self._next_sweep = 0

    def configure(self, options: BrokerOptions) -> None:
        """Take over what may change while the broker runs."""
        self._locks.configure(options)

    def routes(self) -> Routes:
        return [
            RawRoute(codes.LOCK_BATCH_MQ, None, self.on_lock, Kind.SESSION, durable=False, access=LOCKS),
            RawRoute(codes.UNLOCK_BATCH_MQ, None, self.on_unlock, Kind.SESSION, durable=False, access=LOCKS),
        ]

    def on_lock(self, channel: Channel, command: Command, now: int) -> Outcome:
        check_body(command)
        body = decode_body(command.body, LockBatchRequestBody)
        check_listed(command, len(body.mq_set), MAX_QUEUES, "queues")
        granted = self._locks.lock(body.consumer_group, body.client_id, body.mq_set, now)
        return reply(make_response(command, codes.SUCCESS, body=encode_body(LockBatchResponseBody(granted))))

    def on_unlock(self, channel: Channel, command: Command, now: int) -> Outcome:
        check_body(command)
        body = decode_body(command.body, UnlockBatchRequestBody)
        check_listed(command, len(body.mq_set), MAX_QUEUES, "queues")
        self._locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        return reply(make_response(command, codes.SUCCESS))

    def due(self, now: int) -> int | None:
        return self._next_sweep

    def tick(self, now: int, budget: int) -> None:
        self._locks.drop_expired(now)
        self._next_sweep = now + LOCK_EXPIRY_MS
