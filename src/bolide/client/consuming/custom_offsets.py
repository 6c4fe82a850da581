"""Offsets in a store that the user provides, such as the database that also holds the results of the messages.

The consumer caches the progress in memory, as with the other offset stores. It saves changes every five seconds, on
`commit`, and when a queue is released.
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
    """Stores the offsets of groups; each is the offset of the next message to consume. Both methods may raise."""

    async def load(self, group: str, queue: MessageQueue, /) -> int:
        """Return the stored offset of a queue, or -1 if it is not stored. While this raises, the queue is not read."""

    async def save(self, group: str, offsets: Mapping[MessageQueue, int], /) -> None:
        """Store these offsets. Exceptions are logged, and the next save includes these offsets."""


class CustomOffsets:
    """The progress of one group, stored by an `OffsetStore`."""

    def __init__(self, store: OffsetStore, group: str) -> None:
        self._store = store
        self._group = group
        self._offsets: dict[MessageQueue, int] = {}
        self._saved: dict[MessageQueue, int] = {}
        self._saving = asyncio.Lock()

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set the progress in memory."""
        self._offsets[queue] = offset

    def get(self, queue: MessageQueue) -> int:
        """Return the progress in memory, or -1 if it is not set."""
        return self._offsets.get(queue, -1)

    def forget(self, queue: MessageQueue) -> None:
        """Remove a queue that is no longer held."""
        self._offsets.pop(queue, None)
        self._saved.pop(queue, None)

    def carry(self, queue: MessageQueue) -> int:
        """Return -1: brokers do not store the offsets."""
        return -1

    def carried(self, queue: MessageQueue) -> None:
        """Do nothing."""

    async def load(self, queue: MessageQueue) -> int:
        """Return the stored progress, or -1 if it is not stored. Raises `LocalError` if the store raises, or does not
        return a number."""
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
                " or -1 if no offset is stored"
            )
        return offset

    async def persist(self, queues: Iterable[MessageQueue], wait: bool) -> None:
        """Save the changed progress of these queues. Failures are logged."""
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
                # A queue that was released during the save may be held again later, with another offset in the store.
                self._saved.update((queue, offset) for queue, offset in changed.items() if queue in self._offsets)
            finally:
                leave(token)
