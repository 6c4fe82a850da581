from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from proof.attack.fault_shim import CHANGES, Action, Call, Page, Rule

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the shim is Linux'")

SAID = """
import json, os, sys
from bolide.store.disk.files import FileFailed, RealFiles
files, folder, said = RealFiles(), sys.argv[1], []
def call(name, work):
    try:
        said.append([name, work()])
    except (OSError, FileFailed) as error:
        cause = error.__cause__ or error
        said.append([name, f"E{getattr(cause, 'errno', 0)}"])
"""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with closing(Page(tmp_path / "page", seed=1)) as made:
        yield made


def run(page: Page, folder: Path, code: str) -> tuple[int, list[list[Any]]]:
    """A child under the shim: its status, and what it said of each call."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, **page.environment(folder)}
    command = [sys.executable, "-c", SAID + code + "\nprint(json.dumps(said))", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else []


WRITES = """
handle = files.open(folder + "/commitlog", create=True, size=4096)
for number in range(4):
    call("write", lambda: files.write_at(handle, [b"0123456789"], 10 * number))
other = files.open(folder + "/queue", create=True, size=4096)
call("other", lambda: files.write_at(other, [b"x"], 0))
"""


def test_a_write_fails_where_a_rule_says(page: Page, tmp_path: Path) -> None:
    number = page.strike(Rule(Call.WRITE, Action.FAIL, errno.EIO, path="*/commitlog", skip=1, left=2))
    _, said = run(page, tmp_path / "store", WRITES)
    assert said == [["write", None], ["write", "E5"], ["write", "E5"], ["write", None], ["other", None]]
    assert page.hits(number) == 2
    assert page.total_hits() == 2


def test_a_rule_that_is_lifted_hits_nothing(page: Page, tmp_path: Path) -> None:
    page.lift(page.strike(Rule(CHANGES, Action.FAIL, errno.ENOSPC)))
    _, said = run(page, tmp_path / "store", WRITES)
    assert {outcome for _, outcome in said} == {None}


def test_files_outside_of_the_root_are_left_alone(page: Page, tmp_path: Path) -> None:
    page.strike(Rule(CHANGES | Call.OPEN | Call.READ, Action.FAIL, errno.EIO))
    outside = tmp_path / "outside"
    outside.mkdir()
    _, said = run(page, tmp_path / "store", WRITES.replace("folder", repr(str(outside))))
    assert {outcome for _, outcome in said} == {None}


def test_short_writes_are_completed_by_the_caller(page: Page, tmp_path: Path) -> None:
    number = page.strike(Rule(Call.WRITE, Action.SHORT, chance=0.5))
    _, said = run(page, tmp_path / "store", WRITES)
    assert {outcome for _, outcome in said} == {None}
    assert (tmp_path / "store" / "commitlog").read_bytes()[:40] == b"0123456789" * 4
    assert page.hits(number) > 0


def test_a_torn_write_leaves_some_of_its_bytes_and_fails(page: Page, tmp_path: Path) -> None:
    page.strike(Rule(Call.WRITE, Action.TORN, errno.EIO, path="*/commitlog", left=1))
    _, said = run(page, tmp_path / "store", WRITES)
    assert said[0] == ["write", "E5"]
    first = (tmp_path / "store" / "commitlog").read_bytes()[:10].rstrip(b"\0")
    assert b"0123456789".startswith(first) and len(first) < 10


@pytest.mark.parametrize("action", [Action.KILL_BEFORE, Action.KILL_TORN, Action.KILL_AFTER], ids=lambda one: one.name)
def test_a_process_dies_at_a_call(page: Page, tmp_path: Path, action: Action) -> None:
    page.strike(Rule(Call.WRITE, action, path="*/commitlog", skip=2, left=1))
    status, _ = run(page, tmp_path / "store", WRITES)
    assert status == -signal.SIGKILL
    written = len((tmp_path / "store" / "commitlog").read_bytes().rstrip(b"\0"))
    assert written == {Action.KILL_BEFORE: 20, Action.KILL_AFTER: 30}.get(action, written)
    assert 20 <= written <= 30


CALLS = """
handle = files.open(folder + "/file", create=True, size=8192)
call("sync", lambda: files.datasync(handle))
call("sync folder", lambda: files.sync_dir(folder))
call("sync disk", lambda: files.sync_file_systems({folder}))
call("truncate", lambda: files.truncate(handle, 4096))
call("reserve", lambda: files.reserve(handle, 0, 8192))
call("reserve new", lambda: files.reserve_new(handle, 8192))
call("unnamed", lambda: files.open_unnamed(folder) and None)
call("table", lambda: files.write_file(folder + "/table", b"one"))
call("table again", lambda: files.write_file(folder + "/table", b"two"))
call("rename", lambda: files.rename(folder + "/table", folder + "/other"))
call("delete", lambda: files.remove(folder + "/other"))
call("make", lambda: files.make_dir(folder + "/sub"))
call("read", lambda: files.read_at(handle, 10, 0) and None)
call("fetch", lambda: files.fetch(folder + "/file", 0, 10) and None)
call("room", lambda: files.disk_use(folder))
"""
MET = {
    Call.SYNC: {"sync", "sync folder", "sync disk", "table", "table again"},
    Call.TRUNCATE: {"truncate"},
    Call.ALLOCATE: {"reserve", "reserve new"},
    Call.CREATE: {"unnamed", "table", "table again"},
    Call.RENAME: {"table", "table again", "rename"},
    Call.LINK: {"table again"},
    Call.UNLINK: {"delete"},
    Call.MKDIR: {"make"},
    Call.READ: {"read", "fetch"},
}


@pytest.mark.parametrize("kind", MET, ids=lambda one: one.name)
def test_each_call_of_the_store_can_fail(page: Page, tmp_path: Path, kind: Call) -> None:
    # The first file is made without the fault.
    page.strike(Rule(kind, Action.FAIL, errno.EDQUOT, skip=1 if kind in (Call.TRUNCATE, Call.CREATE) else 0))
    _, said = run(page, tmp_path / "store", CALLS)
    failed = {name for name, outcome in said if str(outcome).startswith("E")}
    assert MET[kind] <= failed


def test_a_full_disk_has_no_room(page: Page, tmp_path: Path) -> None:
    page.strike(Rule(Call.STATVFS, Action.FAIL, errno.ENOSPC))
    _, said = run(page, tmp_path / "store", CALLS)
    assert dict(map(tuple, said))["room"] == 1.0


CLOCKS = """
import time
said.append(["wall", time.time()])
said.append(["steady", time.monotonic()])
said.append(["boot", time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e9])
"""


def test_only_the_wall_clock_moves(page: Page, tmp_path: Path) -> None:
    page.clock(-86_400)
    before = (time.time(), time.monotonic())
    _, said = run(page, tmp_path / "store", CLOCKS)
    after = (time.time(), time.monotonic())
    found = dict(said)
    assert before[0] - 86_401 <= found["wall"] <= after[0] - 86_399
    assert before[1] <= found["steady"] <= after[1]
    assert page.clock_ahead == -86_400


def test_a_process_that_runs_meets_a_new_rule(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    code = (
        SAID
        + 'handle = files.open(folder + "/file", create=True, size=10)\n'
        + (
            'for line in sys.stdin:\n    call("write", lambda: files.write_at(handle, [b"x"], 0))\n'
            "    print(said[-1][1], flush=True)\n"
        )
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        env={**os.environ, **page.environment(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def asked() -> str:
            assert process.stdin is not None and process.stdout is not None
            print(file=process.stdin, flush=True)
            return process.stdout.readline().strip()

        assert asked() == "None"
        number = page.strike(Rule(Call.WRITE, Action.FAIL, errno.ENOSPC))
        assert asked() == f"E{errno.ENOSPC}"
        page.lift(number)
        assert asked() == "None"
