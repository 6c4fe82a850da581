"""Parses the runtime statistics of a broker (GET_BROKER_RUNTIME_INFO). Missing or invalid numbers are None."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bolide.admin import BrokerRow

LATE_MS: Final = 30_000
"""Replication lag in ms above which a slave is shown as late."""
FULL: Final = 0.85
"""Disk usage from which a disk is shown as nearly full. Brokers reject messages at a slightly higher usage."""
_LEVEL: Final = re.compile(r"scheduleMessageOffset_([0-9]{1,3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShownBroker:
    """A broker with the values that the pages show."""

    row: BrokerRow

    def number(self, key: str) -> float | None:
        """Return the first number of a statistic. The first number of a rate is its 10-second average."""
        words = self.row.runtime.get(key, "").split()
        try:
            return float(words[0]) if words else None
        except ValueError:
            return None

    def whole(self, key: str) -> int | None:
        """Return the first number of a statistic as an integer, or None if it exceeds 64 bits."""
        found = self.number(key)
        return None if found is None or abs(found) > 2**63 else int(found)

    @property
    def put_rate(self) -> float | None:
        """Messages stored per second."""
        return self.number("putTps")

    @property
    def get_rate(self) -> float | None:
        """Messages delivered to consumers per second."""
        return (
            self.number("getTransferredTps")
            if "getTransferredTps" in self.row.runtime
            else self.number("getTransferedTps")
        )

    @property
    def put_today(self) -> int | None:
        """Messages stored since midnight."""
        return _less(self.whole("msgPutTotalTodayNow"), self.whole("msgPutTotalTodayMorning"))

    @property
    def get_today(self) -> int | None:
        """Messages delivered since midnight."""
        return _less(self.whole("msgGetTotalTodayNow"), self.whole("msgGetTotalTodayMorning"))

    @property
    def lag_ms(self) -> int | None:
        """Replication lag of a slave in ms, or None for a master or if it is not reported."""
        return self.whole("replicationLagMs") if self.row.broker_id else None

    @property
    def late(self) -> bool:
        """Whether the replication lag exceeds `LATE_MS`."""
        return (self.lag_ms or 0) > LATE_MS

    @property
    def certificate_end(self) -> int | None:
        """First expiry of the certificates of a Bolide broker with TLS, in ms since 1970, otherwise None."""
        return self.whole("certificateEndTimestamp")

    @property
    def disk(self) -> float | None:
        """Usage of the disk that contains the log, 0 to 1."""
        return self.number("commitLogDiskRatio")

    @property
    def disk_full(self) -> bool:
        """Whether the disk is nearly full, see `FULL`."""
        return (self.disk or 0.0) >= FULL

    @property
    def log_bytes(self) -> int | None:
        """Size of the log in bytes."""
        return _less(self.whole("commitLogMaxOffset"), self.whole("commitLogMinOffset"))

    @property
    def scrub(self) -> str | None:
        """State and progress of the scrub, or None if the broker does not report it."""
        state = self.row.runtime.get("scrubState")
        done, total = self.whole("scrubCheckedBytes"), self.whole("scrubTotalBytes")
        if state != "running" or not total:
            return state
        return f"running, {min(done or 0, total) * 100 // total} % of the log checked"

    @property
    def damaged(self) -> int:
        """Number of damaged ranges that the scrub has found."""
        return self.whole("scrubFindings") or 0

    @property
    def good(self) -> bool:
        """Whether the broker serves clients, is not late, and has free disk space."""
        return self.row.serves and not self.late and not self.disk_full

    @property
    def state(self) -> str:
        """The most important problem of the broker, or its role if it has none."""
        if not self.row.serves:
            return self.row.state
        if self.late:
            return "lags behind its master"
        return "disk nearly full" if self.disk_full else self.row.state

    def delay_levels(self) -> dict[int, tuple[int, int]]:
        """Return, by delay level, the offset of the next message to deliver and the end offset."""
        found = {}
        for key, text in self.row.runtime.items():
            level = _LEVEL.fullmatch(key)
            first, _, end = text.partition(",")
            if level is not None and first.strip().isdecimal() and end.strip().isdecimal():
                found[int(level[1])] = (int(first), int(end))
        return dict(sorted(found.items()))


def soon_ending(brokers: Sequence[ShownBroker], days: Callable[[int | None], int | None]) -> list[ShownBroker]:
    """Return the brokers whose certificate ends soon, the earliest first. `days` returns None for a later end."""
    found = [broker for broker in brokers if days(broker.certificate_end) is not None]
    return sorted(found, key=lambda broker: broker.certificate_end or 0)


def _less(all_of_it: int | None, part: int | None) -> int | None:
    return None if all_of_it is None or part is None else max(all_of_it - part, 0)
