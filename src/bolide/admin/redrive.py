"""Resends all dead letters of a group, without Spark. Brokers store the progress as the offsets of another group.

`bolide pipeline redrive` uses the same offsets and the same locks, so either continues where the other stopped.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from bolide.admin.client import Admin
from bolide.admin.dead_letters import Resent, resend
from bolide.admin.together import each
from bolide.client import Producer
from bolide.client.messages.queue import MessageQueue
from bolide.errors import BolideError, LocalError
from bolide.layout.names import DLQ_PREFIX, REDRIVER
from bolide.remoting import codes
from bolide.remoting.bodies import base
from bolide.remoting.bodies.base import decode_answer, encode_body
from bolide.remoting.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody

SLICE: Final = 32
"""Number of dead letters after which to store the progress. After a kill, up to this many are resent."""
RENEW_S: Final = 5.0
"""Seconds after which to renew the locks. Brokers release them after 60 s by default."""


class RedriveActive(LocalError):
    """Another run resends the dead letters of this group."""


@dataclass(frozen=True, slots=True)
class Redrive:
    """The dead letters to resend: those of `group` that no run with `as_group` has sent, or with `again` all that are
    stored, at most `limit` (0: all that exist now). They go to `topic`, or to the original topic of each."""

    group: str
    topic: str = ""
    limit: int = 0
    as_group: str = REDRIVER
    again: bool = False


@dataclass(frozen=True, slots=True)
class Remaining:
    """The dead letters in one queue. `done` is the offset up to which they have been resent, or -1."""

    queue: MessageQueue
    done: int
    begin_offset: int
    end_offset: int

    @property
    def next_offset(self) -> int:
        """Offset of the first dead letter to resend. It is the oldest one if the topic was created again."""
        return max(self.done, self.begin_offset) if self.done <= self.end_offset else self.begin_offset

    @property
    def count(self) -> int:
        """Number of dead letters to resend."""
        return max(self.end_offset - self.next_offset, 0)

    @property
    def expired(self) -> int:
        """Number of dead letters that the broker deleted before a run resent them."""
        return max(self.begin_offset - self.done, 0) if self.done >= 0 else 0


async def remaining_letters(
    admin: Admin, group: str, as_group: str = REDRIVER, *, again: bool = False
) -> list[Remaining]:
    """Return the dead letters that no run with `as_group` has resent, by queue; with `again`, all that are stored.
    Raises `TopicNotFound` if the group has no dead letters."""
    stats = await admin.topic_stats(DLQ_PREFIX + group)
    done = await each([queue.queue for queue in stats], lambda queue: admin.group_offset(as_group, queue))
    return [
        Remaining(queue.queue, -1 if again else done[queue.queue], queue.begin_offset, queue.end_offset)
        for queue in stats
    ]


async def redrive(
    admin: Admin,
    producer: Producer,
    wanted: Redrive,
    resent: Resent,
    *,
    stopped: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int], None] = lambda total: None,
) -> int:
    """Resend the remaining dead letters of a group, and return their number.

    They are not deleted. The progress is in `resent`, also if this stops early: at the first error, or once `stopped`
    returns True. The next run continues there. `on_progress` is called with the total after each slice. Raises
    `TopicNotFound`, and `RedriveActive` while another run is active.
    """
    group, as_group = wanted.group, wanted.as_group
    queues = [part.queue for part in await remaining_letters(admin, group, as_group)]
    async with _QueueLocks(admin, as_group, queues, group) as locks:
        # Read the progress again: the run that had the locks may have stored it in between.
        left = await remaining_letters(admin, group, as_group, again=wanted.again)
        total = sum(part.count for part in left)
        total = min(total, wanted.limit) if wanted.limit else total
        passed = 0
        for part in left:
            at = part.next_offset
            while at < part.end_offset and passed < total and not resent.interrupted and not resent.error:
                most = min(SLICE, part.end_offset - at, total - passed)
                letters = await admin._messages_as(as_group, part.queue, at, most)
                letters = [letter for letter in letters if letter.queue_offset < part.end_offset]
                if not letters:
                    before, at = at, await admin.begin_offset(part.queue)
                    if at > before:  # the broker has deleted those in between
                        continue
                    break
                done = await resend(
                    producer, letters, resent, topic=wanted.topic, stopped=stopped, before_each=locks.renew_if_due
                )
                if done:
                    passed += done
                    at = letters[done - 1].queue_offset + 1
                    await _store(admin, as_group, part.queue, at, done, resent)
                on_progress(total)
    return total


async def _store(admin: Admin, as_group: str, queue: MessageQueue, offset: int, sent: int, resent: Resent) -> None:
    try:
        await admin.set_group_offset(as_group, queue, offset)
    except BolideError as error:
        resent.error = f"the progress is not stored, so the next run resends {sent} of them again: {error}"


class _QueueLocks:
    """The locks of a group on queues (LOCK_BATCH_MQ), which only one client can have."""

    def __init__(self, admin: Admin, group: str, queues: Iterable[MessageQueue], letters_of: str) -> None:
        self._admin = admin
        self._group = group
        self._letters_of = letters_of
        self._client_id = f"bolide-redrive@{uuid.uuid4().hex}"
        self._queues: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            self._queues.setdefault(queue.broker_name, []).append(queue)
        self._renewed = 0.0

    async def __aenter__(self) -> _QueueLocks:
        await self._acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for queues in self._queues.values():
            body = encode_body(UnlockBatchRequestBody(self._group, self._client_id, _plain(queues)))
            with suppress(BolideError):  # it expires automatically
                await self._admin.ask(await self._admin.master_of(queues[0]), codes.UNLOCK_BATCH_MQ, body=body)

    async def renew_if_due(self) -> None:
        """Renew the locks if they are old. Raises `RedriveActive` if another client has one."""
        if asyncio.get_running_loop().time() - self._renewed >= RENEW_S:
            await self._acquire()

    async def _acquire(self) -> None:
        now = asyncio.get_running_loop().time()
        for queues in self._queues.values():
            body = encode_body(LockBatchRequestBody(self._group, self._client_id, _plain(queues)))
            answer = await self._admin.ask(await self._admin.master_of(queues[0]), codes.LOCK_BATCH_MQ, body=body)
            granted = decode_answer(answer.body, LockBatchResponseBody).lock_ok_mq_set
            if not {queue.queue_id for queue in queues} <= {queue.queue_id for queue in granted}:
                raise RedriveActive(
                    f"another run resends the dead letters of {self._letters_of}, or was killed less than 60 s ago:"
                    " wait for its end and start again"
                )
        self._renewed = now


def _plain(queues: Sequence[MessageQueue]) -> list[base.MessageQueue]:
    return [base.MessageQueue(queue.topic, queue.broker_name, queue.queue_id) for queue in queues]
