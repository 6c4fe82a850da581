"""Reads the newest messages of a topic, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bolide.admin.client import Admin
from bolide.admin.together import each
from bolide.admin.topics import QueueStats
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage

MOST_SKIPPED: Final = 2_048
"""Maximum number of messages of one millisecond that a page skips. It reads them from each queue."""
QUEUES_AT_ONCE: Final = 4
"""Maximum number of queues to read at the same time, because their messages are in memory."""


@dataclass(frozen=True, slots=True)
class Older:
    """Position of the next older messages: stored before `end` (ms since 1970), without the `skip` newest of these. A
    time alone is not a position, because a broker stores many messages in one millisecond."""

    end: int
    skip: int

    @classmethod
    def after(cls, shown: Sequence[ReceivedMessage]) -> Older:
        """Return the position after the shown messages, which must not be empty and have the newest first."""
        last = shown[-1].store_timestamp
        return cls(last + 1, sum(message.store_timestamp == last for message in shown))

    @property
    def has_page(self) -> bool:
        """Whether a page can start here: `skip` is at most `MOST_SKIPPED`."""
        return self.skip <= MOST_SKIPPED


async def newest_messages(
    admin: Admin, stats: Sequence[QueueStats], *, count: int, begin: int = 0, end: int | None = None, skip: int = 0
) -> tuple[list[ReceivedMessage], Older | None]:
    """Return up to `count` of the newest messages of some queues, newest first, and the position of the older messages
    or None.

    Messages are stored at or after `begin` and before `end`, in ms since 1970; `end` None means now. The first `skip`
    messages are omitted.
    """
    most = count + skip
    written = [queue for queue in stats if queue.end_offset > queue.begin_offset]
    messages: list[ReceivedMessage] = []
    more = False

    async def of_queue(queue: QueueStats) -> None:
        nonlocal more
        first, last = queue.begin_offset, queue.end_offset
        if begin:
            first = max(first, await admin.offset_at(queue.queue, begin))
        if end is not None:
            last = min(last, await admin.offset_at(queue.queue, end))
        messages.extend(
            message
            for message in await _between(admin, queue.queue, max(first, last - most), last)
            if message.store_timestamp >= begin and (end is None or message.store_timestamp < end)
        )
        messages.sort(key=lambda message: (-message.store_timestamp, message.queue, -message.queue_offset))
        more = more or len(messages) > most or last - first > most
        del messages[most:]

    await each(written, of_queue, QUEUES_AT_ONCE)
    shown = messages[skip:]
    return shown, Older.after(messages) if more and shown else None


async def _between(admin: Admin, queue: MessageQueue, first: int, last: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    while first < last:
        some = await admin.messages_at(queue, first, last - first)
        if not some:
            break
        found += [message for message in some if message.queue_offset < last]
        first = some[-1].queue_offset + 1
    return found
