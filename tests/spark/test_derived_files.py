"""Files made of columns, stretch by stretch, are those that dispatch makes record by record, odd logs included."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from librt.strings import BytesWriter

from bolide.dispatch.rebuild import Skipped, rebuild
from bolide.layout.message_id import encode_host
from bolide.layout.record import encode_record
from bolide.layout.shape import StoreShape
from bolide.spark.derived_files import index_file_count, write_index, write_queue
from bolide.spark.dispatch_parts import PartSummary, QueueRun, make_part
from bolide.spark.store_plan import plan_stretches

HOST = encode_host("127.0.0.1", 10911)
SHAPE = StoreShape(
    commit_log_segment_size=1 << 20,
    consume_queue_segment_size=10 * 20,
    consume_queue_ext_segment_size=164,
    index_slots=7,
    index_entries=12,
)


def log(seed: int) -> bytes:
    """A log with queues that begin late, leave gaps, go back and begin anew, and records with any number of keys."""
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
        encode_record(
            w, queue_id, 0, offset, len(w), sys_flag, store_timestamp, HOST, store_timestamp, HOST, 0, 0,
            bytes(rng.randrange(300)), topic.encode(), properties,
        )  # fmt: skip
    return w.getvalue()


@pytest.mark.parametrize("seed", range(24))
def test_columns_and_rows_write_the_same_files(tmp_path: Path, seed: int) -> None:
    shape = replace(SHAPE, enable_consume_queue_ext=seed % 3 == 0, store_version="4.9" if seed % 5 == 0 else "5.5")
    data = log(seed)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data.ljust(1 << 20, b"\0"))
    stretches = enumerate(plan_stretches(tmp_path, 5_000 + 997 * seed)[:12])
    parts = [make_part(part, shape, f"{tmp_path}/parts/{number}", number) for number, part in stretches]
    made = rebuild([(0, data)], shape)
    queues: dict[tuple[str, int], list[tuple[PartSummary, QueueRun]]] = {}
    for part in parts:
        for run in part.runs:
            queues.setdefault((run.topic, run.queue_id), []).append((part, run))
    skipped: list[Skipped] = []
    for runs in queues.values():
        skipped += write_queue(str(tmp_path / "out"), runs, shape)[1]
    expected = {}
    for (topic, queue_id), image in made.queues.items():
        for start, content in image.segments():
            name = f"consumequeue/{topic}/{queue_id}/{start:020d}"
            expected[name] = content.ljust(shape.consume_queue_segment_size, b"\0")
        for start, content in image.ext_segments():
            name = f"consumequeue_ext/{topic}/{queue_id}/{start:020d}"
            expected[name] = content.ljust(shape.consume_queue_ext_segment_size, b"\0")
    out = tmp_path / "out"
    assert {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()} == expected
    assert sorted(skip.physical_offset for skip in skipped) == [skip.physical_offset for skip in made.skipped]
    assert index_file_count(parts, shape) == len(made.index_files)
    for number, file in enumerate(made.index_files):
        write_index(str(out), parts, number, str(number), shape)
        java = file.encode()
        assert (out / "index" / str(number)).read_bytes() == java.ljust(40 + 4 * 7 + 20 * 12, b"\0")
