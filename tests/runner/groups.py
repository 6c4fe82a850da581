"""Groups of heavy tests. Tests of a group run in one worker and share a Java cluster or a Spark session."""

from __future__ import annotations

import pytest

from tests.runner.schedule import ALONE

LONGEST_FIRST = (
    *("spark-processes", "spark", "spark-live"),
    *("many-queues-5.5.0", "many-queues-4.9.7", "java-features", "java-benchmark", "java-client", "timer-moves"),
    *("mqadmin-4.9.7", "store-java-5.5.0", "hostile"),
)
"""Groups in the order in which workers start them; the other heavy tests follow."""


def group_of(item: pytest.Item) -> str:
    """Return the group of a test, or "" for a test that any worker may run."""
    marker = item.get_closest_marker("xdist_group")
    return str(marker.args[0]) if marker is not None and marker.args else ""


def assign(items: list[pytest.Item]) -> None:
    """Give each heavy test its group, and bring the longest groups to the front."""
    for item in items:
        group = needed_group(item)
        if group and group != group_of(item):
            item.add_marker(pytest.mark.xdist_group(group), append=False)
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(group_of(item), len(places)))


def needed_group(item: pytest.Item) -> str:
    """Return the group that a test names, or the group that follows from its other markers and fixtures."""
    group = group_of(item)
    in_spark = item.nodeid.startswith("tests/spark/")  # a test with Java there uses the cluster of the live source
    if not group and (item.get_closest_marker("spark") or (in_spark and item.get_closest_marker("java"))):
        group = "spark"
    if group == "spark":  # tests of jobs and of live clusters use a second session
        live = "rocketmq" in getattr(item, "fixturenames", ()) or item.nodeid.startswith("tests/spark/jobs/")
        return "spark-live" if live else group
    if not group and any(map(item.get_closest_marker, ("java", "slow", "crash"))):
        return ALONE
    return group
