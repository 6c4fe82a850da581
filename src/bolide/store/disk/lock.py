"""Who uses a store folder, and how it was left: RocketMQ's files `lock` and `abort`."""

from __future__ import annotations

import posixpath

from msgspec import Struct

from bolide.store.disk.files import Files

_OURS = "bolide"


class RunMark(Struct, frozen=True):
    """What our broker writes into `abort` after its process id; RocketMQ's brokers never read the file."""

    boot_id: str
    """The id of the machine's start and of the store's device at that time: while it is the same, the page cache lost
    nothing."""
    run_id: int
    """The number of its run: what the checkpoint says of the log is valid for this run only."""
    sync_flush: bool
    """Queues then hold only what was on disk in the log before."""


def lock_store(files: Files, root: str) -> int:
    """Make the folder and take its lock, as Java's broker does; raises `FileLocked` when somebody has it."""
    made: list[str] = []
    path = root
    while posixpath.basename(path) and posixpath.basename(path) not in files.list_dir(posixpath.dirname(path) or "."):
        made.append(path)
        path = posixpath.dirname(path)
    files.make_dir(root)
    for path in made:
        # A power cut could otherwise take the folder's own name, and with it every synced file inside.
        files.sync_dir(posixpath.dirname(path) or ".")
    return files.lock(root + "/lock")


def was_killed(files: Files, root: str) -> bool:
    """True when the one who used the store before did not close it."""
    return files.size(root + "/abort") >= 0


def read_mark(files: Files, root: str) -> RunMark | None:
    """The mark of the broker that was killed; None when that was RocketMQ's, or the mark is missing or torn."""
    lines = (files.read_file(root + "/abort") or b"").decode("ascii", "replace").splitlines()
    words = lines[1].split(" ") if len(lines) > 1 else []
    if len(words) != 4 or words[0] != _OURS or not words[2].isdigit() or words[3] not in ("SYNC", "ASYNC"):
        return None
    return RunMark(words[1], int(words[2]), words[3] == "SYNC")


def mark_running(files: Files, root: str, mark: RunMark) -> None:
    """Write the mark that only a clean close removes: the process id, as in Java, and what we add."""
    how = "SYNC" if mark.sync_flush else "ASYNC"
    text = f"{files.process_id()}\n{_OURS} {mark.boot_id} {mark.run_id} {how}\n".encode()
    handle = files.open(root + "/abort", True)
    try:
        files.truncate(handle, 0)
        files.write_at(handle, [text], 0)
        # Power cut before: the mark of the last run, or none that can be read; the log is as that run left it.
        files.datasync(handle)
    finally:
        files.close(handle)
    # Power cut before this line: no mark, and nothing was stored since the last clean close either. After it: the
    # next start recovers as after a crash. Without the sync the mark could be lost while messages were kept.
    files.sync_dir(root)


def mark_closed(files: Files, root: str) -> None:
    """Take the mark away; everything must have been synced. A crash before leaves it, and costs a longer start."""
    files.remove(root + "/abort")
    files.sync_dir(root)
