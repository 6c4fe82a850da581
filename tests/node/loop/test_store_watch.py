"""What the store notices reaches the log once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bolide.dispatch.row import Dispatch
from bolide.layout.shape import StoreShape
from bolide.node.loop.store_watch import LOOK_MS, StoreWatch
from bolide.store.background.running_flags import DISK_FULL
from bolide.store.disk.files import RealFiles
from bolide.store.message_store import MessageStore


def test_a_problem_that_stays_is_told_once_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = MessageStore(RealFiles(), str(tmp_path), StoreShape(index_slots=10, index_entries=20))
    store.load(1000)
    watch = StoreWatch(store, logging.getLogger("bolide.watch"), 1000)
    for second in range(2, 70):
        store.maintenance.problem = "no room" if second != 5 else "another"
        watch.tick(second * 1000, 1)
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "no room",
        "another",
        "no room",
        "no room",
    ]
    store.close(71_000)


def test_a_full_disk_is_told_once_and_its_end_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = MessageStore(RealFiles(), str(tmp_path), StoreShape(index_slots=10, index_entries=20))
    store.load(1000)
    watch = StoreWatch(store, logging.getLogger("bolide.watch"), 1000)
    assert watch.due(1000) == 1000 + LOOK_MS
    store.flags.set(DISK_FULL)
    watch.tick(2000, 1)
    watch.tick(3000, 1)
    store.flags.clear(DISK_FULL)
    watch.tick(4000, 1)
    assert [record.message for record in caplog.records] == [
        "the store rejects messages: the disk is full",
        "the store accepts messages again",
    ]
    store.close(5000)


def test_a_record_that_can_be_in_no_queue_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = MessageStore(RealFiles(), str(tmp_path), StoreShape(index_slots=10, index_entries=20))
    store.load(1000)
    watch = StoreWatch(store, logging.getLogger("bolide.watch"), 1000)
    astray = Dispatch(
        "../T",
        queue_id=0,
        queue_offset=0,
        physical_offset=7,
        size=100,
        tags_code=0,
        store_timestamp=0,
        sys_flag=0,
    )
    store.queues.put(astray)
    watch.tick(2000, 1)
    watch.tick(3000, 1)
    (told,) = caplog.records
    assert told.levelname == "ERROR" and "at offset 7 of the log is in no queue" in told.message
    store.close(5000)
