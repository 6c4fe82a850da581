"""The lock of a store folder and its run marker: RocketMQ's files `lock` and `abort`."""

from __future__ import annotations

import posixpath

from msgspec import Struct

from bolide.store.disk.files import Files

_OURS = "bolide"


class RunMark(Struct, frozen=True):
    """Additional content of `abort` after the process id, written by Bolide. RocketMQ's brokers never read the file."""

    boot_id: str
    """Id of the host's boot and of the store's device. While it is unchanged, the page cache has lost no data."""
    run_id: int
    """Number of the run. The checkpoint's information about the log is valid only for the run with this number."""
    sync_flush: bool
    """Whether queues contain only records that were already on disk in the log."""


def lock_store(files: Files, root: str) -> int:
    """Create the folder and lock it like Java's broker. Raises `FileLocked` if it is in use."""
    made: list[str] = []
    path = root
    while posixpath.basename(path) and posixpath.basename(path) not in files.list_dir(posixpath.dirname(path) or "."):
        made.append(path)
        path = posixpath.dirname(path)
    files.make_dir(root)
    for path in made:
        # A power failure could otherwise remove the folder's name, and with it every synced file inside.
        files.sync_dir(posixpath.dirname(path) or ".")
    return files.lock(root + "/lock")


def was_killed(files: Files, root: str) -> bool:
    """Return whether the store was not closed cleanly (file `abort` exists)."""
    return files.size(root + "/abort") >= 0


def read_mark(files: Files, root: str) -> RunMark | None:
    """Return the marker of a killed broker, or None if it was RocketMQ's, or the marker is missing or torn."""
    lines = (files.read_file(root + "/abort") or b"").decode("ascii", "replace").splitlines()
    words = lines[1].split(" ") if len(lines) > 1 else []
    if len(words) != 4 or words[0] != _OURS or not words[2].isdigit() or words[3] not in ("SYNC", "ASYNC"):
        return None
    return RunMark(words[1], int(words[2]), words[3] == "SYNC")


def mark_running(files: Files, root: str, mark: RunMark) -> None:
    """Write the run marker that only a clean close removes: the process id, as in Java, and Bolide's additions."""
    how = "SYNC" if mark.sync_flush else "ASYNC"
    text = f"{files.process_id()}\n{_OURS} {mark.boot_id} {mark.run_id} {how}\n".encode()
    handle = files.open(root + "/abort", True)
    try:
        files.truncate(handle, 0)
        files.write_at(handle, [text], 0)
        # A power failure before this leaves the marker of the last run or an unreadable one. The log has not changed
        # since that run.
        files.datasync(handle)
    finally:
        files.close(handle)
    # A power failure before this line leaves no marker, but no message was stored since the last clean close either.
    # After it, the next start recovers as after a crash. Without the sync, the marker could be lost although messages
    # were stored.
    files.sync_dir(root)


def mark_closed(files: Files, root: str) -> None:
    """Remove `abort` after everything is synced. A crash before this line only makes the next start longer."""
    files.remove(root + "/abort")
    files.sync_dir(root)
