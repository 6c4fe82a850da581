"""Positions of half messages, which a task returns to the driver, and which the driver stores for a batch.

A million rows need a million handles, so they are stored in two arrays per queue, with 8 bytes per item.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import TypeAlias

from bolide.spark.source.queues import Queue

Packed: TypeAlias = list[tuple[str, str, int, bytes, bytes]]


@dataclass(frozen=True)
class HalfHandle:
    """A half message, and the queue that it enters when it is committed."""

    queue: Queue
    half_offset: int
    """Offset in the half queue of the broker."""
    physical_offset: int
    group: str = ""
    """Producer group of the half message, or "" for the group of the current batch."""


@dataclass(frozen=True)
class HalfRun:
    """Half messages of the same queue and group, in order."""

    queue: Queue
    half_offsets: array[int]
    physical_offsets: array[int]
    group: str = ""

    def __len__(self) -> int:
        return len(self.half_offsets)

    def handle(self, place: int) -> HalfHandle:
        """Return the half message at an index."""
        return HalfHandle(self.queue, self.half_offsets[place], self.physical_offsets[place], self.group)


@dataclass
class Handles:
    """Half messages by target queue, in the order in which they were sent."""

    by_queue: dict[Queue, tuple[array[int], array[int]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(halves) for halves, _ in self.by_queue.values())

    def __iter__(self) -> Iterator[HalfHandle]:
        for queue in sorted(self.by_queue, key=lambda queue: (queue.broker, queue)):
            for half_offset, physical_offset in zip(*self.by_queue[queue], strict=True):
                yield HalfHandle(queue, half_offset, physical_offset)

    def runs(self, most: int) -> Iterator[HalfRun]:
        """Yield all half messages in the order of iteration, in runs of at most `most`."""
        for queue in sorted(self.by_queue, key=lambda queue: (queue.broker, queue)):
            halves, physicals = self.by_queue[queue]
            for at in range(0, len(halves), most):
                yield HalfRun(queue, halves[at : at + most], physicals[at : at + most])

    def extend(self, queue: Queue, half_offsets: list[int], physical_offsets: list[int]) -> None:
        """Append half messages of a queue."""
        halves, physicals = self.by_queue.setdefault(queue, (array("q"), array("q")))
        halves.extend(half_offsets)
        physicals.extend(physical_offsets)

    def update(self, other: Handles) -> None:
        """Append all half messages of another task."""
        for queue, (halves, physicals) in other.by_queue.items():
            mine = self.by_queue.setdefault(queue, (array("q"), array("q")))
            mine[0].extend(halves)
            mine[1].extend(physicals)

    def places(self) -> set[tuple[str, int]]:
        """Return the unique (broker, physical offset) pairs of all half messages."""
        return {(queue.broker, at) for queue, (_, physicals) in self.by_queue.items() for at in physicals}

    def pack(self) -> Packed:
        """Return serializable values for a file, little-endian on every platform."""
        return [
            (queue.topic, queue.broker, queue.queue_id, _bytes(halves), _bytes(physicals))
            for queue, (halves, physicals) in sorted(self.by_queue.items())
        ]

    @classmethod
    def unpack(cls, packed: Packed) -> Handles:
        """Return the half messages from a result of `pack`."""
        handles = cls()
        for topic, broker, queue_id, halves, physicals in packed:
            handles.by_queue[Queue(topic, broker, queue_id)] = (_array(halves), _array(physicals))
        return handles


def runs_of(halves: Handles | Iterable[HalfHandle], most: int) -> Iterator[HalfRun]:
    """Join neighbours with the same queue and group to runs of at most `most`, without changing the order."""
    if isinstance(halves, Handles):
        yield from halves.runs(most)
        return
    for (queue, group), some in groupby(halves, lambda half: (half.queue, half.group)):
        while run := list(islice(some, most)):
            yield HalfRun(
                queue,
                array("q", [half.half_offset for half in run]),
                array("q", [half.physical_offset for half in run]),
                group,
            )


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
