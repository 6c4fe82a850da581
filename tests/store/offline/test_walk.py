"""Walking a log in chunks of any size tells the same, on whole segments and on damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.layout.record import encode_blank
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import RealFiles
from bolide.store.offline.walk import CHUNK, End, Problem, Records, segment_files, strange_names, walk_segment
from tests.golden.stores import golden_store
from tests.layout.records import FIELDS
from tests.layout.strategies import encoded

SHAPE = StoreShape()


def walked(folder: Path, chunk: int = CHUNK) -> tuple[list[int], list[Problem], list[End]]:
    """Physical offsets, problems and ends of all segments of a folder."""
    offsets: list[int] = []
    problems: list[Problem] = []
    ends: list[End] = []
    for file in segment_files(RealFiles(), str(folder)):
        for step in walk_segment(RealFiles(), file, SHAPE, True, chunk):
            if isinstance(step, Records):
                assert step.physical_offset == step.dispatches[0].physical_offset
                offsets += [int(d.physical_offset) for d in step.dispatches]
            elif isinstance(step, Problem):
                problems.append(step)
            else:
                ends.append(step)
    return offsets, problems, ends


@pytest.mark.parametrize("chunk", [20_000, 524_288, CHUNK])
def test_chunks_do_not_show(chunk: int) -> None:
    golden = golden_store("5.5.0-killed")
    offsets, problems, ends = walked(golden.root / "commitlog", chunk)
    assert offsets == [r["physicalOffset"] for r in golden.log()]
    assert problems == []
    blanks = [r["physicalOffset"] for r in golden.manifest["log"] if r.get("blank")]
    assert [end.physical_offset for end in ends if end.blank] == blanks


def write(folder: Path, *parts: bytes | None) -> list[int]:
    """A segment of these parts, None being a record with its own offset; the records' offsets."""
    data = b""
    starts = []
    for part in parts:
        if part is None:
            starts.append(len(data))
            part = encoded({**FIELDS, "physical_offset": len(data)})
        data += part
    (folder / f"{0:020d}").write_bytes(data.ljust(4096, b"\0"))
    return starts


@pytest.mark.parametrize("chunk", [91, 150, CHUNK])
def test_damage_between_records(tmp_path: Path, chunk: int) -> None:
    size = len(encoded(FIELDS))
    broken = bytearray(encoded({**FIELDS, "physical_offset": 2 * size + 50}))
    broken[88] ^= 1
    odd = (size + 4).to_bytes(4, "big") + encoded(FIELDS)[4:] + b"\0" * 4
    starts = write(tmp_path, None, None, b"\x01" * 50, bytes(broken), odd, None)
    offsets, problems, ends = walked(tmp_path, chunk)
    assert offsets == [0, size, 2 * size + 50, starts[-1]]
    assert [(p.physical_offset, p.size) for p in problems] == [
        (2 * size, 50),
        (2 * size + 50, size),
        (3 * size + 50, size + 4),
    ]
    assert "CRC" in problems[1].sentence
    assert ends == [End(starts[-1] + size, blank=False)]


def test_a_torn_end(tmp_path: Path) -> None:
    size = len(encoded(FIELDS))
    write(tmp_path, None, encoded({**FIELDS, "physical_offset": size})[:-20])
    offsets, problems, ends = walked(tmp_path)
    assert offsets == [0]
    assert [(p.physical_offset, p.size) for p in problems] == [(size, size)]
    assert ends == [End(2 * size, blank=False)]


def test_the_blank(tmp_path: Path) -> None:
    size = len(encoded(FIELDS))
    write(tmp_path, None, encode_blank(4096 - size), b"old bytes")
    assert walked(tmp_path) == ([0], [], [End(size, blank=True)])


def test_names_that_are_no_segments(tmp_path: Path) -> None:
    write(tmp_path, None)
    (tmp_path / "note").write_text("x")
    (tmp_path / f"{7:020d}").mkdir()
    assert [file.start for file in segment_files(RealFiles(), str(tmp_path))] == [0]
    assert strange_names(RealFiles(), str(tmp_path)) == ["note"]


@pytest.mark.parametrize("delta", [-4, 4, 60])
def test_damaged_length_does_not_hide_the_record_that_follows(tmp_path: Path, delta: int) -> None:
    size = len(encoded(FIELDS))
    wrong = (size + delta).to_bytes(4, "big") + encoded({**FIELDS, "physical_offset": size})[4:]
    write(tmp_path, None, wrong, None, None)
    offsets, problems, _ = walked(tmp_path)
    assert offsets == [0, 2 * size, 3 * size]
    assert problems[0].physical_offset == size
    assert problems[-1].physical_offset + problems[-1].size == 2 * size
