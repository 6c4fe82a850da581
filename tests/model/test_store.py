"""The store against a dictionary: whatever happens in whatever order, an acknowledged message stays."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bolide.store.disk.files import DiskFull, FileFailed
from bolide.store.errors import ServiceNotAvailable
from tests.store.scenario import ASYNC, SYNC, Machine, missing, units_agree


class StoreModel(RuleBasedStateMachine):
    """Rules are what a node, its clients, its disk and its power line can do."""

    @initialize(sync=st.booleans())
    def start(self, sync: bool) -> None:
        self.sync = sync
        self.machine = Machine(options=SYNC if sync else ASYNC)

    @rule(count=st.integers(1, 12))
    def append(self, count: int) -> None:
        try:
            self.machine.append(count)
        except ServiceNotAvailable:
            assert not self.machine.store.writable()

    @rule(count=st.integers(1, 6))
    def append_batch(self, count: int) -> None:
        try:
            self.machine.append_batch(count)
        except ServiceNotAvailable:
            assert not self.machine.store.writable()

    @rule()
    def end_of_turn(self) -> None:
        self.machine.write()
        self.machine.flush()

    @rule()
    def write_only(self) -> None:
        self.machine.write()

    @rule(elapsed=st.sampled_from([100, 1000, 61_000]))
    def time_passes(self, elapsed: int) -> None:
        self.machine.tick(elapsed)

    @rule(full=st.booleans())
    def a_write_fails(self, full: bool) -> None:
        machine = self.machine
        machine.append_or_nothing()
        machine.files.fail_next("write_at", DiskFull("no room") if full else None)
        try:
            machine.write()
        except FileFailed:
            machine.waiting = [sent for sent in machine.waiting if sent.at.end_offset <= machine.store.written_offset]
        machine.files.faults_over()
        machine.flush()

    @rule()
    def stop_and_start(self) -> None:
        self.machine.write()
        self.machine.flush()
        if not self.machine.store.writable():
            return
        self.machine.restart()
        assert not self.machine.report.abnormal
        assert self.machine.report.truncated_bytes == 0

    @rule()
    def the_process_dies(self) -> None:
        self.machine.crash()
        assert self.machine.report.abnormal

    @precondition(lambda self: self.sync)
    @rule(seed=st.integers(0, 1000))
    def the_power_fails(self, seed: int) -> None:
        self.machine.power_cut(seed)

    @invariant()
    def nothing_acknowledged_is_missing(self) -> None:
        if hasattr(self, "machine"):
            assert not missing(self.machine.store, self.machine.acknowledged, thorough=False)

    @invariant()
    def offsets_keep_their_order(self) -> None:
        if hasattr(self, "machine"):
            store = self.machine.store
            assert store.dispatched_offset <= store.confirm_offset <= store.written_offset <= store.end_offset
            assert store.flushed_offset <= store.written_offset

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            self.machine.crash()
            assert not missing(self.machine.store, self.machine.acknowledged)
            assert not units_agree(self.machine.store)


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
