"""Copies of files: only data is written, and a file that disappears is no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.store.disk.copies import copy_file
from bolide.store.disk.files import FileFailed, RealFiles

LENGTH = 10 << 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    with path.open("wb") as file:
        file.write(b"first")
        file.seek(5 << 20)
        file.write(b"middle")
        file.truncate(LENGTH)
    return path


def test_copy_is_equal_and_as_sparse(source: Path, tmp_path: Path) -> None:
    counted: list[int] = []
    assert copy_file(RealFiles(), str(source), str(tmp_path / "copy"), LENGTH, counted.append)
    copy = tmp_path / "copy"
    assert copy.read_bytes() == source.read_bytes()
    assert copy.stat().st_blocks <= source.stat().st_blocks
    assert sum(counted) == 2 * 4096


@pytest.mark.parametrize("size", [0, 3, (5 << 20) + 2])
def test_bytes_after_the_size_are_zeros(size: int, source: Path, tmp_path: Path) -> None:
    assert copy_file(RealFiles(), str(source), str(tmp_path / "copy"), size, lambda count: None)
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()[:size].ljust(LENGTH, b"\0")


class Vanishing(RealFiles):
    """The file is deleted before it is opened."""

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        Path(path).unlink()
        return super().open(path, create, size)


def test_file_that_disappears_is_reported(source: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    assert not copy_file(RealFiles(), str(tmp_path / "missing"), copy, 1, lambda count: None)
    assert not copy_file(Vanishing(), str(source), copy, 1, lambda count: None)
    assert not Path(copy).exists()


def test_file_that_cannot_be_opened_is_an_error(source: Path, tmp_path: Path) -> None:
    files = RealFiles()
    with pytest.raises(FileFailed, match="cannot open"):
        copy_file(files, str(source), str(tmp_path / "no" / "copy"), 1, lambda count: None)
    assert not files._paths, "the source is closed"
