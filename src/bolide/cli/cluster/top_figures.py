"""The figures of `bolide top`: one round of a cluster, and how lags change from one round to the next."""

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
"""What groups may be sorted by: the largest lag, the fastest growing lag, the name."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group: `lag` messages are not consumed yet, and `growth` more each second since the round before (None in the
    first round of the group; below 0 it catches up)."""

    group: str
    lag: int
    growth: float | None


@dataclass(frozen=True, slots=True)
class Round:
    """What a cluster said at `when`, in seconds since 1970.

    With a `failure` the groups are those of the round before.
    """

    when: float
    brokers: Sequence[BrokerRow]
    groups: Sequence[GroupLine]
    failure: BolideError | None = None

    @property
    def lag(self) -> int:
        """Of all groups, in messages."""
        return sum(each.lag for each in self.groups)

    def slowest(self, order: str, most: int | None, part: str = "") -> list[GroupLine]:
        """At most `most` groups whose name contains `part`, in one of `ORDERS`; case does not count."""
        wanted = part.casefold()
        found = [each for each in self.groups if wanted in each.group.casefold()] if wanted else list(self.groups)
        return heapq.nsmallest(len(found) if most is None else most, found, key=KEYS[order])

    def as_json(self, order: str, part: str = "") -> dict[str, Any]:
        """For programs: all groups that the filter leaves."""
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
    """Asks a cluster again and again; remembers the lags of the last round."""

    def __init__(self, admin: Admin, clock: Callable[[], float], *, cluster: str | None, system: bool) -> None:
        """`clock` tells seconds since 1970; with `system`, also the groups that RocketMQ itself uses."""
        self._admin = admin
        self._clock = clock
        self._cluster = cluster
        self._system = system
        self._before: tuple[float, Mapping[str, int]] | None = None
        self._groups: Sequence[GroupLine] = ()

    async def ask(self) -> Round:
        """One round: two requests to a name server, one to each broker and one more to each master.

        A master that does not answer leaves the groups as they were. Raises `BolideError` without a name server.
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
