"""The sealed part of the log: what a sync has covered, and less after a truncation."""

from __future__ import annotations

from bolide.store.background.sealed import Sealed
from tests.store.scenario import ASYNC, Machine

MINUTE = 61_000


def test_offset_follows_the_syncs_of_rounds() -> None:
    sealed = Sealed()
    sealed.started(100)
    assert (sealed.offset, sealed.grown(150)) == (0, 50)
    sealed.round_began(200, 180)
    sealed.sync_began(210)
    sealed.round_began(300, 300)
    assert sealed.offset == 0
    sealed.synced()
    assert (sealed.offset, sealed.grown(210)) == (180, 0)


def test_truncation_lowers_the_offset_at_once_and_for_syncs_that_follow() -> None:
    sealed = Sealed()
    sealed.round_began(200, 200)
    sealed.sync_began(200)
    sealed.synced()
    sealed.round_began(300, 300)
    sealed.cut(150)
    assert (sealed.offset, sealed.cuts) == (150, 1)
    sealed.sync_began(150)
    sealed.synced()
    assert sealed.offset == 150


def test_store_seals_only_synced_records() -> None:
    machine = Machine(options=ASYNC)
    machine.turn(10)
    machine.append(5)
    machine.write()
    for _ in range(3):
        machine.store.dispatch(1000, machine.now)
        machine.tick(MINUTE)
    assert machine.store.maintenance.sealed.offset == machine.store.flushed_offset < machine.store.dispatched_offset


def test_failed_sync_of_queues_seals_nothing() -> None:
    machine = Machine()
    machine.turn(10)
    machine.now += MINUTE
    machine.store.tick(machine.now)
    machine.files.fail_next("datasync")
    machine.files.fail_next("sync_file_systems")
    machine.run_jobs()
    machine.turn(10)
    for _ in range(3):
        machine.tick(MINUTE)
    assert machine.store.maintenance.sync_failed
    assert machine.store.maintenance.sealed.offset == 0


def test_clean_start_seals_the_whole_log() -> None:
    machine = Machine()
    machine.turn(30)
    machine.restart()
    assert machine.store.maintenance.sealed.offset == 0
    machine.tick(2000)
    assert machine.store.maintenance.sealed.offset == machine.store.end_offset
