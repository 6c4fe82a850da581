"""VIEW_BROKER_STATS_DATA (315): traffic of topics and groups over the last minute, hour and day.

RocketMQ's StatsItem: each counter is sampled every 10 s, 10 min and hour. A span is the difference between its oldest
sample and now. The counters are incremented on the hot path (`broker.core.stats.Tally`); all other work is done here.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.core.stats import BrokerStats, Tally
from bolide.broker.operator.fall_behind import FallBehind
from bolide.broker.options.composed import BrokerOptions
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.stats import BrokerStatsData, BrokerStatsItem
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.admin import ViewBrokerStatsDataRequestHeader
from bolide.remoting.request_access import GET_CLUSTER
from bolide.remoting.request_routes import DiskReads, Kind, Route

MINUTE, HOUR, DAY = range(3)
PERIODS_MS: Final = (10_000, 600_000, 3_600_000)
LOOKS: Final = (6, 6, 24)
"""Number of samples per span; with the current value they cover a minute, an hour, a day."""

Look = tuple[int, int, int, int]
"""Time (ms since the epoch), messages, bytes and calls."""
MESSAGES, SIZE = 1, 2
"""Indexes of the fields of a sample that statistics report."""
LATENCY: Final = "GROUP_GET_LATENCY"


class Looks:
    """Samples of one counter, by span."""

    def __init__(self, now: int) -> None:
        # As in Java, a counter starts at 0, one period before its first sample.
        self.spans: list[deque[Look]] = [
            deque([(now - period, 0, 0, 0)], maxlen=most) for period, most in zip(PERIODS_MS, LOOKS, strict=True)
        ]


class TopicStatsService(Service):
    """Samples the counters and serves their statistics."""

    def __init__(self, options: BrokerOptions, stats: BrokerStats, falls: FallBehind, now: int) -> None:
        self._cluster = options.place.broker_cluster_name
        self._stats = stats
        self._falls = falls
        self._tables: dict[str, tuple[dict[str, Tally], int]] = {
            "TOPIC_PUT_NUMS": (stats.topic_puts, MESSAGES),
            "TOPIC_PUT_SIZE": (stats.topic_puts, SIZE),
            "GROUP_GET_NUMS": (stats.group_gets, MESSAGES),
            "GROUP_GET_SIZE": (stats.group_gets, SIZE),
            LATENCY: (stats.disk_waits, MESSAGES),
            "SNDBCK_PUT_NUMS": (stats.send_backs, MESSAGES),
            "BROKER_PUT_NUMS": (self._whole_broker(), MESSAGES),
            "BROKER_GET_NUMS": (self._whole_broker(), MESSAGES),
        }
        self._counted: list[dict[str, Tally]] = [table for table, field in self._tables.values() if field == MESSAGES]
        self._lasting = {id(self._tables[name][0]) for name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS")}
        self._looks: list[dict[str, Looks]] = [{} for _ in self._counted]
        self._next = [now + period for period in PERIODS_MS]

    def _whole_broker(self) -> dict[str, Tally]:
        return {self._cluster: Tally()}

    def routes(self) -> Routes:
        return [
            Route(
                codes.VIEW_BROKER_STATS_DATA,
                ViewBrokerStatsDataRequestHeader,
                self.on_view,
                Kind.READ,
                reads=DiskReads.MANY,
                access=GET_CLUSTER,
            ),
        ]

    def on_view(
        self, channel: Channel, command: Command, header: ViewBrokerStatsDataRequestHeader, now: int
    ) -> Outcome:
        behind = self._falls.value(header.stats_name, header.stats_key, now)
        if behind is not None:
            body = BrokerStatsData(*[BrokerStatsItem(behind)] * 3)
            return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))
        self._total()
        table, field = self._tables.get(header.stats_name, ({}, MESSAGES))
        tally = table.get(header.stats_key)
        if tally is None and header.stats_name == LATENCY and self._falls.has_pulled(header.stats_key):
            tally = Tally()  # no pull of this queue has waited for the disk
        if tally is None:
            remark = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        looks = self._looks_of(table, header.stats_key, now)
        minute, hour, day = (item(looks.spans[span][0], tally, field, now) for span in (MINUTE, HOUR, DAY))
        return reply(make_response(command, codes.SUCCESS, body=encode_body(BrokerStatsData(minute, hour, day))))

    def tps(self, name: str, key: str, now: int) -> float:
        """Return the growth of a counter per second over the last minute, or 0 if it does not exist."""
        table, field = self._tables[name]
        tally = table.get(key)
        if tally is None:
            return 0.0
        return item(self._looks_of(table, key, now).spans[MINUTE][0], tally, field, now).tps

    def _looks_of(self, table: dict[str, Tally], key: str, now: int) -> Looks:
        return next((seen.get(key) for counted, seen in self._pairs() if counted is table), None) or Looks(now)

    def due(self, now: int) -> int | None:
        return min(self._next)

    def tick(self, now: int, budget: int) -> None:
        """Sample every counter. Counters that have not changed for a day are removed."""
        due = [span for span in (MINUTE, HOUR, DAY) if now >= self._next[span]]
        for span in due:
            self._next[span] = now + PERIODS_MS[span]
        self._total()
        for counted, seen in self._pairs():
            for key in [key for key in seen if key not in counted]:
                del seen[key]  # its topic or group was deleted
            for key, tally in list(counted.items()):
                looks = seen.get(key)
                if looks is None:
                    looks = seen[key] = Looks(now)
                for span in due:
                    looks.spans[span].append(look(tally, now))
                if DAY in due and id(counted) not in self._lasting and is_idle(looks.spans[DAY]):
                    del counted[key], seen[key]

    def _pairs(self) -> list[tuple[dict[str, Tally], dict[str, Looks]]]:
        return list(zip(self._counted, self._looks, strict=True))

    def _total(self) -> None:
        stats = self._stats
        sent = stats.put_messages - stats.copied_messages
        for name, messages in (("BROKER_PUT_NUMS", sent), ("BROKER_GET_NUMS", stats.got_messages)):
            tally = self._tables[name][0].setdefault(self._cluster, Tally())
            tally.messages = tally.calls = messages


def look(tally: Tally, now: int) -> Look:
    """Return the current values of a counter."""
    return now, tally.messages, tally.size, tally.calls


def is_idle(looks: deque[Look]) -> bool:
    """Return whether the counter has not changed for a whole day."""
    return len(looks) == looks.maxlen and looks[0][3] == looks[-1][3]


def item(first: Look, tally: Tally, field: int, now: int) -> BrokerStatsItem:
    """Return one span of a counter, from its oldest sample until now. `field` is MESSAGES or SIZE."""
    last = look(tally, now)
    total, calls, elapsed = last[field] - first[field], last[3] - first[3], now - first[0]
    return BrokerStatsItem(total, total * 1000.0 / elapsed if elapsed > 0 else 0.0, total / calls if calls > 0 else 0.0)
