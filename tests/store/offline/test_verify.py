"""Our own stores are whole: after a clean stop, while one runs, and after a power cut and the start that follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bolide.layout.checkpoint import decode_checkpoint
from bolide.layout.shape import ShapeOptions, StoreShape
from bolide.store.offline.inspect import inspect_store, shape_of
from bolide.store.offline.verify import verify_store
from proof.kit.small import TINY
from tests.store.scenario import ROOT, SHAPE, Machine, message

EXT = replace(SHAPE, enable_consume_queue_ext=True, consume_queue_ext_segment_size=256)
OLD = replace(SHAPE, store_version="4.9")
SHAPES = pytest.mark.parametrize("shape", [SHAPE, EXT, OLD], ids=["5.5", "ext", "4.9"])


@SHAPES
def test_a_store_of_ours_is_whole(shape: StoreShape) -> None:
    machine = Machine(shape=shape)
    for count in (1, 7, 40, 3, 90):
        machine.turn(count)
        machine.tick()
    machine.append_batch(12)
    machine.write()
    machine.flush()
    machine.store.close(machine.now)
    verdict = verify_store(machine.files, ROOT, shape)
    assert verdict.findings == []
    assert verdict.notes == []
    assert verdict.records == verdict.units == 153
    assert verdict.ext_units == (153 if shape.enable_consume_queue_ext else 0)
    assert verdict.index_entries == 153 * (2 if shape.tags_in_index else 1)


def test_a_record_that_can_be_in_no_queue_is_noted() -> None:
    machine = Machine()
    for topic in ("../../out", "n\0l"):
        machine.store.append(message(1, topic), machine.now)
    machine.turn(3)
    machine.store.close(machine.now)
    verdict = verify_store(machine.files, ROOT, SHAPE)
    assert verdict.findings == []
    assert (verdict.records, verdict.units) == (5, 3)
    assert len(verdict.notes) == 2 and "'../../out' with queue 1 cannot name a folder" in verdict.notes[0]


def test_inspect_agrees_with_the_store() -> None:
    machine = Machine()
    machine.turn(70)
    end = int(machine.store.end_offset)
    machine.store.close(machine.now)
    summary = inspect_store(machine.files, ROOT, SHAPE)
    assert (summary.log.records, summary.log.end_offset, summary.abort) == (70, end, False)
    assert [(queue.topic, queue.queue_id, queue.max_offset) for queue in summary.queues] == [
        ("T", 0, 24),
        ("T", 1, 23),
        ("T", 2, 23),
    ]
    assert shape_of(machine.files, ROOT, ShapeOptions(**TINY)) == SHAPE


def test_a_store_is_read_by_its_files_where_a_queue_file_ends_within_an_entry() -> None:
    machine = Machine()
    machine.turn(70)
    machine.store.close(machine.now)
    for name in machine.files.list_dir(f"{ROOT}/index"):
        machine.files.remove(f"{ROOT}/index/{name}")
    first = f"{ROOT}/consumequeue/T/0/{0:020d}"
    handle = machine.files.open(first)
    machine.files.truncate(handle, 187)
    machine.files.close(handle)
    shape = shape_of(machine.files, ROOT, None)
    assert (shape.commit_log_segment_size, shape.consume_queue_segment_size) == (4096, 200)


@SHAPES
@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_leaves_nothing_that_the_next_start_does_not_mend(shape: StoreShape, seed: int) -> None:
    machine = Machine(shape=shape)
    for turn in range(12):
        machine.turn(3 + turn)
        if turn % 4 == 3:
            machine.tick()
    machine.append(5)
    machine.write()
    machine.files.power_cut(seed)
    after = Machine(files=machine.files, shape=shape, now=machine.now)
    after.flush()
    after.turn(4)
    after.store.close(after.now)
    verdict = verify_store(after.files, ROOT, shape)
    assert verdict.findings == []
    assert verdict.records >= len(machine.acknowledged)


def test_files_that_are_too_short_to_be_read_are_findings() -> None:
    machine = Machine()
    machine.turn(20)
    machine.store.close(machine.now)
    (name,) = machine.files.list_dir(f"{ROOT}/index")
    for path, data in ((f"{ROOT}/index/{name}", b"ab"), (f"{ROOT}/deleted-topics", b"no mark\n")):
        machine.files.write_file(path, data)
    machine.files.remove(f"{ROOT}/index/{name}.bak")
    found = {finding.path: finding.sentence for finding in verify_store(machine.files, ROOT, SHAPE).findings}
    assert "the file ends at byte 2" in found[f"{ROOT}/index/{name}"]
    assert "is not a valid mark" in found[f"{ROOT}/deleted-topics"]


@pytest.mark.parametrize(
    ("field", "position"), [("physic_msg_timestamp", 0), ("logics_msg_timestamp", 8), ("index_msg_timestamp", 16)]
)
def test_times_of_a_checkpoint_after_the_newest_record_are_findings(field: str, position: int) -> None:
    machine = Machine()
    machine.turn(20)
    machine.store.close(machine.now)
    path = f"{ROOT}/checkpoint"
    checkpoint = decode_checkpoint(machine.files.read_file(path) or b"")
    machine.files.write_file(path, replace(checkpoint, **{field: machine.now + 1}).encode())
    (finding,) = verify_store(machine.files, ROOT, SHAPE).findings
    assert (finding.path, finding.position) == (path, position)
    assert f"its {field} {machine.now + 1} is later than every record of the log" in finding.sentence
    machine.files.write_file(f"{ROOT}/abort", b"")
    verdict = verify_store(machine.files, ROOT, SHAPE)
    assert verdict.findings == []
    assert any("may be newer than what was read" in note for note in verdict.notes)
