"""The figures of the timer in Java's file: read, counted, written; and what cannot be read does no harm."""

from __future__ import annotations

import json

import pytest

from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.testing.files import SimulatedFiles

NOW = 1_700_000_000_000
PATH = "/s/config/timermetrics"
JAVAS = b"""{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":5},
"timingCount":{"T":{"count":3,"timeStamp":11},"gone":{"count":-1,"timeStamp":12}}}"""


def loaded(**files: bytes) -> TimerMetrics:
    disk = SimulatedFiles()
    disk.make_dir("/s/config")
    for name, data in files.items():
        disk.write_file(PATH + name.removeprefix("at").replace("_", "."), data)
    metrics = TimerMetrics(NOW)
    metrics.load(disk, "/s")
    return metrics


def counts(metrics: TimerMetrics) -> dict[str, int]:
    return {topic: metric["count"] for topic, metric in json.loads(metrics.encode())["timingCount"].items()}


def test_java_s_figures_go_on() -> None:
    metrics = loaded(at=JAVAS)
    assert metrics.take() is None
    metrics.add("T", 1, NOW)
    metrics.add("new", 1, NOW)
    metrics.add(None, 1, NOW)
    assert counts(metrics) == {"T": 4, "gone": -1, "new": 1}
    written = metrics.take()
    assert written is not None
    stored = json.loads(written)
    assert stored["dataVersion"] == {"counter": 9, "stateVersion": 0, "timestamp": NOW}
    assert stored["timingCount"]["T"] == {"count": 4, "timeStamp": NOW}
    assert metrics.take() is None


@pytest.mark.parametrize(
    "bad",
    [
        *(b"{", b"\xff\0", b"[]", b'{"timingCount":{"T":{}}}', b'{"timingCount":{"T":7}}', b'{"timingCount":[1]}'),
        b'{"timingCount":{"T":{"count":1e999,"timeStamp":1}}}',
    ],
)
def test_a_file_that_cannot_be_read_falls_back_to_the_copy_before_it(bad: bytes) -> None:
    assert counts(loaded(at=bad)) == {}
    assert counts(loaded(at=bad, at_bak=JAVAS)) == {"T": 3, "gone": -1}


def test_a_deleted_topic_is_forgotten_and_what_it_still_has_in_the_wheel_counts_nothing() -> None:
    metrics = loaded()
    metrics.add("T", 2, NOW)
    assert metrics.take() is not None
    metrics.forget("T")
    metrics.forget("unknown")
    written = metrics.take()
    assert written is not None and json.loads(written)["timingCount"] == {}
    metrics.add("T", -1, NOW)
    assert counts(metrics) == {}
    metrics.add("T", 1, NOW)
    assert counts(metrics) == {"T": 1}
