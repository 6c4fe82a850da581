"""Held pulls: a table of who waits at which queue, and for what. It decides who is to run again; it runs nothing.

RocketMQ's PullRequestHoldService (docs/protocol/behaviour.md 1), with one difference: an arrival wakes at
once, in the turn that stored it. The sweep stays as a safety net, and for pulls whose filter did not match the arrival.
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
"""Most filter checks of held pulls that the records of one turn may cause: some 20 ms."""
GONE_AT_LEAST: Final = 1_000
"""Pulls of closed connections are cleared out when they are so many, and more than those that wait."""
LATE_AT_ONCE: Final = 2_000
"""Pulls that have reached their deadline are taken out so many at a time."""


@final
class HoldTable:
    """Pulls parked by (topic, queue). Every method that takes pulls out returns them in the order they came."""

    def __init__(self, limit: int) -> None:
        self.count: int = 0
        self._limit: int = limit
        self._topics: dict[str, dict[int, list[HeldPull]]] = {}
        self._deadlines: list[tuple[int, int, HeldPull]] = []
        self._serial: int = 0
        self._gone: int = 0
        """Pulls of closed connections among `_topics`, at most; they wait no more, and are cleared out together."""

    def configure(self, limit: int) -> None:
        """Hold at most this many from now on."""
        self._limit = limit

    def park(self, held: HeldPull) -> bool:
        """Keep this pull; False when the table, or its channel's share of it, is full: answer it now instead."""
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
        """Take out the pulls these records wake: newer than the pull's offset and passing its filter.

        Beyond the budget the rest is woken unchecked; those pulls apply their filter themselves.
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
        """Take out the pulls whose deadline has come."""
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
        """When `expired` has something to give (ms since epoch), or None."""
        while self._deadlines and not self._deadlines[0][2].waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def behind(self, max_offset: Callable[[str, int], int]) -> list[HeldPull]:
        """The sweep: take out every pull whose queue has grown past it, whether or not its filter matched.

        What closed connections left is cleared out on the way: nothing may ever arrive in its queue.
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
        """Take out everything held on one queue, whatever it waits for."""
        queues = self._topics.get(topic)
        if queues is None:
            return []
        found = [held for held in queues.pop(queue_id, []) if held.waiting]
        for held in found:
            self._out(held)
        return found

    def drop(self, channel: Channel) -> None:
        """Forget the pulls of a connection that is gone: as many steps as it has pulls, whatever else is held."""
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
        """Drop from these queues the pulls that no longer wait, all at once: one queue may have many."""
        for topic, queue_id in places:
            queues = self._topics[topic]
            queues[queue_id] = [held for held in queues[queue_id] if held.waiting]


def wanted(held: HeldPull, arrival: Arrival) -> bool:
    """True when the record passes the pull's filter: tags by hash, then the expression on its properties."""
    codes = held.tag_codes
    if codes is not None and arrival.tags_code not in codes:
        return False
    predicate = held.predicate
    return predicate is None or predicate(arrival.properties)
