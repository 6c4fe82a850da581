"""Counters of one broker since its start, and rates over the last minutes: what runtime info and /metrics show.

RocketMQ's BrokerStatsManager and StoreStatsService keep far more; these are the ones its tools read.
"""

from __future__ import annotations

from typing import Final, final

from bolide.broker.core.service import Service

SAMPLE_MS: Final = 10_000
DAY_MS: Final = 86_400_000
"""Days change at midnight UTC here; in Java at the machine's own."""
SAMPLES: Final = 61
"""Ten minutes of samples, one every 10 s, as StoreStatsService keeps them."""
UPPER_MS: Final = (0, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Upper bounds of the counts of durations: no request may hold the loop for 50 ms."""


@final
class Sample:
    """The counters at one moment (ms since epoch)."""

    def __init__(self, at: int, put: int, got: int, transferred: int) -> None:
        self.at: int = at
        self.put: int = put
        self.got: int = got
        self.transferred: int = transferred


@final
class Tally:
    """What was counted under one key: messages, their bytes, and the calls that brought or took them."""

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
    """How often something took how long, in milliseconds, since the start."""

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(UPPER_MS) + 1)
        """By the bounds of `UPPER_MS`; the last is for what took longer than all of them."""
        self.longest: int = 0

    def add(self, took: int) -> None:
        """Count one of `took` ms; a clock that seems to go back counts as no time."""
        if took <= 0:
            self.counts[0] += 1
            return
        at = 1
        while at < len(UPPER_MS) and took > UPPER_MS[at]:
            at += 1
        self.counts[at] += 1
        if took > self.longest:
            self.longest = took

    def text(self) -> str:
        """As Java writes putMessageDistributeTime, with its own bounds: `[<=0ms]:5 [0~5ms]:1 ... [1000ms~]:0`."""
        shown = [f"[<=0ms]:{self.counts[0]}"]
        for at in range(1, len(UPPER_MS)):
            shown.append(f"[{UPPER_MS[at - 1]}~{UPPER_MS[at]}ms]:{self.counts[at]}")
        shown.append(f"[{UPPER_MS[-1]}ms~]:{self.counts[-1]}")
        return " ".join(shown)


@final
class BrokerStats(Service):
    """Plain counters, incremented on the hot path; everything else is worked out when somebody asks."""

    def __init__(self, now: int) -> None:
        self.boot_timestamp: int = now
        self.put_messages: int = 0
        self.put_bytes: int = 0
        self.put_failed: int = 0
        self.got_messages: int = 0
        self.got_bytes: int = 0
        self.pulls: int = 0
        self.pulls_found: int = 0
        self.pulls_held: int = 0
        self.requests: int = 0
        self.handler_errors: int = 0
        self.bad_frames: int = 0
        self.connections: int = 0
        self.turns: Durations = Durations()
        """Of each turn of the loop, from its first read to its last write."""
        self.late_timers: Durations = Durations()
        """How much later than wanted the timer rang that keeps what is due."""
        self.put_yesterday: int = 0
        self.put_morning: int = 0
        self.got_yesterday: int = 0
        self.got_morning: int = 0
        self.topic_puts: dict[str, Tally] = {}
        """By topic as stored: a delayed message counts for the schedule topic, and once more when it is delivered."""
        self.group_gets: dict[str, Tally] = {}
        """By topic@group."""
        self.send_backs: dict[str, Tally] = {}
        """By topic@group: what consumers sent back."""
        self._samples: list[Sample] = [Sample(now, 0, 0, 0)]
        self._next: int = now + SAMPLE_MS
        self._day: int = now // DAY_MS

    def put(self, messages: int, size: int) -> None:
        """Note messages stored, and their bytes in the log."""
        self.put_messages += messages
        self.put_bytes += size

    def got(self, messages: int, size: int) -> None:
        """Note messages given to consumers."""
        self.got_messages += messages
        self.got_bytes += size

    def due(self, now: int) -> int | None:
        """Next sample."""
        return self._next

    def tick(self, now: int, budget: int) -> None:
        """Take one sample of the counters."""
        self._samples.append(Sample(now, self.put_messages, self.pulls, self.got_messages))
        if len(self._samples) > SAMPLES:
            del self._samples[0]
        self._next = now + SAMPLE_MS
        if now // DAY_MS != self._day:
            self._day = now // DAY_MS
            self.new_day()

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: nothing is counted for it or for its groups any more, as in Java."""
        self.topic_puts.pop(topic, None)
        for tallies in (self.group_gets, self.send_backs):
            for key in [key for key in tallies if key.startswith(topic + "@")]:
                del tallies[key]

    def forget_group(self, group: str) -> None:
        """A group was deleted."""
        for tallies in (self.group_gets, self.send_backs):
            for key in [key for key in tallies if key.endswith("@" + group)]:
                del tallies[key]

    def put_rate(self, window_ms: int, now: int) -> float:
        """Messages stored a second over about the last `window_ms`."""
        old = self._back(window_ms, now)
        return rate(self.put_messages - old.put, now - old.at)

    def got_rate(self, window_ms: int, now: int) -> float:
        """Messages given to consumers a second over about the last `window_ms`."""
        old = self._back(window_ms, now)
        return rate(self.got_messages - old.transferred, now - old.at)

    def new_day(self) -> None:
        """Midnight: today's counts become yesterday's."""
        self.put_yesterday = self.put_messages - self.put_morning
        self.put_morning = self.put_messages
        self.got_yesterday = self.got_messages - self.got_morning
        self.got_morning = self.got_messages

    def _back(self, window_ms: int, now: int) -> Sample:
        for sample in reversed(self._samples):
            if now - sample.at >= window_ms:
                return sample
        return self._samples[0]


def rate(count: int, elapsed_ms: int) -> float:
    """Events a second; 0 for no time at all."""
    return count * 1000.0 / elapsed_ms if elapsed_ms > 0 else 0.0
