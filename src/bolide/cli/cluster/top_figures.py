"""The statistics of `bolide top`: one round of queries to a cluster, and the growth of lags between rounds."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bolide.cli.cluster.cluster import rate
from bolide.errors import BolideError
from bolide.layout.names import is_predefined_group

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.admin.cluster import BrokerRow

ORDERS: Final = ("lag", "growth", "name")
"""Sort orders of groups: the largest lag, the fastest growing lag, the name."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group with its lag in messages. `growth` is the change of the lag per second since the previous round, or None
    in the first round of the group."""

    group: str
    lag: int
    growth: float | None


@dataclass(frozen=True, slots=True)
class Round:
    """The state of a cluster at `when`, in seconds since 1970.

    If `failure` is set, the groups are from the previous round.
    """

    when: float
    brokers: Sequence[BrokerRow]
    groups: Sequence[GroupLine]
    failure: BolideError | None = None

    @property
    def lag(self) -> int:
        """Lag of all groups in messages."""
        return sum(each.lag for each in self.groups)

    def slowest(self, order: str, most: int | None, part: str = "") -> list[GroupLine]:
        """Return at most `most` groups whose name contains `part`, ignoring case, in one of `ORDERS`."""
        wanted = part.casefold()
        found = [each for each in self.groups if wanted in each.group.casefold()] if wanted else list(self.groups)
        return heapq.nsmallest(len(found) if most is None else most, found, key=KEYS[order])

    def as_json(self, order: str, part: str = "") -> dict[str, Any]:
        """Return the round as a JSON object with all groups that match the filter."""
        return {
            "time": datetime.fromtimestamp(self.when, UTC).isoformat(timespec="milliseconds"),
            "error": None if self.failure is None else str(self.failure),
            "lag": self.lag,
            "brokers": [
                {
                    "cluster": each.cluster,
                    "broker": each.broker_name,
                    "id": each.broker_id,
                    "role": each.role,
                    "put_per_second": rate(each.runtime.get("putTps")),
                    "get_per_second": rate(each.runtime.get("getTransferredTps")),
                    "state": each.state,
                }
                for each in self.brokers
            ],
            "groups": [
                {"group": each.group, "lag": each.lag, "growth_per_second": each.growth}
                for each in self.slowest(order, None, part)
            ],
        }


KEYS: Final[Mapping[str, Callable[[GroupLine], tuple[float, str]]]] = {
    "lag": lambda line: (-line.lag, line.group),
    "growth": lambda line: (-(line.growth or 0.0), line.group),
    "name": lambda line: (0.0, line.group),
}


class Rounds:
    """Queries a cluster repeatedly, and stores the lags of the last round."""

    def __init__(self, admin: Admin, clock: Callable[[], float], *, cluster: str | None, system: bool) -> None:
        """Takes a `clock` that returns seconds since 1970. With `system`, rounds include RocketMQ's internal groups."""
        self._admin = admin
        self._clock = clock
        self._cluster = cluster
        self._system = system
        self._before: tuple[float, Mapping[str, int]] | None = None
        self._groups: Sequence[GroupLine] = ()

    async def ask(self) -> Round:
        """Query one round: two requests to a name server, one to each broker and one more to each master.

        If a master does not respond, the groups are unchanged. Raises `BolideError` if no name server responds.
        """
        brokers = [each for each in await self._admin.brokers() if self._cluster in (None, each.cluster)]
        try:
            lags = await self._admin.lag_of_groups(cluster=self._cluster)
        except BolideError as error:
            return Round(self._clock(), brokers, self._groups, error)
        now = self._clock()
        shown = {group: lag for group, lag in lags.items() if self._system or not is_predefined_group(group)}
        self._groups = [GroupLine(group, lag, self._growth(group, lag, now)) for group, lag in shown.items()]
        self._before = now, shown
        return Round(now, brokers, self._groups)

    def _growth(self, group: str, lag: int, now: float) -> float | None:
        if self._before is None:
            return None
        then, lags = self._before
        if group not in lags or now <= then:
            return None
        return round((lag - lags[group]) / (now - then), 1)
