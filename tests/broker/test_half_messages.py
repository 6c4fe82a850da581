"""The table of undecided half messages: progress, restarts, failed writes, stores that Java left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.consumer_offsets import ConsumerOffsets
from bolide.broker.effects import Effects
from bolide.broker.half_messages import GROUP, HalfMessages, half_offsets
from bolide.broker.names import HALF_TOPIC, OP_HALF_TOPIC
from bolide.broker.transactions import COMMIT, ROLLBACK
from bolide.layout.record import Record
from bolide.store.files import FileFailed, RealFiles
from bolide.store.message_store import MessageStore
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import NOW, send_request
from tests.broker.transaction_parts import INTERVAL_MS, Transactions, end_request, from_check
from tests.golden.stores import golden_store


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Transactions]:
    made = Transactions(tmp_path)
    yield made
    made.close()


def test_progress_is_what_nobody_needs_any_more(parts: Transactions) -> None:
    halves = [parts.half(UNIQ_KEY=f"U{number}") for number in range(4)]
    parts.code(halves[1], COMMIT)
    parts.code(halves[3], ROLLBACK)
    parts.later(2_000)
    assert parts.progress() == (0, 0)
    parts.code(halves[0], COMMIT)
    parts.later(2_000)
    assert parts.progress() == (2, 1)  # 2 is open; op 0 named 1, op 1 names 3
    parts.code(halves[2], COMMIT)
    parts.later(2_000)
    assert parts.progress() == (4, 4)


def test_a_restart_rebuilds_the_table(parts: Transactions) -> None:
    halves = [parts.half(UNIQ_KEY=f"U{number}") for number in range(5)]
    parts.code(halves[0], COMMIT)
    parts.code(halves[3], ROLLBACK)
    parts.later(2_000)
    stored = parts.offsets.encode()
    parts.code(halves[2], COMMIT)
    parts.offsets = ConsumerOffsets(parts.effects)
    parts.offsets.load(stored)
    parts.start_service()
    parts.later(INTERVAL_MS)
    assert [question.ext()["msgId"] for question in parts.asked()] == ["U1", "U4"]


def test_a_decision_that_was_not_written_is_open_again() -> None:
    files = SimulatedFiles()
    files.make_dir("/store")
    parts = Transactions(Path("/store"), files)
    half = parts.half()
    parts.later(2_000)
    written = parts.store.written_offset
    files.fail_next("write_at")
    parts.service.on_end(parts.channel, end_request(half, COMMIT), parts.now)
    with pytest.raises(FileFailed):
        parts.store.write_pending()
    files.faults_over()
    assert parts.store.written_offset == written
    parts.later(2_000)
    assert parts.progress() == (0, 0)  # not passed while it could still appear
    while parts.store.written_offset < written + 1000:
        parts.answer(send_request("Other"))
    parts.later(INTERVAL_MS)
    (question,) = parts.asked()
    assert parts.code(half, COMMIT, **from_check(question)) == 0
    assert len(parts.records("T", 2)) == 1
    parts.close()


def test_progress_waits_for_the_op_record_to_be_safe(parts: Transactions) -> None:
    half = parts.half()
    parts.later(1_000)
    parts.service.on_end(parts.channel, end_request(half, COMMIT), parts.now)
    parts.service.tick(parts.now + 1_000, 1000)  # nothing was written yet
    assert parts.progress() == (0, 0)
    parts.settle()
    parts.service.tick(parts.now + 2_000, 1000)
    assert parts.progress() == (1, 1)


@pytest.mark.parametrize("name", ["4.9.7-killed", "5.5.0-killed", "5.5.0-clean"])
def test_the_table_of_a_java_store(name: str, tmp_path: Path) -> None:
    """What Java left undecided is what no op record of the manifest names."""
    golden = golden_store(name)
    shutil.copytree(golden.root, tmp_path / "store")
    store = MessageStore(RealFiles(), str(tmp_path / "store"), golden.shape)
    store.load(NOW)
    store.dispatch(1_000_000, NOW)
    offsets = ConsumerOffsets(Effects())
    offsets.load((tmp_path / "store/config/consumerOffset.json").read_bytes())
    halves = HalfMessages(store, offsets)
    begin = max(offsets.query(GROUP, HALF_TOPIC, 0), 0)
    assert name.endswith("killed") or any(
        key.endswith(f"@{GROUP}") for key in json.loads(offsets.encode())["offsetTable"]
    ), "Java's own name"
    assert halves.scan(1_000_000)
    stored = [entry for entry in golden.log() if entry["topic"] == HALF_TOPIC]
    ended = {record.prepared_transaction_offset for record in records_of(store, "golden_trans")}
    named = {offset for op in records_of(store, OP_HALF_TOPIC) for offset in half_offsets(op.body)}
    assert stored and ended
    for entry in stored:
        if entry["queueOffset"] >= begin:
            assert halves.is_decided(entry["queueOffset"]) == (entry["queueOffset"] in named), entry
        assert entry["physicalOffset"] not in ended or halves.is_decided(entry["queueOffset"]), entry
    store.close(NOW)


def records_of(store: MessageStore, topic: str) -> list[Record]:
    found = [unit for queue_id in store.queue_ids(topic) for unit in store.units(topic, queue_id, 0, 10_000)]
    return [record for at, size, _ in found if (record := store.record_at(at, size)) is not None]
