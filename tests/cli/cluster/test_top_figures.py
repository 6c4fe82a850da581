"""The figures of `bolide top`: how lags change from one round to the next, and what a silent master leaves."""

from __future__ import annotations

from typing import Any

from bolide.admin.cluster import BrokerRow
from bolide.cli.cluster.top_figures import GroupLine, Rounds
from bolide.errors import ConnectionLost


class Cluster:
    """What an `Admin` would say; `lags` that are an error are raised."""

    def __init__(self) -> None:
        self.lags: dict[str, int] | ConnectionLost = {}

    async def brokers(self) -> list[BrokerRow]:
        return [BrokerRow(name, f"broker-{name}", 0, "10.0.0.1:10911", {}) for name in ("One", "Two")]

    async def lag_of_groups(self, *, cluster: str | None = None) -> dict[str, int]:
        if isinstance(self.lags, ConnectionLost):
            raise self.lags
        return self.lags


async def test_growth_is_per_second_and_a_silent_master_leaves_the_groups_as_they_were() -> None:
    times = iter([100.0, 104.0, 105.0, 108.0])
    said: Any = Cluster()
    asked = Rounds(said, lambda: next(times), cluster="Two", system=False)
    said.lags = {"a": 10, "b": 0, "TOOLS_CONSUMER": 7}
    first = await asked.ask()
    assert first.groups == [GroupLine("a", 10, None), GroupLine("b", 0, None)]
    assert [each.broker_name for each in first.brokers] == ["broker-Two"] and first.lag == 10

    said.lags = {"a": 4, "b": 10, "new": 5}
    second = await asked.ask()
    assert second.groups == [GroupLine("a", 4, -1.5), GroupLine("b", 10, 2.5), GroupLine("new", 5, None)]

    said.lags = ConnectionLost("broker-Two is gone")
    third = await asked.ask()
    assert third.groups == second.groups and third.brokers and third.as_json("lag")["error"] == "broker-Two is gone"

    said.lags = {"a": 0, "b": 10, "new": 5}
    fourth = await asked.ask()
    assert fourth.groups == [GroupLine("a", 0, -1.0), GroupLine("b", 10, 0.0), GroupLine("new", 5, 0.0)]
    assert fourth.failure is None


async def test_the_groups_of_the_system_are_there_when_asked_for() -> None:
    said: Any = Cluster()
    said.lags = {"TOOLS_CONSUMER": 7}
    found = await Rounds(said, lambda: 1.0, cluster=None, system=True).ask()
    assert [each.group for each in found.groups] == ["TOOLS_CONSUMER"] and len(found.brokers) == 2
