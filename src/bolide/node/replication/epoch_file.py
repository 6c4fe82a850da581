"""The file `epochFileCheckpoint`: the epochs of this log, as RocketMQ keeps them (docs/protocol/ha.md 6)."""

from __future__ import annotations

from typing import Final

from bolide.replication.epochs import Epochs, decode_epochs
from bolide.replication.errors import EpochsDamaged
from bolide.store.disk.files import Files
from bolide.store.errors import StoreDamaged

NAME: Final = "epochFileCheckpoint"


def load_epochs(files: Files, path: str) -> Epochs:
    """What the file says; none where there never was one.

    Raises `StoreDamaged` when it is bad, or gone. RocketMQ then reads the one before it, which lacks the newest epoch:
    its bytes would be taken for those of the one before, and a log that went another way would not be cut.
    """
    data = files.read_file(path)
    if data is None:
        if files.read_file(path + ".bak") is None:
            return Epochs()
        problem = "it is gone"
    else:
        try:
            return decode_epochs(data)
        except EpochsDamaged as error:
            problem = str(error)
    raise StoreDamaged(f"{path}: {problem}; restore the file, or delete the store, so that it starts with a copy")


def keep_epochs(files: Files, path: str, epochs: Epochs) -> None:
    """Write the file, durably, before the log gets a byte of a new epoch. Raises `FileFailed`.

    Power cut in the middle: the old file or the new one. An epoch without bytes does no harm, for the log ends where
    it starts; bytes without their epoch would be taken for those of the one before.
    """
    files.write_file(path, epochs.encode())
