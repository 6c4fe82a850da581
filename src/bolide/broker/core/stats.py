"""Counters of one broker since its start, and rates over the last minutes, for runtime info and /metrics.

RocketMQ's BrokerStatsManager and StoreStatsService have many more counters. Its tools read only these.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final, final

from bolide.broker.core.service import Service

SAMPLE_MS: Final = 1_000
"""Sampling interval while counters change, as in StoreStatsService."""
QUIET_MS: Final = 10_000
"""Sampling interval while no counter changes, when more samples add no information."""
WINDOWS_MS: Final = (10_000, 60_000, 600_000)
"""Windows of the reported rates. Samples are kept for the longest window."""
MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
"""Days change at midnight UTC; in Java at midnight in the host's time zone."""
UPPER_MS: Final = (0, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Upper bounds of the counts of durations. No request may block the loop for 50 ms."""
SYNC_US: Final = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
"""Upper bounds for syncs of the log, in microseconds."""
BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Upper bounds for the number of sends completed together."""


EACH_MS: Final = 10
"""Number of counts of sends that cover a single millisecond each."""
PUT_MS: Final[tuple[int, ...]] = (
    *range(EACH_MS),
    *(14, 19, 29, 39, 49, 74, 99, 149, 199, 299, 399, 499, 749, 999, 1499, 1999, 2999, 3999, 4999, 7499, 9999),
)
"""Upper bounds of the counts of sends by duration. They include the bounds of `PUT_TEXTS`."""
PUT_TEXTS: Final = (
    (0, "[<=0ms]"), (9, "[0~10ms]"), (49, "[10~50ms]"), (99, "[50~100ms]"), (199, "[100~200ms]"), (499, "[200~500ms]"),
    (999, "[500ms~1s]"), (1999, "[1~2s]"), (2999, "[2~3s]"), (3999, "[3~4s]"), (4999, "[4~5s]"), (9999, "[5~10s]"),
)  # fmt: skip
"""The last millisecond of each range of putMessageDistributeTime, and Java's name of the range."""


@final
class Sample:
    """Counters at one time (ms since epoch)."""

    def __init__(self, at: int, put: int, found: int, missed: int, transferred: int) -> None:
        self.at: int = at
        self.put: int = put
        self.found: int = found
        self.missed: int = missed
        self.transferred: int = transferred

    def same(self, other: Sample) -> bool:
        """Return whether no counter changed between the two samples."""
        return self.put == other.put and self.found == other.found and self.missed == other.missed


@final
class Tally:
    """Counts of one key: messages, their bytes, and calls."""

    def __init__(self) -> None:
        self.messages: int = 0
        self.size: int = 0
        self.calls: int = 0


def count(tallies: dict[str, Tally], key: str, messages: int, size: int) -> None:
    """Add one call to the tally of a key."""
    tally = tallies.get(key)
    if tally is None:
        tally = Tally()
        tallies[key] = tally
    tally.messages += messages
    tally.size += size
    tally.calls += 1


@final
class Durations:
    """Histogram of durations in milliseconds since the start, or of sizes with other bounds."""

    def __init__(self, bounds: tuple[int, ...] = UPPER_MS) -> None:
        self.bounds: tuple[int, ...] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        """By upper bound. The last count is for values above all bounds."""
        self.longest: int = 0
        self.total: int = 0

    def add(self, took: int) -> None:
        """Count one duration. Negative durations are counted as 0."""
        bounds = self.bounds
        if took <= bounds[0]:
            self.counts[0] += 1
            self.total += max(took, 0)
            return
        at = 1
        while at < len(bounds) and took > bounds[at]:
            at += 1
        self.counts[at] += 1
        self.total += took
        if took > self.longest:
            self.longest = took

    def text(self) -> str:
        """Format like Java's putMessageDistributeTime, with these bounds: `[<=0ms]:5 [0~5ms]:1 ... [1000ms~]:0`."""
        bounds = self.bounds
        shown = [f"[<=0ms]:{self.counts[0]}"]
        for at in range(1, len(bounds)):
            shown.append(f"[{bounds[at - 1]}~{bounds[at]}ms]:{self.counts[at]}")
        shown.append(f"[{bounds[-1]}ms~]:{self.counts[-1]}")
        return " ".join(shown)


@final
class PutTimes:
    """Durations of sends, from the read that received them until their response is sent, in milliseconds."""

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(PUT_MS) + 1)
        """Since the start, by the bounds of `PUT_MS`. The last count is for values above all bounds."""
        self.total_ms: int = 0
        self.longest: int = 0
        self._before: list[int] = list(self.counts)
        self._minute: list[int] | None = None

    def add(self, took: int, sends: int) -> None:
        """Count sends with this duration. Negative durations are counted as 0."""
        if took <= 0:
            self.counts[0] += sends
            return
        self.counts[took if took < EACH_MS else bisect_left(PUT_MS, took)] += sends
        self.total_ms += took * sends
        self.longest = max(self.longest, took)

    def end_minute(self) -> None:
        """Close the current minute: `text` and `percentile` report it until the next call."""
        self._minute = [count - before for count, before in zip(self.counts, self._before, strict=True)]
        self._before = list(self.counts)

    def text(self) -> str:
        """Format the last whole minute like Java's putMessageDistributeTime, or return `null` before the first one."""
        minute = self._minute
        if minute is None:
            return "null"
        shown: list[str] = []
        begin = 0
        for last, name in PUT_TEXTS:
            end = bisect_left(PUT_MS, last) + 1
            shown.append(f"{name}:{sum(minute[begin:end])} ")
            begin = end
        return "".join(shown) + f"[10s~]:{sum(minute[begin:])} "

    def percentile(self, part: float) -> float:
        """Return the duration in ms that this part of the sends in the last whole minute did not exceed, or 0 without
        sends."""
        minute = self._minute or []
        wanted = sum(minute) * part
        seen = 0
        for at, count in enumerate(minute):
            if count and seen + count >= wanted:
                if at == len(PUT_MS):
                    return float(self.longest)
                lower = PUT_MS[at - 1] if at else 0
                return lower + (PUT_MS[at] - lower) * max(wanted - seen, 0.0) / count
            seen += count
        return 0.0


