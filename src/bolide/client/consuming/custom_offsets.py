"""Offsets in a store that the user provides, such as the database that also holds the results of the messages.

The consumer keeps the progress in memory, as for its other stores, and saves what has changed every five seconds, on
`commit`, and when a queue is given back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from bolide.client.messages.arguments import plain_number, shown
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.user_code import enter, leave, raise_interruption
from bolide.errors import LocalError, reason

log = logging.getLogger("bolide.client")


class OffsetStore(Protocol):
    """Keeps the offsets of groups; each is the offset of the next message to consume. Both methods may raise."""

    async def load(self, group: str, queue: MessageQueue, /) -> int:
        """The stored offset of a queue, -1 if there is none. While this raises, the queue is not read."""

    async def save(self, group: str, offsets: Mapping[MessageQueue, int], /) -> None:
        """Store these offsets. What this raises is logged, and they are saved again next time."""


class CustomOffsets:
    """The progress of one group, kept by an `OffsetStore`."""

    def __init__(self, store: OffsetStore, group: str) -> None:
        self._store = store
        self._group = group
        self._offsets: dict[MessageQueue, int] = {}
        self._saved: dict[MessageQueue, int] = {}
        self._saving = asyncio.Lock()

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Note progress in memory."""
        self._offsets[queue] = offset

    def get(self, queue: MessageQueue) -> int:
        """The progress in memory; -1 if there is none."""
        return self._offsets.get(queue, -1)

    def forget(self, queue: MessageQueue) -> None:
        """Drop a queue that is no longer ours."""
        self._offsets.pop(queue, None)
        self._saved.pop(queue, None)

    def carry(self, queue: MessageQueue) -> int:
        """Pulls carry no progress: the brokers do not keep it."""
        return -1

    def carried(self, queue: MessageQueue) -> None:
        """Nothing was carried."""

    async def load(self, queue: MessageQueue) -> int:
        """The stored progress; -1 if there is none. Raises `LocalError` if the store raises, or gives no number."""
        token = enter(self._store)
        try:
            loaded = await self._store.load(self._group, queue)
        except BaseException as error:
            raise_interruption(error)
            raise LocalError(
                f"the offset store of {self._group} cannot load the offset of {queue}: {reason(error)}"
            ) from error
        finally:
            leave(token)
        offset = plain_number(loaded)
        if not isinstance(offset, int):
            raise LocalError(
                f"the offset store of {self._group} loaded {shown(loaded)} as the offset of {queue}: return an int,"
                " -1 if there is none"
            )
        return offset

    async def persist(self, queues: Iterable[MessageQueue], wait: bool) -> None:
        """Save the progress of these queues, where it has changed. Failures are logged."""
        async with self._saving:  # an older save must not end after a newer one
            changed = {
                queue: offset
                for queue in queues
                if (offset := self._offsets.get(queue, -1)) >= 0 and self._saved.get(queue) != offset
            }
            if not changed:
                return
            token = enter(self._store)
            try:
                await self._store.save(self._group, changed)
            except BaseException as error:
                raise_interruption(error)
                log.warning(
                    "%d offsets of %s are not stored: %s", len(changed), self._group, reason(error), exc_info=error
                )
            else:
                # A queue that was given back meanwhile may be ours again later, with another offset in the store.
                self._saved.update((queue, offset) for queue, offset in changed.items() if queue in self._offsets)
            finally:
                leave(token)
