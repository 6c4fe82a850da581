"""Table of waiting requests by key. It selects the requests to repeat; the node repeats them.

For pulls, this is RocketMQ's PullRequestHoldService (docs/protocol/behaviour.md 1), with one difference: an arrival
wakes pulls immediately, in the turn that stored it. The sweep remains as a safety net, and for pulls whose filter did
not match the arrival.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Key, NewRecords, Waiter
from bolide.store.background.arrival import Arrival

MAX_HELD_PER_CHANNEL: Final = 20_000
LOOKS: Final = 100_000
"""Maximum number of filter checks of waiters per turn: about 20 ms."""
GONE_AT_LEAST: Final = 1_000
"""Minimum number of waiters of closed connections before they are removed; they must also outnumber the held ones."""
LATE_AT_ONCE: Final = 2_000
"""Maximum number of expired waiters removed in one call."""


@final
class WaitTable:
    """Waiters by key. Methods that remove waiters return them in the order of arrival."""

    def __init__(self, limit: int) -> None:
        self.count: int = 0
        self._limit: int = limit
        self._keys: dict[Key, list[Waiter]] = {}
        self._deadlines: list[tuple[int, int, Waiter]] = []
        self._serial: int = 0
        self._gone: int = 0
        """Maximum number of waiters of closed connections in `_keys`. They are not held, and are removed together."""

    def configure(self, limit: int) -> None:
        """Set the maximum number of waiters."""
        self._limit = limit

    def add(self, waiter: Waiter) -> bool:
        """Hold a request. Return False if the limit of the table or of its channel is reached: then respond
        immediately."""
        if self.count >= self._limit or len(waiter.channel.waiters) >= MAX_HELD_PER_CHANNEL:
            return False
        waiting = self._keys.get(waiter.key)
        if waiting is None:
            self._keys[waiter.key] = [waiter]
        else:
            waiting.append(waiter)
        waiter.waiting = True
        waiter.channel.waiters[waiter] = None
        self.count += 1
        self._serial += 1
        heapq.heappush(self._deadlines, (waiter.deadline, self._serial, waiter))
        if len(self._deadlines) > 64 and len(self._deadlines) > 4 * self.count:
            # Waiters woken long before their deadline must not pile up in the heap.
            self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
            heapq.heapify(self._deadlines)
        return True

    def arrived(self, arrivals: list[Arrival]) -> list[Waiter]:
        """Remove and return the waiters that these records wake: records past the waiter's offset that pass its filter.

        If the budget is exceeded, the rest is woken unchecked; those requests apply their filter themselves.
        """
        woken: list[Waiter] = []
        if self.count == 0:
            return woken
        left = LOOKS
        for arrival in arrivals:
            key = (arrival.topic, arrival.queue_id)
            waiting = self._keys.get(key)
            if not waiting:
                continue
            kept: list[Waiter] = []
            for waiter in waiting:
                if not waiter.waiting:
                    continue
                records = waiter.records
                if records is not None and arrival.max_offset > records.offset:
                    left -= records.cost
                    if left < 0 or wanted(records, arrival):
                        self._out(waiter)
                        woken.append(waiter)
                        continue
                kept.append(waiter)
            self._keys[key] = kept
        return woken

    def expired(self, now: int) -> list[Waiter]:
        """Remove and return the waiters whose deadline has passed."""
        late: list[Waiter] = []
        while self._deadlines and self._deadlines[0][0] <= now and len(late) < LATE_AT_ONCE:
            waiter = heapq.heappop(self._deadlines)[2]
            if waiter.waiting:
                self._out(waiter)
                late.append(waiter)
        for key in dict.fromkeys([waiter.key for waiter in late]):
            self._clear(key)  # in one pass, because one key may have many
        return late

    def next_deadline(self) -> int | None:
        """Return when `expired` will have a result (ms since epoch), or None."""
        while self._deadlines and not self._deadlines[0][2].waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def behind(self, max_offset: Callable[[str, int], int]) -> list[Waiter]:
        """Remove and return waiters whose queue has grown past their offset, even if the filter did not match.

        Also drop waiters of closed connections, which no append may ever wake.
        """
        found: list[Waiter] = []
        if self._gone:
            self._clear_all()
        for key, waiting in list(self._keys.items()):
            if not waiting:
                del self._keys[key]
                continue
            end = max_offset(key[0], key[1]) if key[1] >= 0 else 0
            ready = [each for each in waiting if each.records is not None and each.records.offset < end]
            for waiter in ready:
                self._out(waiter)
            if ready:
                self._clear(key)
                found.extend(ready)
        return found

    def release(self, key: Key) -> list[Waiter]:
        """Remove and return all waiters of one key."""
        found = [waiter for waiter in self._keys.pop(key, []) if waiter.waiting]
        for waiter in found:
            self._out(waiter)
        return found

    def drop(self, channel: Channel) -> None:
        """Remove the waiters of a closed connection. The cost depends only on the number of its waiters."""
        mine = list(channel.waiters)
        for waiter in mine:
            self._out(waiter)
        self._gone += len(mine)
        if self._gone > GONE_AT_LEAST and self._gone > self.count:
            self._clear_all()

    def _out(self, waiter: Waiter) -> None:
        waiter.waiting = False
        waiter.channel.waiters.pop(waiter, None)
        self.count -= 1

    def _clear(self, key: Key) -> None:
        """Remove the waiters of this key that are no longer held."""
        self._keys[key] = [waiter for waiter in self._keys[key] if waiter.waiting]

    def _clear_all(self) -> None:
        self._gone = 0
        for key in self._keys:
            self._clear(key)


def wanted(records: NewRecords, arrival: Arrival) -> bool:
    """Return whether the record passes the filter: tags by hash, then the expression on its properties."""
    codes = records.tag_codes
    if codes is not None and arrival.tags_code not in codes:
        return False
    predicate = records.predicate
    return predicate is None or predicate(arrival.properties)
