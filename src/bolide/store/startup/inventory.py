"""The file `derived.json`: the end of the log at a clean stop, the offset at which the next start begins to check, and
the existing queue and index files.

It lets the next start detect missing files. Java ignores the file, and does not detect a lost queue folder. The file is
valid for one start, which removes it. Files that another broker has removed since are rebuilt, which costs only time.
"""

from __future__ import annotations

import json

import msgspec

from bolide.store.disk.files import Files
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.queues.consume_queues import ConsumeQueues

NAME = "derived.json"
SMALL_LOG = 16 * 1024 * 1024
"""Maximum log size that is read completely after a clean stop without an inventory (a store closed by Java)."""


class _Noted(msgspec.Struct):
    logEnd: int = -1
    checkFrom: tuple[int, int] = (-1, -1)
    queues: dict[str, dict[int, tuple[int, int]]] = {}
    index: list[str] = []


def write_inventory(files: Files, root: str, log: CommitLog, queues: ConsumeQueues, index: IndexService) -> None:
    """Write the inventory. After a crash before this, the file `abort` exists, and the inventory is not read."""
    table: dict[str, dict[str, list[int]]] = {}
    for queue in queues.all_queues():
        first = int(queue.segments.min_offset)
        table.setdefault(queue.topic, {})[str(queue.queue_id)] = [first, int(queue.max_offset)]
    names = [file.path.rpartition("/")[2] for file in index.index_files()]
    ends = {"logEnd": int(log.written_offset), "checkFrom": [int(log.check_from), int(log.next_check_from)]}
    text = json.dumps({**ends, "queues": table, "index": names})
    files.write_file(f"{root}/{NAME}", text.encode())


def read_inventory(files: Files, root: str) -> dict[str, object] | None:
    """Return the contents of the file, or None if it is missing or unreadable."""
    data = files.read_file(f"{root}/{NAME}")
    if data is None:
        return None
    try:
        return msgspec.structs.asdict(msgspec.json.decode(data, type=_Noted))
    except (ValueError, RecursionError):  # msgspec's errors are among these
        return None


def drop_inventory(files: Files, root: str) -> None:
    """Remove the file before the store changes. A rejected start keeps it for the next start."""
    files.remove(f"{root}/{NAME}")
    files.remove(f"{root}/{NAME}.bak")


def log_end_of(found: dict[str, object] | None) -> int:
    """Return the end of the log at the clean stop, or -1 if it was not recorded."""
    end = found.get("logEnd") if found is not None else None
    return end if isinstance(end, int) else -1


def check_from_of(found: dict[str, object] | None) -> tuple[int, int]:
    """Return `CommitLog.check_from` and `next_check_from` at the clean stop, or (-1, -1) if they were not recorded."""
    noted = found.get("checkFrom") if found is not None else None
    return noted if isinstance(noted, tuple) else (-1, -1)


def something_is_missing(found: dict[str, object], queues: ConsumeQueues, index: IndexService) -> bool:
    """Return whether derived files are missing. Deletes queues and an index that have lost files, because a gap cannot
    be filled."""
    missing = False
    names = {file.path.rpartition("/")[2] for file in index.index_files()}
    noted = found.get("index")
    if index.enabled and isinstance(noted, list) and not names.issuperset(noted):
        index.destroy()
        missing = True
    table = found.get("queues")
    for topic, by_id in table.items() if isinstance(table, dict) else ():
        for queue_id, (first, end) in by_id.items():
            queue = queues.get(topic, queue_id)
            if queue is None:
                missing = missing or end > 0
            elif queue.max_offset < end or queue.segments.min_offset > first:
                queue.destroy()
                missing = True
    return missing
