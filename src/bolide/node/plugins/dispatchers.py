"""Dispatcher plug-ins: each processes every record of the log in order, in a dedicated thread.

Like RocketMQ's CommitLogDispatcher, with a rule that Java leaves open: a dispatcher never blocks the broker. It
receives confirmed records. Its progress is stored in config/dispatcherProgress.json, so after a restart it receives the
records since the last write of that file again (at least once). A call that raises is repeated from the same record,
after pauses that grow from 1 s to 1 min. Records for a slow dispatcher are not queued in memory: it reads the log when
it is ready. If retention deletes records before that, they are skipped and logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from librt.strings import read_i32_be

from bolide.broker.core.effects import Effects
from bolide.broker.core.service import Table
from bolide.layout.record import BAD_SIZED, BLANK_MAGIC, BLANK_SIZE, GOOD, Record, check_record, decode_record
from bolide.store.background.arrival import Arrival
from bolide.store.message_store import MessageStore
from bolide.world.contract import Worker

log = logging.getLogger("bolide.dispatchers")
CHUNK: Final = 256 * 1024
"""Bytes of the log per call. A longer record is passed alone."""
PERSIST_INTERVAL_MS: Final = 5000
FIRST_PAUSE_MS: Final = 1000
LONGEST_PAUSE_MS: Final = 60_000
NO_LIMIT: Final = 1 << 62
STOP_S: Final = 2.0
"""Maximum time that the stop of a broker waits for a running call."""


class Dispatcher(Protocol):
    """A plug-in that processes the records of the log. Its entry point is called with the broker's settings, as a
    mapping of Java keys to texts, and returns it.

    Two attributes are optional. `from_first`: if true, a dispatcher without progress starts at the oldest record of the
    log instead of the next one. `close()`: called in the dispatcher's thread when the broker stops.
    """

    def dispatch(self, records: Sequence[Record]) -> None:
        """Process these records, which are consecutive in the log. If this raises, the same records are passed
        again."""


class Batch:
    """The complete records at the start of a byte range of the log, and the physical offset to continue at."""

    def __init__(self, records: list[Record], end: int, wanted: int = 0) -> None:
        self.records = records
        self.end = end
        self.wanted = wanted
        """Size of the record at `end` if it is longer than the data, otherwise 0."""


def cut(data: bytes, at: int, segment_size: int) -> Batch:
    """Return the records in `data`, read at physical offset `at`. Skips the ranges that dispatch skipped."""
    records: list[Record] = []
    place = 0
    segment_end = at - at % segment_size + segment_size
    while place < len(data):
        checked = check_record(data, place, len(data), False)
        if checked.status == GOOD:
            records.append(decode_record(data, place))
        elif checked.status != BAD_SIZED:
            break
        place += int(checked.size)
    left = len(data) - place
    if left >= BLANK_SIZE and read_i32_be(data, place + 4) == BLANK_MAGIC:
        return Batch(records, segment_end)
    wanted = int(read_i32_be(data, place)) if not records and left >= 4 else 0
    return Batch(records, at + place, wanted if wanted > left else 0)


class Feed:
    """One dispatcher with its thread and its progress."""

    def __init__(
        self,
        name: str,
        dispatcher: Dispatcher,
        worker: Worker,
        told: Callable[[Feed, Batch, str], None],
        only: frozenset[str] | None = None,
    ) -> None:
        self.name = name
        self.only = only
        """Topics whose records the dispatcher receives, or None for all topics. Replaced as a whole, because the thread
        reads it."""
        self.offset = -1
        """End offset of the processed records in the log, or -1 without progress."""
        self.limit = NO_LIMIT
        """End of the log if it was truncated after the records of the current call were read, otherwise NO_LIMIT."""
        self.busy = False
        self.want = CHUNK
        self.not_before = 0
        self.failures = 0
        self.problem = ""
        self._dispatcher = dispatcher
        self._told = told
        self._worker = worker
        self._stopped = False

    @property
    def from_first(self) -> bool:
        """Whether the dispatcher also receives records stored before it was first configured."""
        return bool(getattr(self._dispatcher, "from_first", False))

    def give(self, data: bytes, at: int, segment_size: int) -> None:
        """Pass bytes of the log to the thread, which then calls `told` with the result."""
        self.busy, self.limit = True, NO_LIMIT
        self._worker.give(partial(self._hand_over, data, at, segment_size))

    def stop(self) -> None:
        """End the thread after the current call, without waiting longer than STOP_S."""
        if not self._stopped:
            self._stopped = True
            self._worker.give(self._close)
        if not self._worker.stop(STOP_S):
            log.warning(
                "the dispatcher %s is still running: it receives its last records again after the next start", self.name
            )

    def _hand_over(self, data: bytes, at: int, segment_size: int) -> None:
        batch, error = Batch([], at), ""
        try:
            batch = cut(data, at, segment_size)
            only = self.only
            records = batch.records if only is None else [r for r in batch.records if r.topic in only]
            if records:
                self._dispatcher.dispatch(records)
        except Exception as raised:  # plug-in code may raise anything: the records are repeated
            error = f"{type(raised).__name__}: {raised}"
        self._told(self, batch, error)

    def _close(self) -> None:
        close = getattr(self._dispatcher, "close", None)
        if close is not None:
            try:
                close()
            except Exception as raised:  # the broker is stopping, so the error is only logged
                log.warning("closing the dispatcher %s failed: %s", self.name, raised)


class Dispatchers(Table):
    """Service that passes new records to all dispatchers of one broker."""

    def __init__(
        self,
        made: Mapping[str, Dispatcher],
        store: MessageStore,
        effects: Effects,
        soon: Callable[..., object],
        another_turn: Callable[[], None],
        clock: Callable[[], int],
        worker: Callable[[str], Worker],
    ) -> None:
        """`soon` calls on the loop from any thread; `worker` creates a thread with this name."""
        super().__init__("dispatcherProgress")
        self._store = store
        self._effects = effects
        self._soon = soon
        self._another_turn = another_turn
        self._clock = clock
        self._worker = worker
        self._kept: dict[str, int] = {}
        self._next_persist = 0
        self._dirty = False
        self._stopped = False
        self.feeds: list[Feed] = []
        store.on_taken_back.append(self._taken_back)
        try:
            for name, dispatcher in made.items():
                self.feeds.append(Feed(name, dispatcher, self._thread_of(name), self._told))
        except BaseException:
            self.stop()  # stop the threads created before the failure
            raise

    # ---- called by the node

    def has(self, name: str) -> bool:
        """Return whether a dispatcher has this name."""
        return any(feed.name == name for feed in self.feeds)

    def add(self, name: str, dispatcher: Dispatcher) -> None:
        """Add a dispatcher. It receives no records until a topic selects it."""
        feed = Feed(name, dispatcher, self._thread_of(name), self._told, frozenset())
        feed.offset = self._kept.get(name, -1)
        self.feeds.append(feed)

    def choose(self, topics: Mapping[str, Collection[str]]) -> None:
        """Set the topics of each dispatcher. Dispatchers in the settings receive every topic."""
        for feed in self.feeds:
            if feed.only is not None:
                feed.only = frozenset(topics.get(feed.name, ()))
        self._effects.wake(self)

    def arrived(self, arrivals: list[Arrival], now: int) -> None:
        """Pass newly dispatched records to idle dispatchers."""
        for feed in self.feeds:
            self._feed(feed, now)

    def due(self, now: int) -> int | None:
        """Return when to write progress or to pass records: now, or after the pause of a failed call."""
        end = int(self._store.dispatched_offset)
        times = [max(feed.not_before, now) for feed in self.feeds if not feed.busy and feed.offset != end]
        times += [now] if any(feed.offset < 0 for feed in self.feeds) else []
        if self._dirty:
            times.append(self._next_persist)
        return min(times, default=None)

    def tick(self, now: int, budget: int) -> None:
        for feed in self.feeds:
            self._feed(feed, now)
        if self._dirty and now >= self._next_persist:
            self._dirty = False
            self._next_persist = now + PERSIST_INTERVAL_MS
            self._effects.persist(self.persist_name)

    def encode(self) -> bytes:
        """Encode the progress of each dispatcher. Progress of a dispatcher that is no longer configured is kept."""
        self._kept.update({feed.name: feed.offset for feed in self.feeds if feed.offset >= 0})
        if not self._kept:
            return b""  # a broker without dispatchers has no such file
        return json.dumps({"progress": self._kept}, indent=2, sort_keys=True).encode()

    def load(self, data: bytes) -> None:
        """Load the file."""
        stored: Any = json.loads(data)
        self._kept = {str(name): int(offset) for name, offset in stored["progress"].items()}
        for feed in self.feeds:
            feed.offset = self._kept.get(feed.name, -1)

    def stop(self) -> None:
        """Stop all threads. Blocks, so do not call it on the event loop."""
        self._stopped = True
        for feed in self.feeds:
            feed.stop()

    # ---- inside

    def _thread_of(self, name: str) -> Worker:
        return self._worker(f"bolide-dispatcher-{name}")

    def _feed(self, feed: Feed, now: int) -> None:
        store = self._store
        if feed.busy or now < feed.not_before or self._stopped:
            return
        end, first = int(store.dispatched_offset), int(store.min_physical_offset())
        if feed.only is not None and not feed.only and feed.offset >= 0:
            feed.offset = end  # no topic selects it, so it has no records to process
        elif feed.offset < 0:
            feed.offset = first if feed.from_first else end
            self._changed(now)
        elif feed.offset > end:
            # A power failure with ASYNC_FLUSH, or a truncation just before a crash, has removed confirmed records.
            log.warning(
                "the dispatcher %s was at %d, past the end %d of the log: continuing there", feed.name, feed.offset, end
            )
            feed.offset = end
            self._changed(now)
        elif feed.offset < first:
            log.warning("the dispatcher %s missed %d bytes: the log was deleted", feed.name, first - feed.offset)
            feed.offset = first
        if feed.offset < end:
            self._give(feed, end)

    def _give(self, feed: Feed, end: int) -> None:
        segments = self._store.log.segments
        at, size = feed.offset, int(segments.segment_size)
        room = min(feed.want, end - at, size - at % size)
        data = segments.read_warm(at, room)
        if data is not None:
            feed.give(data, at, size)
            return
        feed.busy = True  # until the bytes are in memory

        def loaded(now: int) -> None:
            feed.busy = False
            self._feed(feed, now)

        self._effects.load([segments.extent(at, room)], loaded)

    def _told(self, feed: Feed, batch: Batch, error: str) -> None:
        """Called in the feed's thread."""
        try:
            self._soon(self._taken, feed, batch, error)
        except RuntimeError:
            return  # the loop is closed: only progress that was written counts

    def _taken(self, feed: Feed, batch: Batch, error: str) -> None:
        now = self._clock()
        feed.busy = False
        if error:
            feed.failures += 1
            feed.not_before = now + min(FIRST_PAUSE_MS << min(feed.failures - 1, 10), LONGEST_PAUSE_MS)
            if error != feed.problem:  # one line for each new reason
                log.error("the dispatcher %s failed at offset %d of the log: %s", feed.name, feed.offset, error)
            feed.problem = error
        else:
            if feed.failures:
                log.info("the dispatcher %s continues after %d failed calls", feed.name, feed.failures)
            feed.failures, feed.problem = 0, ""
            self._advance(feed, batch, now)
        self._feed(feed, now)
        self._effects.wake(self)
        self._another_turn()

    def _advance(self, feed: Feed, batch: Batch, now: int) -> None:
        before, feed.want = feed.offset, CHUNK
        if batch.end > feed.offset:
            feed.offset = batch.end
        elif 0 < batch.wanted <= self._store.dispatched_offset - feed.offset:
            feed.want = batch.wanted
        else:
            # No record starts here, and dispatch has skipped the rest of the file, so skip it as well.
            size = int(self._store.log.segments.segment_size)
            feed.offset = min(feed.offset - feed.offset % size + size, int(self._store.dispatched_offset))
        feed.offset = min(feed.offset, feed.limit)
        if feed.offset != before:
            self._changed(now)

    def _taken_back(self, end: int) -> None:
        """Called when the log was truncated to `end`, in any thread, or after a failed write. New records get the
        offsets of processed ones, so the dispatchers receive them as well."""
        kept = {name: min(offset, end) for name, offset in self._kept.items()}
        lost = kept != self._kept or any(feed.offset > end for feed in self.feeds)
        self._kept = kept
        for feed in self.feeds:
            feed.limit = end  # first, because the loop may be about to advance a feed
            feed.offset = min(feed.offset, end)
        if lost:  # write soon: a start after a crash would find a longer log and accept the old offsets
            self._next_persist, self._dirty = 0, True

    def _changed(self, now: int) -> None:
        if not self._dirty:
            self._dirty = True
            self._next_persist = max(self._next_persist, now + PERSIST_INTERVAL_MS)
