"""The newest bytes of the log in memory: the bytes that were written, or none, and never more than the limit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.store.disk.files import DiskFull
from bolide.store.log.log_tail import LogTail
from bolide.store.options import StoreOptions
from bolide.store.reading.read import QueueReader
from tests.store.parts import SHAPE, OwnFiles, Parts, put_of


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 20).map(lambda one: one == 1)), max_size=400),
    st.sampled_from([0, 1_000, 20_000]),
    st.randoms(use_true_random=False),
)
def test_tail_returns_the_written_bytes(writes: list[tuple[int, bool]], limit: int, chance: object) -> None:
    tail, log = LogTail(limit), bytearray()
    for number, (size, gap) in enumerate(writes):
        if gap:
            log += bytes(100)
        data = bytes([number % 251 + 1]) * size
        tail.add(len(log), data)
        log += data
        assert 0 <= tail.size <= limit
    for _ in range(50):
        begin = chance.randrange(len(log) + 1)  # type: ignore[attr-defined]  # hypothesis gives a Random
        size = chance.randrange(len(log) + 2 - begin)  # type: ignore[attr-defined]  # as above
        view = tail.view(begin, size)
        assert view is None or (bytes(view) == log[begin : begin + size] and len(view) == size > 0)


def test_the_newest_bytes_are_kept_whatever_was_written_before() -> None:
    tail = LogTail(1_000)
    for number in range(1_000):
        tail.add(number * 10, b"%010d" % number)
        view = tail.view(number * 10, 10)
        assert view is not None and bytes(view) == b"%010d" % number
    view = tail.view(9_900, 100)
    assert view is not None and bytes(view) == b"".join(b"%010d" % number for number in range(990, 1_000))
    assert tail.view(9_900, 101) is None and tail.view(0, 10) is None
    assert len(tail._starts) < 600, "what is forgotten leaves the lists"


def test_oversized_write_empties_the_tail() -> None:
    tail = LogTail(1_000)
    tail.add(0, b"small")
    tail.add(5, bytes(1_000))
    assert tail.size == 0 and tail.view(0, 5) is None and tail.view(5, 1) is None
    tail.add(1_005, b"again")
    assert tail.view(1_005, 5) is not None


class CountedFiles(OwnFiles):
    """Real files that count what is read of them."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.full = False

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        self.reads += 1
        return super().read_at(handle, size, offset)

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        self.reads += 1
        return super().read_warm(handle, size, offset)

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        self.reads += 1
        return super().view_warm(handle, size, offset)

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        if self.full:
            super().write_at(handle, [buffers[0][: len(buffers[0]) // 2]], offset)
            raise DiskFull("no room")
        super().write_at(handle, buffers, offset)


def test_a_reader_at_the_end_of_the_log_asks_no_file(tmp_path: Path) -> None:
    files = CountedFiles()
    parts = Parts(tmp_path, files=files, options=StoreOptions())
    reader = QueueReader(parts.log, StoreOptions())
    for number in range(20):
        parts.append(put_of("T", 0, b"%d" % number))
        parts.append(put_of("T", 1, b"between"))
        parts.dispatch()
        before = files.reads
        result = reader.read(parts.queues.get("T", 0), number, 32, 1 << 20, None, None)
        assert result.message_count == 1 and b"%d" % number in bytes(result.buffers[0])
        assert files.reads == before


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_bytes_of_a_failed_write_are_never_read(tmp_path: Path, limit: int) -> None:
    files = CountedFiles()
    options = StoreOptions(tail_cache_bytes=limit)
    parts = Parts(tmp_path, files=files, options=options)
    parts.append(put_of("T", 0, b"first"))
    files.full = True
    with pytest.raises(DiskFull):
        parts.append(put_of("T", 0, b"lost"))
    files.full = False
    parts.next["T", 0] = 1
    parts.append(put_of("T", 0, b"second"))
    parts.dispatch()
    result = QueueReader(parts.log, options).read(parts.queues.get("T", 0), 0, 32, 1 << 20, None, None)
    data = b"".join(result.buffers)
    assert result.message_count == 2 and b"first" in data and b"second" in data and b"lost" not in data


def test_a_log_that_rolls_over_is_read_on_both_sides(tmp_path: Path) -> None:
    parts = Parts(tmp_path, shape=SHAPE, options=StoreOptions())
    for number in range(40):
        parts.append(put_of("T", 0, b"%03d" % number * 100))
    parts.dispatch()
    assert len(parts.log.segments.segment_starts()) > 3
    reader, queue = QueueReader(parts.log, StoreOptions()), parts.queues.get("T", 0)
    for number in range(40):
        result = reader.read(queue, number, 1, 1 << 20, None, None)
        assert b"%03d" % number * 100 in b"".join(result.buffers)
