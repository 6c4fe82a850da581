"""preadv2 and mincore by the native kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bolide.store.disk.system_calls import is_resident_call, read_nowait_call

pytestmark = [
    pytest.mark.skipif(read_nowait_call() is None, reason="the native kernel is not built here"),
    pytest.mark.skipif(sys.platform != "linux", reason="the calls are Linux'"),
]

PAGE = os.sysconf("SC_PAGE_SIZE")
NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


def test_a_read_gives_what_the_file_has(tmp_path: Path) -> None:
    read = read_nowait_call()
    assert read is not None
    text = os.urandom(3 * PAGE)
    (tmp_path / "f").write_bytes(text)
    handle = os.open(tmp_path / "f", os.O_RDONLY)
    for offset, size in ((0, 10), (17, 2 * PAGE), (3 * PAGE - 5, 100), (3 * PAGE, 1), (0, 0)):
        assert read(handle, size, offset, NOWAIT) == text[offset : offset + size]
    os.close(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        read(handle, 1, 0, NOWAIT)


def test_pages_are_in_memory_or_not(tmp_path: Path) -> None:
    resident = is_resident_call()
    assert resident is not None
    with pytest.raises(OSError, match="Bad file descriptor"):
        resident(-1, 0, 0, 1, PAGE)
    (tmp_path / "f").write_bytes(b"short")
    handle = os.open(tmp_path / "f", os.O_RDONLY)
    assert not resident(handle, 0, 0, 6, PAGE), "longer than the file"
    os.close(handle)
