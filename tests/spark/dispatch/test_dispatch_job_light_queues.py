"""Light queues (LMQ) of a Bolide store, rebuilt on Spark, are what the broker wrote, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bolide.layout.broker_message import BrokerMessage
from bolide.layout.shape import StoreShape
from bolide.spark.dispatch.dispatch_job import dispatch_store
from bolide.store.disk.files import RealFiles
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions
from tests.layout.records import message_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

NOW = 1_700_000_000_000
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
SHAPE = StoreShape(
    commit_log_segment_size=1 << 16,
    consume_queue_segment_size=2000,
    consume_queue_ext_segment_size=4096,
    index_slots=100,
    index_entries=4000,
    multi_dispatch=True,
)


def fill(root: Path, shape: StoreShape) -> None:
    """Write 1,500 messages, two in three of which list light queues, and some of these in batches."""
    store = MessageStore(RealFiles(), str(root), shape, StoreOptions(flush_disk_type="ASYNC_FLUSH"))
    store.load(NOW)
    for number in range(0, 1500, 3):
        puts = [message(number + more) for more in range(3)]
        if number % 2:
            store.append_batch(puts, NOW + number)
        else:
            for put in puts:
                store.append(put, NOW + number)
        store.write_pending()
        store.dispatch(1 << 30, NOW)
    store.close(NOW)


def message(number: int) -> BrokerMessage:
    names = [f"%LMQ%{number % 7}", "%LMQ%é", f"%LMQ%once{number}"][: number % 3 if number % 50 else 3]
    listed = f"INNER_MULTI_DISPATCH\x01{','.join(names)}\x02" if names else ""
    raw = f"UNIQ_KEY\x01K{number}\x02TAGS\x01t\x02{listed}".encode()
    return message_of("T", b"%d" % number, raw, number % 3, born_timestamp=NOW, light_queues=names or None)


def contents(base: Path) -> dict[str, bytes]:
    return {str(path.relative_to(base)): path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("ext", [False, True], ids=["plain", "ext"])
def test_light_queues_are_the_brokers(spark: Any, tmp_path: Path, ext: bool) -> None:
    shape = replace(SHAPE, enable_consume_queue_ext=ext)
    store, out = tmp_path / "store", tmp_path / "out"
    fill(store, shape)
    report = dispatch_store(spark, str(store), shape, out=str(out), split_size=50_000)
    assert (report.bad, report.skipped) == ([], [])
    for folder in ("consumequeue", "consumequeue_ext") if ext else ("consumequeue",):
        wanted = contents(store / folder)
        assert contents(out / folder) == wanted
        assert bool([name for name in wanted if name.startswith("%LMQ%")]) == (folder == "consumequeue")
