"""The file `epochFileCheckpoint`: the epochs of this log, as RocketMQ keeps them (docs/protocol/ha.md 6)."""

from __future__ import annotations

from typing import Final

from bolide.replication.epochs import Epochs, decode_epochs
from bolide.replication.errors import EpochsDamaged
from bolide.store.errors import StoreDamaged
from bolide.store.files import Files

NAME: Final = "epochFileCheckpoint"


def load_epochs(files: Files, path: str) -> Epochs:
    """What the file says, or the one before it where this one is bad; none where there is neither.

    Raises `StoreDamaged` when both are bad: without its epochs a log would be cut at the wrong place.
    """
    problem = ""
    for name in (path, path + ".bak"):
        data = files.read_file(name)
        if data is None:
            continue
        try:
            return decode_epochs(data)
        except EpochsDamaged as error:
            problem = problem or f"{name}: {error}"
    if problem:
        raise StoreDamaged(f"{problem}; bring the file back, or delete the store, so that it begins with a copy")
    return Epochs()


def keep_epochs(files: Files, path: str, epochs: Epochs) -> None:
    """Write the file, durably, before the log gets a byte of a new epoch. Raises `FileFailed`.

    Power cut in the middle: the old file or the new one. An epoch without bytes does no harm, for the log ends where
    it starts; bytes without their epoch would be taken for those of the one before.
    """
    files.write_file(path, epochs.encode())
