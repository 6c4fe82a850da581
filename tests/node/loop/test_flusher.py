"""How long syncs of the log take is counted."""

from __future__ import annotations

import pytest

from bolide.broker.core.stats import SYNC_US, Durations
from bolide.node.loop.flusher import timed


def test_syncs_are_timed_and_those_that_fail_are_not() -> None:
    times = Durations(SYNC_US)
    now = [10.0]

    def sync(target: int) -> None:
        now[0] += target / 1000
        if target == 7:
            raise OSError("EIO")

    run = timed(sync, times, lambda: now[0])
    run(1)
    run(30)
    with pytest.raises(OSError, match="EIO"):
        run(7)
    assert sum(times.counts) == 2 and times.total == pytest.approx(31_000, abs=2)
    assert times.longest == pytest.approx(30_000, abs=1) and times.counts[SYNC_US.index(50_000)] == 1
