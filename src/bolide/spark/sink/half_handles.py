"""Positions of half messages: what a task returns to the driver, and what the driver keeps of a batch.

A million rows make a million handles, so they are kept as two arrays per queue, with eight bytes each.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from bolide.spark.source.queues import Queue

Packed: TypeAlias = list[tuple[str, str, int, bytes, bytes]]


@dataclass(frozen=True)
class HalfHandle:
    """One half message, and the queue that it enters when it is committed."""

    queue: Queue
    half_offset: int
    """In the half queue of the broker."""
    physical_offset: int
    group: str = ""
    """The producer group it belongs to; empty: that of the batch at hand."""


@dataclass
class Handles:
    """Half messages by the queue that they will enter, in the order in which they were sent."""

    by_queue: dict[Queue, tuple[array[int], array[int]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(halves) for halves, _ in self.by_queue.values())

    def __iter__(self) -> Iterator[HalfHandle]:
        for queue in sorted(self.by_queue, key=lambda queue: (queue.broker, queue)):
            for half_offset, physical_offset in zip(*self.by_queue[queue], strict=True):
                yield HalfHandle(queue, half_offset, physical_offset)

    def add(self, half: HalfHandle) -> None:
        """Take one up."""
        halves, physicals = self.by_queue.setdefault(half.queue, (array("q"), array("q")))
        halves.append(half.half_offset)
        physicals.append(half.physical_offset)

    def update(self, other: Handles) -> None:
        """Append all of another task."""
        for queue, (halves, physicals) in other.by_queue.items():
            mine = self.by_queue.setdefault(queue, (array("q"), array("q")))
            mine[0].extend(halves)
            mine[1].extend(physicals)

    def places(self) -> set[tuple[str, int]]:
        """(broker, physical offset) of each: no two half messages share one."""
        return {(queue.broker, at) for queue, (_, physicals) in self.by_queue.items() for at in physicals}

    def pack(self) -> Packed:
        """Plain values for a file: little-endian on any machine."""
        return [
            (queue.topic, queue.broker, queue.queue_id, _bytes(halves), _bytes(physicals))
            for queue, (halves, physicals) in sorted(self.by_queue.items())
        ]

    @classmethod
    def unpack(cls, packed: Packed) -> Handles:
        """What `pack` made."""
        handles = cls()
        for topic, broker, queue_id, halves, physicals in packed:
            handles.by_queue[Queue(topic, broker, queue_id)] = (_array(halves), _array(physicals))
        return handles


def _bytes(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array("q", numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _array(data: bytes) -> array[int]:
    numbers = array("q")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
