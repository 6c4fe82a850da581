"""Whatever of the log can be had as a view, a pull gets the records that a plain read of the files gives it."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bolide.layout.hashes import tags_code
from bolide.layout.record import decode_records
from bolide.store.options import StoreOptions
from bolide.store.reading.read import QueueReader
from tests.store.parts import SHAPE, OwnFiles, Parts, put_of

QUEUES = 3
TAGS = "abc"
SIZES = st.sampled_from([0, 10, 300, 3_000, 20_000])
RECORDS = st.lists(st.tuples(st.integers(0, QUEUES - 1), SIZES, st.sampled_from(TAGS)), min_size=20, max_size=60)
PULLS = st.lists(
    st.tuples(
        st.integers(0, QUEUES - 1),
        st.integers(-1, 21),
        st.integers(1, 40),
        st.sampled_from([1, 500, 5_000, 1 << 30]),
        st.sampled_from(["", "a", "ab", "z"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)
SHAPES = {
    size: replace(SHAPE, commit_log_segment_size=size, consume_queue_segment_size=400) for size in (1 << 15, 1 << 20)
}


class SomeViews(OwnFiles):
    """Real files that refuse a part of the views: as many in seven as is said."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0
        self.given = 0

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        if (offset // 100 + size) % 7 < self.refused:
            return None
        view = super().view_warm(handle, size, offset)
        self.given += view is not None
        return view


def test_records_of_several_queues_come_out_of_views(tmp_path: Path) -> None:
    files = SomeViews()
    parts = Parts(tmp_path, shape=replace(SHAPES[1 << 20], consume_queue_segment_size=20_000), files=files)
    for number in range(300):
        parts.append(put_of("T", number % 4, b"%03d" % number * 100))
    parts.dispatch()
    result = QueueReader(parts.log, StoreOptions()).read(parts.queues.get("T", 1), 0, 32, 1 << 30, None, None)
    bodies = [record.body for record in decode_records(b"".join(result.buffers))]
    assert bodies == [b"%03d" % number * 100 for number in range(1, 129, 4)]
    assert result.message_count == 32 and len(result.buffers) == 1
    assert type(result.buffers[0]) is bytes, "a copy: nothing of the map is kept"
    assert files.given == (sys.platform == "linux"), "one look at the pages for all of them"


@given(RECORDS, PULLS, st.sampled_from(sorted(SHAPES)), st.integers(1, 6))
def test_a_pull_finds_the_same_with_views_without_them_and_with_some(
    records: list[tuple[int, int, str]],
    pulls: list[tuple[int, int, int, int, str, bool]],
    segment: int,
    refused: int,
) -> None:
    with tempfile.TemporaryDirectory() as root:
        files = SomeViews()
        parts = Parts(Path(root), shape=SHAPES[segment], files=files)
        for number, (queue_id, size, tag) in enumerate(records):
            parts.append(put_of("T", queue_id, bytes([number]) * size, tags=tag, n=str(number % 4)))
        parts.dispatch()
        reader = QueueReader(parts.log, StoreOptions())
        for queue_id, offset, count, most, tags, expression in pulls:
            queue = parts.queues.get("T", queue_id)
            codes = {tags_code(tag) for tag in tags} if tags else None
            found = []
            for files.refused in (7, 0, refused):
                result = reader.read(queue, offset, count, most, codes, _odd if expression else None)
                assert result.cold == []
                found.append(
                    (
                        *(result.status, result.next_begin_offset, result.message_count, result.size),
                        *(result.last_physical_offset, b"".join(result.buffers)),
                    )
                )
            assert found[0] == found[1] == found[2]
            assert len(found[0][-1]) == found[0][3]
        parts.handles.close()


def _odd(raw: bytes) -> bool:
    return b"n\x011" in raw or b"n\x013" in raw
