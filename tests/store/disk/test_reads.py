"""Reads that wait for no disk: what is missing is named, and what was fetched for a request is found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.store.disk.extents import Extent
from bolide.store.disk.files import FileFailed
from bolide.store.disk.handles import HandleCache
from bolide.store.disk.reads import MAX_MISSING, PAGE, WINDOW, ColdRead, Fetched
from tests.store.parts import ColdFiles

TEXT = bytes(range(256)) * 512


@pytest.fixture
def cache(tmp_path: Path) -> HandleCache:
    (tmp_path / "f").write_bytes(TEXT)
    files = ColdFiles()
    files.cold = True
    return HandleCache(files)


def fetch(cache: HandleCache, fetched: Fetched, missing: list[Extent]) -> None:
    for extent in missing:
        fetched.add(extent, cache.files.fetch(extent.path, extent.offset, extent.size))


def test_a_read_waits_unless_it_is_told_not_to(cache: HandleCache, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert cache.read(path, 10, 5) == TEXT[5:15]
    cache.reads.begin(Fetched(), False)
    with pytest.raises(ColdRead, match=r"10 bytes at 5 of .*/f are not in memory"):
        cache.read(path, 10, 5)
    (missing,) = cache.reads.end()
    assert (missing.path, missing.offset, missing.size) == (path, 0, WINDOW)
    assert cache.read(path, 10, 5) == TEXT[5:15]


def test_fetched_data_is_found_without_page_cache(cache: HandleCache, tmp_path: Path) -> None:
    path, fetched = str(tmp_path / "f"), Fetched()
    places = [(10, 3 * PAGE - 5), (2 * WINDOW, 100), (64, len(TEXT) - 20), (10, len(TEXT) + 2 * WINDOW)]
    for size, offset in places:
        cache.reads.begin(fetched, False)
        with pytest.raises(ColdRead):
            cache.read(path, size, offset)
        fetch(cache, fetched, cache.reads.end())
    cache.reads.begin(fetched, False)
    for size, offset in places:
        assert cache.read(path, size, offset) == TEXT[offset : offset + size]
    assert cache.reads.end() == []
    assert fetched.size > 3 * WINDOW


def test_places_that_do_not_depend_on_each_other_are_named_in_one_go(cache: HandleCache, tmp_path: Path) -> None:
    path, fetched = str(tmp_path / "f"), Fetched()
    cache.reads.begin(fetched, True)
    assert [cache.read(path, 10, offset) for offset in (5, 7, 2 * WINDOW)] == [b""] * 3
    missing = cache.reads.end()
    assert [extent.offset for extent in missing] == [0, 2 * WINDOW]
    cache.reads.begin(fetched, True)
    with pytest.raises(ColdRead):
        for number in range(MAX_MISSING + 1):
            cache.read(path, 1, number * WINDOW)
    assert len(cache.reads.end()) == MAX_MISSING


def test_a_place_that_cannot_be_read_is_an_error_and_nothing_else(cache: HandleCache, tmp_path: Path) -> None:
    path, fetched = str(tmp_path / "f"), Fetched()
    fetched.add(Extent(path, 0, WINDOW), b"", "the disk is broken")
    cache.reads.begin(fetched, True)
    with pytest.raises(FileFailed, match="the disk is broken"):
        cache.read(path, 10, 5)
    assert cache.read(path, 10, WINDOW) == b""
    assert len(cache.reads.end()) == 1


def test_a_file_that_is_gone_holds_nothing(cache: HandleCache, tmp_path: Path) -> None:
    path, fetched = str(tmp_path / "f"), Fetched()
    cache.get(path)
    (tmp_path / "f").unlink()
    cache.reads.begin(fetched, False)
    with pytest.raises(ColdRead):
        cache.read(path, 10, 5)
    fetch(cache, fetched, cache.reads.end())
    cache.reads.begin(fetched, False)
    assert cache.read(path, 10, 5) == b""
