"""Files made of columns, stretch by stretch, are those that dispatch makes record by record, odd logs included."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from librt.strings import BytesWriter

from bolide.dispatch.rebuild import Rebuild, Skipped, rebuild
from bolide.layout.message_id import encode_host
from bolide.layout.shape import StoreShape
from bolide.spark.dispatch.derived_files import write_queue
from bolide.spark.dispatch.dispatch_parts import PartFiles, PartSummary, make_part
from bolide.spark.dispatch.dispatch_plan import bundles, index_names, index_tasks, next_state
from bolide.spark.dispatch.dispatch_state import DerivedState
from bolide.spark.dispatch.index_pieces import write_index
from bolide.spark.dispatch.output_files import OutputFiles
from bolide.spark.store.store_plan import plan_stretches
from tests.layout.records import put_record

HOST = encode_host("127.0.0.1", 10911)
SHAPE = StoreShape(
    commit_log_segment_size=1 << 20,
    consume_queue_segment_size=10 * 20,
    consume_queue_ext_segment_size=164,
    index_slots=7,
    index_entries=12,
)


def log(seed: int) -> bytes:
    """A log with queues that begin late, leave gaps, go back and start again, and records with any number of keys."""
    rng = random.Random(seed)
    w = BytesWriter()
    queues = {(topic, queue): rng.choice([0, 0, 3, 27]) for topic in ("a", "ü" * 60, "c" * 200) for queue in (0, 5)}
    store_timestamp = 1_700_000_000_000
    for _ in range(rng.randrange(1, 120)):
        topic, queue_id = rng.choice(list(queues))
        offset = queues[topic, queue_id]
        queues[topic, queue_id] = offset + 1
        odd = rng.random()
        if seed % 2 and odd < 0.1:
            queues[topic, queue_id] = rng.choice([0, offset, offset + 3])
        names = {"UNIQ_KEY": f"u{odd}", "KEYS": " ".join("k" * rng.randrange(1, 4) for _ in range(3)), "TAGS": "tag"}
        kept = {name: text for name, text in names.items() if rng.random() < 0.5}
        properties = "".join(f"{name}\1{text}\2" for name, text in kept.items()).encode()
        store_timestamp += rng.choice([0, 1, 400, 70_000])
        sys_flag = rng.choice([0, 0, 0, 4, 8, 12])
        put_record(
            w, topic, bytes(rng.randrange(300)), properties, queue_id=queue_id, queue_offset=offset,
            physical_offset=len(w), sys_flag=sys_flag, store_timestamp=store_timestamp, born_timestamp=store_timestamp,
        )  # fmt: skip
    return w.getvalue()


@pytest.mark.parametrize("seed", range(24))
def test_columns_and_rows_write_the_same_files(tmp_path: Path, seed: int) -> None:
    shape = replace(SHAPE, enable_consume_queue_ext=seed % 3 == 0, store_version="4.9" if seed % 5 == 0 else "5.5")
    data = log(seed)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data.ljust(1 << 20, b"\0"))
    stretches = list(enumerate(plan_stretches(tmp_path, 5_000 + 997 * seed)[:12]))
    made = rebuild([(0, data)], shape)
    out = OutputFiles(str(tmp_path / "out"))
    state = DerivedState()
    skipped: list[Skipped] = []
    # All at once, or in batches that continue where the previous one ended.
    step = len(stretches) if seed % 4 < 2 else 1 + seed % 5
    for at in range(0, len(stretches), step):
        some = stretches[at : at + step]
        parts = [make_part([part], shape, f"{tmp_path}/parts/{number}", number) for number, part in some]
        state, odd = write_all(out, parts, state, shape)
        skipped += odd
    expected = {}
    for (topic, queue_id), image in made.queues.items():
        for start, content in image.segments():
            name = f"consumequeue/{topic}/{queue_id}/{start:020d}"
            expected[name] = content.ljust(shape.consume_queue_segment_size, b"\0")
        for start, content in image.ext_segments():
            name = f"consumequeue_ext/{topic}/{queue_id}/{start:020d}"
            expected[name] = content.ljust(shape.consume_queue_ext_segment_size, b"\0")
    names = [f"index/{name}" for name in state.index]
    for name, file in zip(names, made.index_files, strict=True):
        expected[name] = file.encode().ljust(40 + 4 * 7 + 20 * 12, b"\0")
    folder = tmp_path / "out"
    assert {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == expected
    assert names == sorted(names)
    assert sorted(skip.physical_offset for skip in skipped) == [skip.physical_offset for skip in made.skipped]
    assert (state.entries, state.last_offset) == (
        sum(int(file.header.index_count) - 1 for file in made.index_files),
        parts_last(made, data),
    )


def test_a_name_that_leads_elsewhere_has_no_queue(tmp_path: Path) -> None:
    """As in a broker: records from another's hand, whose files would lie outside of the folder."""
    w = BytesWriter()
    for topic, queue_id in (("../../out", 0), ("T", 0), ("n\0l", 0), ("T", -1), ("..", 0)):
        put_record(w, topic, properties=b"KEYS\1k\2", queue_id=queue_id, physical_offset=len(w))
    (tmp_path / "a" / "commitlog").mkdir(parents=True)
    (tmp_path / "a" / "commitlog" / f"{0:020d}").write_bytes(w.getvalue().ljust(1 << 20, b"\0"))
    stretches = list(enumerate(plan_stretches(tmp_path / "a", 1 << 20)))
    parts = [make_part([part], SHAPE, f"{tmp_path}/parts/{number}", number) for number, part in stretches]
    out = tmp_path / "b" / "c"
    state, _ = write_all(OutputFiles(str(out)), parts, DerivedState(), SHAPE)
    assert [part.name for part in (tmp_path / "b").iterdir()] == ["c"]
    made = [str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()]
    assert [path for path in made if not path.startswith("index/")] == [f"consumequeue/T/0/{0:020d}"]
    assert state.entries == 5


def write_all(
    out: OutputFiles, parts: list[PartSummary], state: DerivedState, shape: StoreShape
) -> tuple[DerivedState, list[Skipped]]:
    """The second stage of the job, without Spark; large files in two pieces."""
    with PartFiles([part.file for part in parts]) as files:
        names = index_names(parts, files, state, shape)
        for task in index_tasks(files, state, names, out.path(""), shape, 2):
            assert task.piece is not None
            write_index(out, files, task.piece, shape)
        ends = {}
        skipped: list[Skipped] = []
        for task in bundles(parts, state.queues, 3):
            for queue in task.queues:
                written = write_queue(out, files, queue, shape)
                ends[queue.topic, queue.queue_id] = written.end
                skipped += written.skipped
        after = next_state(parts, files, state, names, ends, shape)
    for name in set(state.index) - set(after.index):
        Path(out.path(f"index/{name}")).unlink()
    out.sync()
    return after, skipped


def parts_last(made: Rebuild, data: bytes) -> int:
    """Physical offset of the last record."""
    at, last = 0, -1
    while at < made.end_offset:
        last, at = at, at + int.from_bytes(data[at : at + 4], "big")
    return last
