"""The golden stores by columns: the records of the manifest, Java's queue files and Java's index entries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bolide.dispatch.columns import dispatch_batch, index_batch, queue_units
from bolide.layout.columns import RecordColumns, entry_batch, find_starts, record_batch
from bolide.layout.index_file import decode_index_header, entry_position
from bolide.layout.record import BLANK, check_record
from tests.golden.stores import GoldenStore
from tests.layout.rows import as_row, as_rows


def test_records_are_those_of_the_manifest(golden: GoldenStore) -> None:
    found = []
    for start, data in golden.commit_log():
        starts = find_starts(data, start)
        assert starts.holes == []
        assert starts.cut == -1
        rows = as_rows(record_batch(data, starts.starts))
        assert rows == [as_row(data, at) for at in starts.starts.tolist()]
        found += [(row["physical_offset"], row["topic"], row["queue_offset"]) for row in rows]
    assert found == [(r["physicalOffset"], r["topic"], r["queueOffset"]) for r in golden.log()]


@pytest.mark.parametrize("cuts", [[0, 300_000, 700_001, 1 << 20], [0, 5, 524_288, 1 << 20]], ids=str)
def test_tasks_that_split_a_segment_find_each_record_once(golden: GoldenStore, cuts: list[int]) -> None:
    for start, data in golden.commit_log():
        whole = find_starts(data, start).starts.tolist()
        found = []
        for begin, end in itertools.pairwise(cuts):
            # A task owns the records that begin in its stretch, and reads on to the end of the last.
            here = find_starts(data[begin:], start + begin).starts + begin
            found += [at for at in here.tolist() if at < end]
        assert found == whole


def test_units_are_javas(golden: GoldenStore) -> None:
    if golden.shape.enable_consume_queue_ext or golden.killed:
        return
    queues: dict[tuple[str, int], bytes] = {}
    for start, data in golden.commit_log():
        batch = dispatch_batch(RecordColumns(data, find_starts(data, start).starts), golden.shape).to_pandas()
        for key, rows in batch[batch["in_queue"]].groupby(["topic", "queue_id"]):
            units = queue_units(rows["physical_offset"], rows["size"], rows["tags_code"])
            queues[key] = queues.get(key, b"") + units
    for topic, queue_id, segments in golden.queues():
        java = b"".join(data for _, data in segments)
        assert java[: len(queues[topic, queue_id])] == queues.pop((topic, queue_id))
    assert queues == {}


def test_index_entries_are_javas(golden: GoldenStore) -> None:
    made = [
        index_batch(RecordColumns(data, find_starts(data, start).starts), golden.shape)
        for start, data in golden.commit_log()
    ]
    slots = golden.shape.index_slots
    java = []
    for _, data in golden.index_files():
        count = decode_index_header(data).index_count
        java.append(entry_batch(data[entry_position(slots, 1) : entry_position(slots, count)]))
    for name in ("key_hash", "physical_offset"):
        ours = np.concatenate([batch.column(name).to_numpy() for batch in made])
        theirs = np.concatenate([batch.column(name).to_numpy() for batch in java])
        assert len(ours) == len(theirs) or golden.killed
        assert np.array_equal(ours[: len(theirs)], theirs)


def test_the_manifests_blanks_are_where_columns_end(golden: GoldenStore) -> None:
    blanks = [r["physicalOffset"] for r in golden.manifest["log"] if r.get("blank")]
    for start, data in golden.commit_log()[: len(blanks)]:
        last = int(find_starts(data, start).starts[-1])
        end = last + check_record(data, last, len(data), True).size
        assert start + end == blanks.pop(0)
        assert check_record(data, end, len(data), True).status == BLANK
