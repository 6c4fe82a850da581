"""The file `checkpoint`: the state that was on disk at the last thorough flush (RocketMQ's StoreCheckpoint).

It is overwritten in place. Its 48 bytes are in one sector, so a crash leaves the old or the new content. An old
checkpoint only makes recovery read more of the log.
"""

from __future__ import annotations

from bolide.layout.checkpoint import Checkpoint, decode_checkpoint
from bolide.store.disk.files import Files
from bolide.store.disk.overwrite import overwrite


def load_checkpoint(files: Files, root: str) -> Checkpoint:
    """Return the checkpoint of a store, or zeros if there is none or its creation was interrupted."""
    data = files.read_file(root + "/checkpoint")
    if data is None or len(data) < 48:
        return Checkpoint()
    return decode_checkpoint(data)


def write_checkpoint(files: Files, root: str, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint durably. The files it describes must have been synced before. Thread-safe."""
    overwrite(files, root + "/checkpoint", checkpoint.encode())
