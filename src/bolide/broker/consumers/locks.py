"""Queue locks of orderly consumption: LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42).

A lock names the client of a group that consumes a queue in order. Locks are kept in memory only and expire after 60 s
without renewal. So a crashed client releases its queues a minute later, and a restart of the broker releases all queues
immediately (RocketMQ's RebalanceLockManager). Both requests always succeed; queues without a lock are omitted from the
response.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.request_limits import MAX_LOCKED_QUEUES, check_body, check_listed
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, decode_body, encode_body
from bolide.remoting.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from bolide.remoting.command import Command, make_response
from bolide.remoting.request_access import LOCKS
from bolide.remoting.request_routes import Kind, RawRoute

LOCK_EXPIRY_MS: Final = 60_000
MAX_NAME: Final = 1024
"""Maximum characters of a group, client, topic or broker name. Real ones have at most a quarter of that."""


class QueueLocks:
    """Queue locks of orderly consumers, by group."""

    def __init__(self, expiry_ms: int = LOCK_EXPIRY_MS, most: int = 200_000) -> None:
        self._expiry_ms = expiry_ms
        self._most = most
        self._count = 0
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(self, group: str, client_id: str, queues: list[MessageQueue], now: int) -> list[MessageQueue]:
        """Acquire or renew the locks of a client. Return its locked queues without duplicates, in the order of the
        request.

        A lock above the limit is not granted, as if another client held it. Locks with a name longer than any client's
        are not granted either.
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
        """Release locks. Locks of other clients are not affected."""
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
        """Return whether the group holds an unexpired lock, so it consumes in order (5.x then sends to the DLQ)."""
        held = self._groups.get(group)
        return held is not None and any(now - locked_at <= self._expiry_ms for _, locked_at in held.values())

    def drop_expired(self, now: int) -> None:
        """Remove expired locks, so that inactive groups do not occupy memory."""
        for group in list(self._groups):
            held = self._groups[group]
            for queue in [q for q, (_, locked_at) in held.items() if now - locked_at > self._expiry_ms]:
                del held[queue]
                self._count -= 1
            if not held:
                del self._groups[group]

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._most = options.consumers.max_queue_locks


class LockService(Service):
    """Serves the two lock requests over one table."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks
        self._next_sweep = 0

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._locks.configure(options)

    def routes(self) -> Routes:
        return [
            RawRoute(codes.LOCK_BATCH_MQ, None, self.on_lock, Kind.SESSION, durable=False, access=LOCKS),
            RawRoute(codes.UNLOCK_BATCH_MQ, None, self.on_unlock, Kind.SESSION, durable=False, access=LOCKS),
        ]

    def on_lock(self, channel: Channel, command: Command, now: int) -> Outcome:
        check_body(command)
        body = decode_body(command.body, LockBatchRequestBody)
        check_listed(command, len(body.mq_set), MAX_LOCKED_QUEUES, "queues")
        granted = self._locks.lock(body.consumer_group, body.client_id, body.mq_set, now)
        return reply(make_response(command, codes.SUCCESS, body=encode_body(LockBatchResponseBody(granted))))

    def on_unlock(self, channel: Channel, command: Command, now: int) -> Outcome:
        check_body(command)
        body = decode_body(command.body, UnlockBatchRequestBody)
        check_listed(command, len(body.mq_set), MAX_LOCKED_QUEUES, "queues")
        self._locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        return reply(make_response(command, codes.SUCCESS))

    def due(self, now: int) -> int | None:
        return self._next_sweep

    def tick(self, now: int, budget: int) -> None:
        self._locks.drop_expired(now)
        self._next_sweep = now + LOCK_EXPIRY_MS
