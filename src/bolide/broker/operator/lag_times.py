"""The lag of groups in time: the age of the first message that a group has not consumed, for `/metrics`.

RocketMQ's ConsumerLagCalculator reads the disk at each scrape. Here a round over all groups starts every ten seconds. A
step between two turns of the loop reads the records that are in memory. The pool loads the others, and the next step
reads them. A queue whose committed offset has not moved since the last round is not read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bolide.broker.core.effects import Effects
from bolide.broker.core.service import Service
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.store.disk.files import FileFailed
from bolide.store.disk.reads import ColdRead, Fetched
from bolide.store.message_store import MessageStore

ROUND_MS: Final = 10_000
QUEUES_AT_ONCE: Final = 500
"""Number of queues checked in one step."""
READS_AT_ONCE: Final = 50
"""Number of messages read in one step: less than a millisecond."""
TRIES: Final = 3
"""Maximum loads per step. Records that have left memory again have no age until the next round."""


class Oldest(NamedTuple):
    """The first message of a queue that a group has not consumed."""

    queue_offset: int
    stored: int
    """Store time, ms."""


class _Row(NamedTuple):
    topic: str
    group: str
    queue_id: int
    queue_offset: int


Ages = dict[tuple[str, str], dict[int, Oldest]]


class LagTimes(Service):
    """Keeps the store times of the first messages that groups have not consumed."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets, effects: Effects, now: int) -> None:
        self._store = store
        self._offsets = offsets
        self._effects = effects
        self._found: Ages = {}
        """Ages of the last complete round."""
        self._round: Ages = {}
        self._rows: Iterator[_Row | None] | None = None
        self._missed: list[_Row] = []
        self._tries = 0
        self._loading = False
        self._next = now

    def age(self, topic: str, group: str, now: int) -> int:
        """Return the age in ms of the oldest message that the group has not consumed, or 0 if it has consumed all.
        Thread-safe."""
        stored = [oldest.stored for oldest in list(self._found.get((topic, group), {}).values())]
        return max(int(self._store.times.wall(now)) - min(stored), 0) if stored else 0

    def forget_topic(self, topic: str) -> None:
        """Drop the ages of a deleted topic."""
        for ages in (self._found, self._round):
            for key in [key for key in ages if key[0] == topic]:
                del ages[key]
        self._missed = [row for row in self._missed if row.topic != topic]

    def due(self, now: int) -> int | None:
        if self._loading:
            return None
        return self._next if self._rows is None and not self._missed else now

    def tick(self, now: int, budget: int) -> None:
        """Do one step of a round, or start the next round."""
        if self._rows is None and not self._missed:
            self._next = now + ROUND_MS
            self._rows = self._lagging()
        rows = self._missed
        if not rows:
            self._tries = 0
            rows = self._next_rows()
        self._read(rows)

    def _next_rows(self) -> list[_Row]:
        """Return the next queues to read; empty at the end of the round."""
        rows: list[_Row] = []
        if self._rows is None:
            return rows
        for _ in range(QUEUES_AT_ONCE):
            try:
                row = next(self._rows)
            except StopIteration:
                self._rows = None
                break
            if row is not None:
                rows.append(row)
                if len(rows) == READS_AT_ONCE:
                    break
        return rows

    def _lagging(self) -> Iterator[_Row | None]:
        """Yield each queue that must be read, and None for every other queue."""
        self._round = {}
        for topic, group in self._offsets.pairs():
            for queue_id, committed in self._offsets.queues(group, topic).items():
                offset = max(committed, int(self._store.min_queue_offset(topic, queue_id)), 0)
                if offset >= self._store.max_queue_offset(topic, queue_id):
                    yield None
                    continue
                known = self._found.get((topic, group), {}).get(queue_id)
                if known is not None and known.queue_offset == offset:
                    self._keep(topic, group, queue_id, known)
                    yield None
                else:
                    yield _Row(topic, group, queue_id, offset)

    def _read(self, rows: list[_Row]) -> None:
        self._missed = []
        reads = self._store.reads
        missing = []
        for row in rows:
            reads.begin(Fetched(), True)
            stored = -1
            try:
                stored = self._store.store_time_at(row.topic, row.queue_id, row.queue_offset)
            except (ColdRead, FileFailed):
                pass  # `end` returns the missing extents; other requests for the record report disk errors
            finally:
                cold = reads.end()
            if cold:
                self._missed.append(row)
                missing += cold
            elif stored > 0:
                self._keep(row.topic, row.group, row.queue_id, Oldest(row.queue_offset, stored))
        if missing and self._tries < TRIES:
            self._tries += 1
            self._loading = True
            self._effects.load(missing, self._loaded)
            return
        self._missed = []
        if self._rows is None:
            self._found = self._round

    def _keep(self, topic: str, group: str, queue_id: int, oldest: Oldest) -> None:
        self._round.setdefault((topic, group), {})[queue_id] = oldest

    def _loaded(self, now: int) -> None:
        self._loading = False
        self._effects.wake(self)
