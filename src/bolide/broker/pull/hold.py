"""Table of held pulls by queue. It selects the pulls to run again; it does not run them.

RocketMQ's PullRequestHoldService (docs/protocol/behaviour.md 1), with one difference: an arrival wakes pulls
immediately, in the turn that stored it. The sweep remains as a safety net, and for pulls whose filter did not match the
arrival.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Final, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import HeldPull
from bolide.store.background.arrival import Arrival

MAX_HELD_PER_CHANNEL: Final = 20_000
LOOKS: Final = 100_000
"""Maximum number of filter checks of held pulls per turn: about 20 ms."""
GONE_AT_LEAST: Final = 1_000
"""Minimum number of pulls of closed connections before they are removed; they must also outnumber the held ones."""
LATE_AT_ONCE: Final = 2_000
"""Maximum number of expired pulls removed in one call."""


@final
class HoldTable:
    """Pulls held by (topic, queue). Methods that remove pulls return them in the order of arrival."""

    def __init__(self, limit: int) -> None:
        self.count: int = 0
        self._limit: int = limit
        self._topics: dict[str, dict[int, list[HeldPull]]] = {}
        self._deadlines: list[tuple[int, int, HeldPull]] = []
        self._serial: int = 0
        self._gone: int = 0
        """Maximum number of pulls of closed connections in `_topics`. They are not held, and are removed together."""

    def configure(self, limit: int) -> None:
        """Set the maximum number of held pulls."""
        self._limit = limit

    def park(self, held: HeldPull) -> bool:
        """Hold a pull. Return False if the limit of the table or of its channel is reached: then respond
        immediately."""
        if self.count >= self._limit or held.channel.held >= MAX_HELD_PER_CHANNEL:
            return False
        queues = self._topics.get(held.topic)
        if queues is None:
            queues = {}
            self._topics[held.topic] = queues
        waiting = queues.get(held.queue_id)
        if waiting is None:
            queues[held.queue_id] = [held]
        else:
            waiting.append(held)
        held.waiting = True
        held.channel.held += 1
        held.channel.pulls[held] = None
        self.count += 1
        self._serial += 1
        heapq.heappush(self._deadlines, (held.deadline, self._serial, held))
        if len(self._deadlines) > 64 and len(self._deadlines) > 4 * self.count:
            # Pulls woken long before their deadline must not pile up in the heap.
            self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
            heapq.heapify(self._deadlines)
        return True

    def arrived(self, arrivals: list[Arrival]) -> list[HeldPull]:
        """Remove and return the pulls that these records wake: records past the pull's offset that pass its filter.

        If the budget is exceeded, the rest is woken unchecked; those pulls apply their filter themselves.
        """
        woken: list[HeldPull] = []
        if self.count == 0:
            return woken
        left = LOOKS
        for arrival in arrivals:
            queues = self._topics.get(arrival.topic)
            if queues is None:
                continue
            waiting = queues.get(arrival.queue_id)
            if not waiting:
                continue
            kept: list[HeldPull] = []
            for held in waiting:
                if not held.waiting:
                    continue
                if arrival.max_offset > held.offset:
                    left -= held.cost
                    if left < 0 or wanted(held, arrival):
                        self._out(held)
                        woken.append(held)
                        continue
                kept.append(held)
            queues[arrival.queue_id] = kept
        return woken

    def expired(self, now: int) -> list[HeldPull]:
        """Remove and return the pulls whose deadline has passed."""
        late: list[HeldPull] = []
        while self._deadlines and self._deadlines[0][0] <= now and len(late) < LATE_AT_ONCE:
            held = heapq.heappop(self._deadlines)[2]
            if held.waiting:
                self._out(held)
                late.append(held)
        if late:
            self._clear(dict.fromkeys((held.topic, held.queue_id) for held in late))
        return late

    def next_deadline(self) -> int | None:
        """Return when `expired` will have a result (ms since epoch), or None."""
        while self._deadlines and not self._deadlines[0][2].waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def behind(self, max_offset: Callable[[str, int], int]) -> list[HeldPull]:
        """Remove and return held pulls whose queue has grown past their offset, even if the filter did not match.

        Also drop pulls of closed connections, which no append may ever wake.
        """
        found: list[HeldPull] = []
        gone = self._gone > 0
        self._gone = 0
        for topic, queues in list(self._topics.items()):
            for queue_id, waiting in list(queues.items()):
                if gone:
                    waiting = [held for held in waiting if held.waiting]
                    queues[queue_id] = waiting
                if waiting:
                    end = max_offset(topic, queue_id)
                    if any(held.offset < end for held in waiting):
                        ready = [held for held in waiting if held.offset < end and held.waiting]
                        queues[queue_id] = [held for held in waiting if held.offset >= end]
                        for held in ready:
                            self._out(held)
                        found.extend(ready)
                else:
                    del queues[queue_id]
            if not queues:
                del self._topics[topic]
        return found

    def release(self, topic: str, queue_id: int) -> list[HeldPull]:
        """Remove and return all pulls held on one queue."""
        queues = self._topics.get(topic)
        if queues is None:
            return []
        found = [held for held in queues.pop(queue_id, []) if held.waiting]
        for held in found:
            self._out(held)
        return found

    def drop(self, channel: Channel) -> None:
        """Remove the pulls of a closed connection. The cost depends only on the number of its pulls."""
        mine = list(channel.pulls)
        for held in mine:
            self._out(held)
        self._gone += len(mine)
        if self._gone > GONE_AT_LEAST and self._gone > self.count:
            self._gone = 0
            for queues in self._topics.values():
                for queue_id, waiting in queues.items():
                    queues[queue_id] = [held for held in waiting if held.waiting]

    def _out(self, held: HeldPull) -> None:
        held.waiting = False
        held.channel.held -= 1
        held.channel.pulls.pop(held, None)
        self.count -= 1

    def _clear(self, places: Iterable[tuple[str, int]]) -> None:
        """Remove pulls that are no longer held from these queues, in one pass, because one queue may have many."""
        for topic, queue_id in places:
            queues = self._topics[topic]
            queues[queue_id] = [held for held in queues[queue_id] if held.waiting]


def wanted(held: HeldPull, arrival: Arrival) -> bool:
    """Return whether the record passes the pull's filter: tags by hash, then the expression on its properties."""
    codes = held.tag_codes
    if codes is not None and arrival.tags_code not in codes:
        return False
    predicate = held.predicate
    return predicate is None or predicate(arrival.properties)
