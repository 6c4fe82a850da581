"""The scrub stays within its limits of bytes and processor time, and a pass takes its interval."""

from __future__ import annotations

from bolide.store.options import ScrubOptions
from bolide.store.scrub.pace import SLOWEST, ScrubPace
from tests.store.scrub.scrubbed import WEEK, YEAR, filled

MB = 1_000_000


def test_rate_spreads_the_pass_over_the_interval() -> None:
    pace = ScrubPace(ScrubOptions(), YEAR)
    assert pace.rate(1_000_000 * MB, 0) == 1_000_000 * MB * 1.5 / (WEEK * 0.9 / 1000)
    assert pace.rate(MB, 0) == SLOWEST, "a small store is checked soon"
    assert pace.rate(100_000_000 * MB, 0) == 5 * MB, "the limit precedes the interval"
    assert pace.rate(1_000_000 * MB, WEEK - 1) == 5 * MB, "a pass that is late catches up within the limit"


def test_pass_ends_before_retention_deletes_half_of_it() -> None:
    pace = ScrubPace(ScrubOptions(), WEEK // 2)
    assert pace.rate(500_000 * MB, 0) == 500_000 * MB * 1.5 / (WEEK / 4 / 1000)
    pace.configure(ScrubOptions(), YEAR)
    assert pace.rate(500_000 * MB, 0) == 500_000 * MB * 1.5 / (WEEK * 0.9 / 1000)


def test_rate_includes_queues_and_index() -> None:
    pace = ScrubPace(ScrubOptions(), YEAR)
    pace.pause(3 * MB, 0.0, 0, 0)
    pace.checked(MB)
    assert pace.rate(500_000 * MB, 0) == 500_000 * MB * 3 / (WEEK * 0.9 / 1000)
    pace.began()
    assert pace.rate(500_000 * MB, 0) == 500_000 * MB * 1.5 / (WEEK * 0.9 / 1000)


def test_pause_keeps_both_limits() -> None:
    pace = ScrubPace(ScrubOptions(scrub_max_bytes_per_second=MB, scrub_max_cpu_percent=2), YEAR)
    assert pace.pause(256_000, 0.0, 10**12, WEEK) == 257
    assert pace.pause(4096, 0.01, 10**12, WEEK) == 501, "10 ms of work are 2 % of 500 ms"
    pace.configure(ScrubOptions(scrub_max_bytes_per_second=2 * MB, scrub_max_cpu_percent=50), YEAR)
    assert pace.pause(256_000, 0.01, 10**12, WEEK) == 129


def test_limit_below_the_slowest_rate_applies() -> None:
    assert ScrubPace(ScrubOptions(scrub_max_bytes_per_second=1000), YEAR).rate(0, 0) == 1000


def test_pass_keeps_the_rate_by_the_clock() -> None:
    scrubbed = filled()
    scrubbed.scrub.configure(ScrubOptions(scrub_max_bytes_per_second=50_000), YEAR, scrubbed.machine.now)
    scrubbed.step()
    scrubbed.machine.now += 60_000
    began = scrubbed.machine.now
    scrubbed.one_pass()
    read = scrubbed.scrub.status().bytes_read
    assert read / 50_000 <= (scrubbed.machine.now - began) / 1000 <= read / 50_000 + 2


def test_pass_keeps_the_share_of_a_core() -> None:
    scrubbed = filled(300)
    scrubbed.per_call = 0.001
    scrubbed.restart()
    scrubbed.seal()
    scrubbed.step()
    began, scrubbed.seconds = scrubbed.machine.now, 0.0
    scrubbed.one_pass()
    # 2 % of the measured time. The first call of the clock in each of the small jobs takes time, but is not measured.
    assert scrubbed.seconds * 1000 / (scrubbed.machine.now - began) <= 0.035
