"""Rejects a store if another folder shares one of its writable files through hard links (``cp -al`` without
`lock`).

Both brokers would write the same file, and the lock does not stop them because each folder has a separate lock. A copy
that also links `lock` is locked together with the original, but is rejected here too.

Only files that are written in place are checked. Sealed log files are not overwritten while they have a second name
(`store.disk.segments.unshare`), so a backup may link to them, as `store.snapshot` does. Tables and other files that are
replaced as a whole get a new inode with each write. During such a write, a file and its `.bak` can share an inode; the
file of deleted topics, which also grows in place, is then replaced before the next line (`queues.deleted_topics`).
Copies made with ``cp -a``, restored backups and moved disks have new inodes and devices, so inode numbers are not
compared with earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bolide.store.disk.files import Files
from bolide.store.disk.segments import NAME_DIGITS
from bolide.store.errors import StoreDamaged
from bolide.store.log.commit_log import CommitLog
from bolide.store.queues.consume_queues import ConsumeQueues

_IN_PLACE: Final = ("checkpoint", "abort", "timerwheel", "config/timercheck")


def check_own_files(files: Files, root: str, log: CommitLog, queues: ConsumeQueues) -> None:
    """Raise `StoreDamaged` if a file that the broker writes in place has a second name. Call it with log and queues
    loaded."""
    for path in _written(files, root, log, queues):
        names = files.links(path)
        if names > 1:
            raise StoreDamaged(
                f"{path} has {names} names (hard links), so two brokers could write it: delete the other folder, or "
                f"copy {root} with `cp -a` and start on the copy"
            )


def _written(files: Files, root: str, log: CommitLog, queues: ConsumeQueues) -> Iterator[str]:
    yield from (f"{root}/{name}" for name in _IN_PLACE)
    for start in reversed(log.segments.segment_starts()):
        yield log.segments.path_at(start)
        if any(log.segments.read(start, 4)):  # the size of its first record
            break  # later files were created ahead; earlier ones are sealed
    for queue in queues.all_queues():
        if not queue.segments.is_empty():
            yield queue.segments.path_at(queue.segments.end_of_files - 1)
    for folder in ("index", "timerlog"):
        yield from (f"{root}/{folder}/{name}" for name in files.list_dir(f"{root}/{folder}")[-1:])
    for topic in files.list_dir(queues.ext_folder):
        for queue_id in files.list_dir(f"{queues.ext_folder}/{topic}"):
            folder = f"{queues.ext_folder}/{topic}/{queue_id}"
            names = [name for name in files.list_dir(folder) if len(name) == NAME_DIGITS]
            yield from (f"{folder}/{name}" for name in names[-1:])
