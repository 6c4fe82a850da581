"""The file `checkpoint`: what was safe on disk at the last thorough flush: RocketMQ's StoreCheckpoint.

It is written in place. Its 48 bytes lie in one sector, so a crash leaves the old ones or the new ones; an old
checkpoint only makes recovery read more of the log.
"""

from __future__ import annotations

from bolide.layout.checkpoint import Checkpoint, decode_checkpoint
from bolide.store.disk.files import Files


def load_checkpoint(files: Files, root: str) -> Checkpoint:
    """The checkpoint of a store; all zeros when there is none, or when its file was torn while it was made."""
    data = files.read_file(root + "/checkpoint")
    if data is None or len(data) < 48:
        return Checkpoint()
    return decode_checkpoint(data)


def write_checkpoint(files: Files, root: str, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint, durably. The files it speaks of must have been synced before. Any thread."""
    write_block(files, root, "checkpoint", checkpoint.encode())


def write_block(files: Files, folder: str, name: str, data: bytes) -> None:
    """Write a small file over itself, durably; what matters in it lies in one sector. Any thread."""
    path = f"{folder}/{name}"
    fresh = files.size(path) < len(data)
    handle = files.open(path, fresh, len(data))
    try:
        files.write_at(handle, [data], 0)
        # Power cut before this: the old content, and a longer recovery. After it: the new one.
        files.datasync(handle)
    finally:
        files.close(handle)
    if fresh:
        files.sync_dir(folder)
