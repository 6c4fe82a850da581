"""A disk that takes no write leaves a line that says what to do, and no flood of them."""

import logging

import pytest

from bolide.node.loop.disk_failures import SAME_AGAIN_MS, DiskFailures
from bolide.store.disk.file_contract import DiskFull, FileFailed

LOG = logging.getLogger("test.disk_failures")


def test_a_line_names_what_where_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    failures = DiskFailures(LOG)
    failures.note("a write of the commit log", DiskFull("cannot write /store/1: no room"), 1000)
    failures.note("a write of the commit log", FileFailed("cannot write /store/1: I/O error"), 1000)
    assert caplog.messages == [
        "a write of the commit log failed: cannot write /store/1: no room; rejecting the requests that wait for it, "
        "the next request retries: make room on the disk",
        "a write of the commit log failed: cannot write /store/1: I/O error; rejecting the requests that wait "
        "for it, the next request retries: check the disk and its file system",
    ]
    assert [record.exc_info for record in caplog.records] == [None, None]


def test_the_same_failure_is_told_once_in_a_while_with_its_count(caplog: pytest.LogCaptureFixture) -> None:
    failures = DiskFailures(LOG)
    error = FileFailed("cannot write")
    for moment in range(0, SAME_AGAIN_MS, 100):
        failures.note("a write", error, moment)
    assert len(caplog.messages) == 1
    failures.note("a write", error, SAME_AGAIN_MS)
    assert len(caplog.messages) == 2
    assert f"({SAME_AGAIN_MS // 100 - 1} more times since the last line)" in caplog.messages[1]
    failures.note("a write", error, SAME_AGAIN_MS - 1)  # a clock that was set back
    assert len(caplog.messages) == 3


def test_another_failure_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    failures = DiskFailures(LOG)
    for number in range(3):
        failures.note("a write", FileFailed(f"cannot write {number}"), 5)
    assert len(caplog.messages) == 3