@final
class BrokerStats(Service):
    """Counters, incremented on the hot path. Derived values are computed on request."""

    def __init__(self, now: int) -> None:
        self.boot_timestamp: int = now
        self.put_messages: int = 0
        self.put_bytes: int = 0
        self.put_failed: int = 0
        self.copied_messages: int = 0
        """Messages that a slave dispatched from its master's log. `put_messages` includes them."""
        self.got_messages: int = 0
        self.got_bytes: int = 0
        self.pulls: int = 0
        self.pulls_found: int = 0
        self.pulls_missed: int = 0
        """Reads of a queue without a message: at the first attempt, after a wake-up, or at the deadline."""
        self.pulls_held: int = 0
        self.requests: int = 0
        self.handler_errors: int = 0
        self.bad_frames: int = 0
        self.connections: int = 0
        self.put_times: PutTimes = PutTimes()
        self.batches: Durations = Durations(BATCHES)
        """Number of sends completed together, which shared a write and a sync."""
        self.syncs: Durations = Durations(SYNC_US)
        """Duration of each sync of the log, in microseconds. Counted by the sync thread."""
        self.cold_reads: Durations = Durations()
        """Time that requests waited for records that were not in memory."""
        self.turns: Durations = Durations()
        """Duration of each turn of the loop, from its first read to its last write."""
        self.late_timers: Durations = Durations()
        """Delay of the timer for due work."""
        self.put_yesterday: int = 0
        """Messages since the start, as of yesterday's midnight; `put_morning` as of today's midnight."""
        self.put_morning: int = 0
        self.got_yesterday: int = 0
        self.got_morning: int = 0
        self.topic_puts: dict[str, Tally] = {}
        """Stored messages by topic. Delayed messages are counted for the schedule topic, and again when delivered."""
        self.topic_copies: dict[str, Tally] = {}
        """Messages that a slave dispatched from its master's log, by topic. `topic_puts` excludes them: as in Java, a
        sum over all brokers counts each message once."""
        self.group_gets: dict[str, Tally] = {}
        """Messages returned to consumers, by topic@group."""
        self.disk_waits: dict[str, Tally] = {}
        """Time in ms that pulls waited for the disk, as `messages`, by queueId@topic@group. Counting starts
        with the first pull that waits, because most queues are never read from the disk."""
        self.send_backs: dict[str, Tally] = {}
        """Messages that consumers returned for a retry, by topic@group."""
        self.backward_commits: dict[str, int] = {}
        """Commits that moved an offset back, by group."""
        self._samples: list[Sample] = [Sample(now, 0, 0, 0, 0)]
        self._next: int = now + QUIET_MS
        self._minute: int = now + MINUTE_MS
        self._day: int = now // DAY_MS

    def put(self, messages: int, size: int) -> None:
        """Count stored messages, and their bytes in the log."""
        self.put_messages += messages
        self.put_bytes += size

    def copied(self, topic: str, size: int) -> None:
        """Count a record of the master's log, as RocketMQ's ReputMessageService does on a slave."""
        self.put(1, size)
        self.copied_messages += 1
        count(self.topic_copies, topic, 1, size)

    def got(self, messages: int, size: int) -> None:
        """Count messages returned to consumers, and their bytes."""
        self.got_messages += messages
        self.got_bytes += size

    def due(self, now: int) -> int | None:
        """Return the time of the next sample, which is sooner if a counter has changed since the last one."""
        last = self._samples[len(self._samples) - 1]
        at = self._next if last.same(self._sample(now)) else last.at + SAMPLE_MS
        return min(at, self._minute)

    def tick(self, now: int, budget: int) -> None:
        """Take one sample of the counters."""
        samples = self._samples
        samples.append(self._sample(now))
        oldest = now - WINDOWS_MS[2]
        while len(samples) > 1 and samples[1].at <= oldest:
            del samples[0]
        self._next = now + QUIET_MS
        if now >= self._minute:
            self._minute = now + MINUTE_MS
            self.put_times.end_minute()
        if now // DAY_MS != self._day:
            self._day = now // DAY_MS
            self.new_day()

    def forget_topic(self, topic: str) -> None:
        """Remove the counters of a deleted topic and of its groups, as in Java."""
        self.topic_puts.pop(topic, None)
        self.topic_copies.pop(topic, None)
        for tallies in (self.group_gets, self.send_backs):
            for key in [key for key in tallies if key.startswith(topic + "@")]:
                del tallies[key]
        for key in [key for key in self.disk_waits if key.partition("@")[2].startswith(topic + "@")]:
            del self.disk_waits[key]

    def forget_group(self, group: str) -> None:
        """Remove the counters of a deleted group."""
        self.backward_commits.pop(group, None)
        for tallies in (self.group_gets, self.send_backs, self.disk_waits):
            for key in [key for key in tallies if key.endswith("@" + group)]:
                del tallies[key]

    def rates(self, of: Callable[[Sample], int], now: int) -> list[float]:
        """Return the growth of a counter per second over the last 10, 60 and 600 s, or since the start if that is
        shorter."""
        total = of(self._sample(now))
        found: list[float] = []
        for window in WINDOWS_MS:
            old = self._back(window, now)
            # If there is no sample between the old one and the window, the counters did not change until the window.
            found.append(rate(total - of(old), min(now - old.at, window + SAMPLE_MS)))
        return found

    def new_day(self) -> None:
        """Called at midnight: this morning's totals become yesterday's."""
        self.put_yesterday = self.put_morning
        self.put_morning = self.put_messages
        self.got_yesterday = self.got_morning
        self.got_morning = self.got_messages

    def _sample(self, now: int) -> Sample:
        return Sample(now, self.put_messages, self.pulls_found, self.pulls_missed, self.got_messages)

    def _back(self, window_ms: int, now: int) -> Sample:
        """Return the counters at the start of a window."""
        for sample in reversed(self._samples):
            if now - sample.at >= window_ms:
                return sample
        return self._samples[0]


def rate(count: int, elapsed_ms: int) -> float:
    """Return events per second, or 0 if no time has elapsed."""
    return count * 1000.0 / elapsed_ms if elapsed_ms > 0 else 0.0
