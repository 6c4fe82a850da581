"""Runtime figures of a broker (GET_BROKER_RUNTIME_INFO) as numbers: a figure that is missing or odd is None."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from bolide.admin import BrokerRow

LATE_MS: Final = 30_000
"""A replica that lacks something for longer is shown as late."""
FULL: Final = 0.85
"""A disk that is fuller is shown as such; brokers refuse messages a little later."""
_LEVEL: Final = re.compile(r"scheduleMessageOffset_([0-9]{1,3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShownBroker:
    """What the pages show of one broker."""

    row: BrokerRow

    def number(self, key: str) -> float | None:
        """The first number of a figure: of rates that over the last ten seconds."""
        words = self.row.runtime.get(key, "").split()
        try:
            return float(words[0]) if words else None
        except ValueError:
            return None

    def whole(self, key: str) -> int | None:
        """The same, as a whole number."""
        found = self.number(key)
        return None if found is None or abs(found) > 2**63 else int(found)

    @property
    def put_rate(self) -> float | None:
        """Messages stored in a second."""
        return self.number("putTps")

    @property
    def get_rate(self) -> float | None:
        """Messages given to consumers in a second."""
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
        """Messages given since midnight."""
        return _less(self.whole("msgGetTotalTodayNow"), self.whole("msgGetTotalTodayMorning"))

    @property
    def lag_ms(self) -> int | None:
        """Of a slave: since when it lacks something."""
        return self.whole("replicationLagMs") if self.row.broker_id else None

    @property
    def late(self) -> bool:
        """A slave that has been behind for long."""
        return (self.lag_ms or 0) > LATE_MS

    @property
    def disk(self) -> float | None:
        """How full the disk of the log is, 0 to 1."""
        return self.number("commitLogDiskRatio")

    @property
    def disk_full(self) -> bool:
        """Whether it is nearly full."""
        return (self.disk or 0.0) >= FULL

    @property
    def log_bytes(self) -> int | None:
        """Bytes of the log."""
        return _less(self.whole("commitLogMaxOffset"), self.whole("commitLogMinOffset"))

    @property
    def good(self) -> bool:
        """It answers, accepts messages or follows, and has room."""
        return self.row.serves and not self.late and not self.disk_full

    @property
    def state(self) -> str:
        """What is wrong with it, or what it does."""
        if not self.row.serves:
            return self.row.state
        if self.late:
            return "is behind its master"
        return "disk nearly full" if self.disk_full else self.row.state

    def delay_levels(self) -> dict[int, tuple[int, int]]:
        """By level: the offset of the next message to deliver, and the end."""
        found = {}
        for key, text in self.row.runtime.items():
            level = _LEVEL.fullmatch(key)
            first, _, end = text.partition(",")
            if level is not None and first.strip().isdecimal() and end.strip().isdecimal():
                found[int(level[1])] = (int(first), int(end))
        return dict(sorted(found.items()))


def _less(all_of_it: int | None, part: int | None) -> int | None:
    return None if all_of_it is None or part is None else max(all_of_it - part, 0)
