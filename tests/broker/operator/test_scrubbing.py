"""The scrub of a broker runs in the pool, logs each finding, and reports its progress."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.operator.scrubbing import LINES_PER_MINUTE, SHOWN, ScrubService
from bolide.broker.options.composed import BrokerOptions
from tests.broker.parts import NOW, Parts, send_request

MINUTE = 60_000
LOG = logging.getLogger("tests.scrub")


class Scrubbing:
    """A store with messages, its scrub, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.parts = Parts(folder)
        self.now = NOW
        for _ in range(40):
            self.parts.answer(send_request())
        self.parts.store.sync_commit_log(self.parts.store.flush_target(NOW + MINUTE))
        self.parts.store.flushed(self.parts.store.written_offset)
        options = self.parts.options
        self.service = ScrubService(options, self.parts.store, self.parts.effects, lambda: self.now, lambda: 0.0, LOG)

    def until_resting(self) -> None:
        """Let time pass and run the jobs until a pass is complete."""
        passes = self.service.status().passes
        while self.service.status().passes == passes:
            self.now = max(self.now + 1, self.service.due(self.now) or 0)
            store = self.parts.store
            store.tick(self.now)
            for job in store.jobs():
                job.run()
                store.job_done(job)
            self.service.tick(self.now, 1000)
            jobs, self.parts.effects.jobs = self.parts.effects.jobs, []
            for step, done in jobs:
                step.run()
                done(step, "")


@pytest.fixture
def scrubbing(tmp_path: Path) -> Iterator[Scrubbing]:
    made = Scrubbing(tmp_path)
    yield made
    made.parts.close()


def test_finding_is_logged_once_and_reported(scrubbing: Scrubbing, caplog: pytest.LogCaptureFixture) -> None:
    scrubbing.parts.damage("T", 7)
    scrubbing.until_resting()
    (said,) = [record.getMessage() for record in caplog.records if record.name == LOG.name]
    assert said.startswith("scrub: damage: commitlog/") and "does not match its CRC" in said
    told = scrubbing.service.runtime()
    assert (told["scrubState"], told["scrubFindings"], told["scrubPasses"]) == ("resting", "1", "1")
    assert told["scrubCheckedBytes"] == told["scrubTotalBytes"] == str(scrubbing.parts.store.end_offset)
    assert told["scrubFinding_1"] in said
    caplog.clear()
    scrubbing.until_resting()
    assert not [record for record in caplog.records if record.name == LOG.name]


def test_log_has_a_limit_of_findings_per_minute(scrubbing: Scrubbing, caplog: pytest.LogCaptureFixture) -> None:
    for offset in range(40):
        scrubbing.parts.damage("T", offset)
    scrubbing.until_resting()
    lines = [record.getMessage() for record in caplog.records if record.name == LOG.name]
    assert len(lines) == LINES_PER_MINUTE
    told = scrubbing.service.runtime()
    assert told["scrubFindings"] == "40"
    assert f"scrubFinding_{SHOWN}" in told and f"scrubFinding_{SHOWN + 1}" not in told


def test_one_job_runs_at_a_time(scrubbing: Scrubbing) -> None:
    scrubbing.service.tick(scrubbing.now, 1000)
    assert len(scrubbing.parts.effects.jobs) == 1
    assert scrubbing.service.due(scrubbing.now) is None
    scrubbing.service.tick(scrubbing.now + MINUTE, 1000)
    assert len(scrubbing.parts.effects.jobs) == 1
    ((job, done),) = scrubbing.parts.effects.jobs
    job.run()
    done(job, "")
    assert scrubbing.service in scrubbing.parts.effects.wakes
    assert scrubbing.service.due(scrubbing.now) is not None


def test_live_settings_apply(scrubbing: Scrubbing) -> None:
    scrubbing.until_resting()
    scrubbing.service.configure(BrokerOptions.of(scrub_enable=False))
    assert scrubbing.service.due(scrubbing.now) is None
    assert scrubbing.service.runtime()["scrubState"] == "paused"
    scrubbing.service.configure(BrokerOptions.of(scrub_interval=5 * MINUTE))
    scrubbing.until_resting()
    due = scrubbing.service.due(scrubbing.now)
    assert due is not None
    scrubbing.service.tick(due, 1000)
    assert scrubbing.service.due(due) in range(due - MINUTE, due + 5 * MINUTE)


def test_failing_store_is_not_read(scrubbing: Scrubbing) -> None:
    scrubbing.parts.store.stop_writing("a sync failed")
    assert scrubbing.service.due(scrubbing.now) is None
    assert scrubbing.service.runtime()["scrubState"] == "stopped"
