"""Previews a reset of a group's offsets: its effect on each queue, without changing anything."""

from __future__ import annotations

from dataclasses import dataclass

from bolide.admin.client import Admin
from bolide.admin.together import each
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.start_from import StartFrom


@dataclass(frozen=True, slots=True)
class Move:
    """Effect of a reset on one queue: the group's offset before (-1 if not stored) and after, and the queue's end."""

    queue: MessageQueue
    now: int
    then: int
    end: int

    @property
    def skipped(self) -> int:
        """Number of messages that the group will skip."""
        return max(self.then - self.now, 0) if self.now >= 0 else 0

    @property
    def repeated(self) -> int:
        """Number of messages that the group consumes a second time."""
        return max(self.now - self.then, 0)


async def planned_reset(admin: Admin, group: str, topic: str, to: StartFrom) -> list[Move]:
    """Return the effect of `Admin.reset_offset` on each queue, in order. Raises `TopicNotFound`."""

    async def of(queue: MessageQueue) -> Move:
        end = await admin.end_offset(queue)
        if not isinstance(to, str):
            then = await admin.offset_at(queue, to)
        else:
            then = await admin.begin_offset(queue) if to == "first" else end
        return Move(queue, await admin.group_offset(group, queue), then, end)

    return list((await each(sorted((await admin.topic_route(topic)).read_queues()), of)).values())
