"""Views of files: the bytes that a read gives, and only where they are in memory already."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bolide.store.disk.file_maps import MOST_BYTES, MOST_MAPS
from bolide.store.disk.files import RealFiles

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which pages of a file are in memory")

SIZE = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")


def opened(tmp_path: Path, files: RealFiles, size: int = SIZE) -> int:
    return files.open(str(tmp_path / "f"), True, size)


@pytest.mark.parametrize("offset", [0, 1, PAGE - 1, PAGE, 3 * PAGE + 17])
@pytest.mark.parametrize("size", [1, PAGE, 2 * PAGE + 1])
def test_a_view_is_what_a_read_gives(tmp_path: Path, offset: int, size: int) -> None:
    files = RealFiles()
    handle = opened(tmp_path, files)
    files.write_at(handle, [os.urandom(8 * PAGE)], 0)
    view = files.view_warm(handle, size, offset)
    assert view is not None and view.readonly
    assert bytes(view) == files.read_at(handle, size, offset)
    files.write_at(handle, [b"later"], 0)
    again = files.view_warm(handle, 5, 0)
    assert again is not None and bytes(again) == b"later", "what is written is seen at once"
    files.close(handle)


def test_pages_that_are_not_in_memory_are_not_touched(tmp_path: Path) -> None:
    """The holes of a sparse file have no pages before somebody reads them."""
    files = RealFiles()
    handle = opened(tmp_path, files, 64 * PAGE)
    files.write_at(handle, [bytes(PAGE)] * 2, 0)
    assert files.view_warm(handle, 2 * PAGE, 0) is not None
    assert files.view_warm(handle, 1, 60 * PAGE) is None
    assert files.view_warm(handle, 61 * PAGE, 0) is None, "one page is missing"
    files.read_at(handle, 1, 60 * PAGE)
    assert files.view_warm(handle, 1, 60 * PAGE) is not None
    files.close(handle)


def test_there_is_no_view_beyond_the_end(tmp_path: Path) -> None:
    files = RealFiles()
    handle = opened(tmp_path, files, 2 * PAGE)
    files.write_at(handle, [bytes(2 * PAGE)], 0)
    assert files.view_warm(handle, PAGE, PAGE) is not None
    assert files.view_warm(handle, PAGE + 1, PAGE) is None
    assert files.view_warm(handle, 1, 2 * PAGE) is None
    assert files.view_warm(handle, 0, 0) is None
    files.close(handle)


def test_there_is_no_view_of_what_somebody_cut_off(tmp_path: Path) -> None:
    """An access to a page beyond the end of a mapped file ends the process."""
    files = RealFiles()
    handle = opened(tmp_path, files, 8 * PAGE)
    files.write_at(handle, [b"x" * 8 * PAGE], 0)
    assert files.view_warm(handle, 8 * PAGE, 0) is not None
    os.truncate(tmp_path / "f", 3 * PAGE)
    assert files.view_warm(handle, 8 * PAGE, 0) is None
    assert files.view_warm(handle, 1, 3 * PAGE) is None
    view = files.view_warm(handle, 3 * PAGE, 0)
    assert view is not None and bytes(view) == b"x" * 3 * PAGE
    files.close(handle)


def test_a_view_is_no_longer_than_its_limit(tmp_path: Path) -> None:
    files = RealFiles()
    handle = opened(tmp_path, files, MOST_BYTES + PAGE)
    files.write_at(handle, [bytes(MOST_BYTES + PAGE)], 0)
    assert files.view_warm(handle, MOST_BYTES + 1, 0) is None
    view = files.view_warm(handle, MOST_BYTES, 1)
    assert view is not None and len(view) == MOST_BYTES
    files.close(handle)


def test_a_view_outlives_its_file(tmp_path: Path) -> None:
    files = RealFiles()
    handle = opened(tmp_path, files)
    files.write_at(handle, [b"kept" * PAGE], 0)
    view = files.view_warm(handle, 4, PAGE)
    files.close(handle)
    files.remove(str(tmp_path / "f"))
    assert view is not None and bytes(view) == b"kept"
    assert _maps_of(tmp_path) == 1
    del view
    assert _maps_of(tmp_path) == 0, "the disk's space is given back"


def test_a_handle_that_is_used_again_shows_its_new_file(tmp_path: Path) -> None:
    files = RealFiles()
    for number in range(3):
        handle = files.open(str(tmp_path / f"f{number}"), True, PAGE)
        files.write_at(handle, [b"%d" % number * PAGE], 0)
        view = files.view_warm(handle, PAGE, 0)
        assert view is not None and bytes(view) == b"%d" % number * PAGE
        files.close(handle)


def test_an_empty_file_has_no_view(tmp_path: Path) -> None:
    files = RealFiles()
    handle = files.open(str(tmp_path / "f"), True)
    assert files.view_warm(handle, 1, 0) is None
    files.close(handle)


def test_maps_are_limited_and_keep_no_descriptor(tmp_path: Path) -> None:
    files = RealFiles()
    handles = []
    before = len(os.listdir("/proc/self/fd"))
    for number in range(MOST_MAPS + 5):
        handle = files.open(str(tmp_path / f"f{number}"), True, PAGE)
        files.write_at(handle, [b"x"], 0)
        assert files.view_warm(handle, 1, 0) is not None
        handles.append(handle)
    assert _maps_of(tmp_path) == MOST_MAPS
    assert len(os.listdir("/proc/self/fd")) == before + len(handles)
    assert files.view_warm(handles[0], 1, 0) is not None, "mapped once more"
    for handle in handles:
        files.close(handle)
    assert _maps_of(tmp_path) == 0


def _maps_of(folder: Path) -> int:
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())
