"""The timer against a dictionary: every message at its time, deleted ones never, whatever fails in between."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bolide.store.disk.files import FileFailed
from tests.broker.timer_parts import Timer

WINDOW = 20
"""Seconds a message waits in one go here."""
REPEATED_MS = 3_000
"""What was delivered this shortly before a crash may be repeated: checkpoints are a second apart."""


class TimerModel(RuleBasedStateMachine):
    """Rules are what producers, the clock, the process and the power line can do."""

    @initialize(sync=st.booleans(), precision=st.sampled_from([1000, 200]))
    def start(self, sync: bool, precision: int) -> None:
        self.precision = precision
        self.timer = Timer(sync=sync, timer_roll_window_slot=WINDOW * 1000 // precision, timer_precision_ms=precision)
        self.due: dict[str, int] = {}
        self.deleted: dict[str, bool] = {}
        """Key of a deleted message -> whether it must be gone: the delete came while its time was well ahead."""
        self.rolling: set[str] = set()
        self.crashes: list[int] = []
        self.number = 0

    @rule(delay=st.one_of(st.integers(1, 5_000), st.integers(1, 90_000)), count=st.integers(1, 5))
    def send(self, delay: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            key = f"m{self.number}"
            self.timer.put(key, TIMER_DELIVER_MS=str(self.timer.now + delay))
            self.due[key] = self.timer.now + delay
            if delay > (WINDOW - 2) * 1_000:
                self.rolling.add(key)
        self.timer.turn()

    @precondition(lambda self: self.due)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.due)))
        at = self.due[key]
        if at <= self.timer.now:
            return
        self.timer.put("d" + key, TIMER_DELIVER_MS=str(at), TIMER_DEL_UNIQKEY=key)
        self.timer.turn()
        self.timer.later(2_500)  # both are in the wheel, and the checkpoint knows: else a crash may make both come late
        self.deleted[key] = self.deleted.get(key, False) or at > self.timer.now

    def the_timer_stands_still(self) -> None:
        """What is late before it rolls comes although it was deleted, as in Java: its delete is on the way as well."""
        for key in self.rolling & self.deleted.keys():
            self.deleted[key] = False

    @rule(elapsed=st.sampled_from([10, 300, 1_000, 4_500, 17_000]), budget=st.sampled_from([1, 3, 1000]))
    def time_passes(self, elapsed: int, budget: int) -> None:
        self.timer.later(elapsed, budget)

    @rule(away=st.sampled_from([0, 2_000, 40_000]))
    def stop_and_start(self, away: int) -> None:
        self.the_timer_stands_still()
        self.timer.close()
        self.timer = self.timer.again(now=self.timer.now + away)

    @rule(away=st.sampled_from([0, 2_000, 40_000]))
    def the_process_dies(self, away: int) -> None:
        self.the_timer_stands_still()
        self.crashes.append(self.timer.now)
        disk = self.timer.files.clone()
        disk.process_crash()
        self.timer = self.timer.again(disk, self.timer.now + away)

    @precondition(lambda self: self.timer.sync)
    @rule(seed=st.integers(0, 1000), away=st.sampled_from([0, 5_000]))
    def the_power_fails(self, seed: int, away: int) -> None:
        self.the_timer_stands_still()
        self.crashes.append(self.timer.now)
        disk = self.timer.files.clone()
        disk.power_cut(seed)
        self.timer = self.timer.again(disk, self.timer.now + away)

    @rule(elapsed=st.sampled_from([300, 2_500]))
    def the_timer_log_cannot_be_written(self, elapsed: int) -> None:
        self.the_timer_stands_still()
        timer = self.timer
        stop = timer.now + elapsed
        while (due := timer.service.due(timer.now)) is not None and due <= stop:
            timer.now = max(timer.now, due)
            timer.files.fail_next("write_at")
            try:
                timer.service.tick(timer.now, 1000)
            except FileFailed:
                timer.now += 1_000  # the node waits that long
            timer.files.faults_over()
            timer.turn()
        timer.now = max(timer.now, stop)

    @invariant()
    def nothing_is_early_and_little_comes_twice(self) -> None:
        if not hasattr(self, "timer"):
            return
        seen: dict[str, int] = {}
        for record in self.timer.records():
            key = record.body.decode()
            at = int(record.store_timestamp)
            assert key in self.due, f"{key} was never sent, or is a delete"
            assert at >= self.due[key], f"{key} came {self.due[key] - at} ms early"
            assert not self.deleted.get(key, False), f"{key} was deleted"
            if key in seen:
                repeated = any(seen[key] >= crash - REPEATED_MS and crash <= at for crash in self.crashes)
                assert repeated, f"{key} came at {seen[key]} and at {at}, crashes at {self.crashes}"
            seen[key] = at

    def teardown(self) -> None:
        if not hasattr(self, "timer"):
            return
        self.timer.later(200_000)
        came = Counter(self.timer.delivered())
        missing = [key for key in self.due if not came[key] and key not in self.deleted]
        assert not missing, missing
        assert self.timer.wheel.wheel.first_time() == -1


TestTimerModel = TimerModel.TestCase
TestTimerModel.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
