"""The native kernel: a pull gives the same result with it and without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.layout.hashes import tags_code
from bolide.layout.record import decode_records
from bolide.store.options import StoreOptions
from bolide.store.reading.read import QueueReader
from bolide.store.reading.read_result import ReadResult
from bolide.store.reading.read_runs import kernel_type
from proof.fuzz.targets.pulls import pulls
from tests.store.parts import SHAPE, ColdFiles, Parts, put_of

pytestmark = pytest.mark.skipif(kernel_type() is None, reason="the native kernel is not built here")


def filled(root: Path, count: int = 300, tail: int = 0, tags: str = "abc") -> Parts:
    """Messages in four queues, each with the next tag."""
    shape = replace(SHAPE, commit_log_segment_size=1 << 20, consume_queue_segment_size=20_000)
    parts = Parts(root, shape=shape, options=StoreOptions(tail_cache_bytes=tail), files=ColdFiles())
    for number in range(count):
        tag = tags[number // 4 % len(tags)]
        parts.append(put_of("T", number % 4, b"%03d" % number * 40, tags=tag))
    parts.dispatch()
    return parts


def pulled(parts: Parts, wanted: set[int] | None = None, count: int = 32) -> tuple[ReadResult, int]:
    """A pull of queue 1, and how many of its messages the kernel has found."""
    reader = QueueReader(parts.log, StoreOptions(max_transfer_count_on_message_in_memory=1024))
    result = reader.read(parts.queues.get("T", 1), 2, count, 1 << 30, wanted, None)
    assert reader.kernel is not None
    return result, reader.kernel.found()[0]


def bodies(result: ReadResult) -> list[bytes]:
    return [record.body for record in decode_records(b"".join(result.buffers))]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=700))
def test_any_pull_gives_the_same_by_the_kernel_and_without(data: bytes) -> None:
    pulls(data)


@pytest.mark.parametrize("tail", [0, 1 << 20], ids=["files", "tail"])
def test_the_kernel_serves_a_plain_pull(tmp_path: Path, tail: int) -> None:
    parts = filled(tmp_path, tail=tail)
    result, found = pulled(parts)
    assert found == result.message_count == 32
    assert bodies(result) == [b"%03d" % number * 40 for number in range(9, 9 + 4 * 32, 4)]
    assert len(result.buffers) == 1 and type(result.buffers[0]) is bytes
    parts.close()


def test_the_kernel_serves_a_pull_of_some_tags(tmp_path: Path) -> None:
    parts = filled(tmp_path)
    for tags in "b", "ab", "z":
        result, found = pulled(parts, {tags_code(tag) for tag in tags}, 1024)
        expected = [b"%03d" % (4 * at + 1) * 40 for at in range(2, 75) if "abc"[at % 3] in tags]
        assert found == result.message_count == len(expected)
        assert bodies(result) == expected
    parts.close()


def test_a_pull_of_more_tags_than_the_kernel_looks_for_is_served_without_it(tmp_path: Path) -> None:
    parts = filled(tmp_path)
    result, found = pulled(parts, set(range(50)) | {tags_code("a")})
    assert result.message_count == 24 and found == 0
    parts.close()


def test_cold_extents_are_returned(tmp_path: Path) -> None:
    parts = filled(tmp_path)
    files = parts.files
    assert isinstance(files, ColdFiles)
    parts.queues.flush()
    files.cold = True
    for _ in range(2):
        result, _found = pulled(parts)
        assert result.cold
        for extent in result.cold:
            files.warm(extent.path, int(extent.offset), int(extent.size))
    result, found = pulled(parts)
    assert result.cold == [] and found == result.message_count == 32
    parts.close()


@pytest.mark.parametrize("starts", [[(100, 50)], [(100, 50), (120, 50)], [(300, 50)]], ids=len)
def test_bytes_that_do_not_hold_the_records_are_refused(starts: list[tuple[int, int]]) -> None:
    kernel_class = kernel_type()
    assert kernel_class is not None
    kernel = kernel_class(1 << 62, 1 << 20, 99, 1 << 20, 99, 1000, 1 << 20, 1 << 14)
    assert kernel.begin(0, 1000, 1000, 99, 1 << 20, None)
    for at, (offset, size) in enumerate(starts):
        unit = offset.to_bytes(8, "big") + size.to_bytes(4, "big") + bytes(8)
        assert kernel.scan(unit, at) == 1
    span = kernel.next_span()
    assert span is not None
    with pytest.raises(ValueError, match="do not hold the records"):
        kernel.copied(bytes(span[1] - 1))
