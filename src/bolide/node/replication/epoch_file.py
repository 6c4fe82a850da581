"""Reads and writes `epochFileCheckpoint`, the epochs of a log in RocketMQ's format (docs/protocol/ha.md 6)."""

from __future__ import annotations

from typing import Final

from bolide.replication.epochs import Epochs, decode_epochs
from bolide.replication.errors import EpochsDamaged
from bolide.store.disk.files import Files
from bolide.store.errors import StoreDamaged

NAME: Final = "epochFileCheckpoint"


def load_epochs(files: Files, path: str) -> Epochs:
    """Return the stored epochs, or empty epochs if the file never existed.

    Raises `StoreDamaged` if the file is damaged or was deleted. RocketMQ then reads the previous version, which lacks
    the newest epoch: its bytes would be assigned to the previous epoch, and a diverging log would not be truncated.
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
    """Write and sync the file before the log receives a byte of a new epoch. Raises `FileFailed`.

    A power failure leaves the old file or the new one. An epoch without bytes is harmless, because the log ends where
    the epoch starts. Bytes without their epoch would be assigned to the previous one.
    """
    files.write_file(path, epochs.encode())
