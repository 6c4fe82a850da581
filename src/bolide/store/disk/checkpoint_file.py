"""The file `checkpoint`: what was safe on disk at the last thorough flush: RocketMQ's StoreCheckpoint.

It is written in place. Its 48 bytes lie in one sector, so a crash leaves the old ones or the new ones; an old
checkpoint only makes recovery read more of the log.
"""

from __future__ import annotations

from bolide.layout.checkpoint import Checkpoint, decode_checkpoint
from bolide.store.disk.files import Files
from bolide.store.disk.overwrite import overwrite


def load_checkpoint(files: Files, root: str) -> Checkpoint:
    """The checkpoint of a store; all zeros when there is none, or when its file was torn while it was made."""
    data = files.read_file(root + "/checkpoint")
    if data is None or len(data) < 48:
        return Checkpoint()
    return decode_checkpoint(data)


def write_checkpoint(files: Files, root: str, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint, durably. The files it speaks of must have been synced before. Any thread."""
    overwrite(files, root + "/checkpoint", checkpoint.encode())
