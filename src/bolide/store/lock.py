"""Who uses a store folder, and how it was left: RocketMQ's files `lock` and `abort`."""

from __future__ import annotations

import posixpath

from bolide.store.files import Files


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


def mark_running(files: Files, root: str) -> None:
    """Leave the mark that only a clean close takes away; it holds the process id."""
    handle = files.open(root + "/abort", True)
    try:
        files.write_at(handle, [str(files.process_id()).encode()], 0)
    finally:
        files.close(handle)
    # Power cut before this line: no mark, and nothing was stored since the last clean close either. After it: the
    # next start recovers as after a crash. Without the sync the mark could be lost while messages were kept. That it
    # exists is what counts, so its content needs no sync.
    files.sync_dir(root)


def mark_closed(files: Files, root: str) -> None:
    """Take the mark away; everything must have been synced. A crash before leaves it, and costs a longer start."""
    files.remove(root + "/abort")
    files.sync_dir(root)
