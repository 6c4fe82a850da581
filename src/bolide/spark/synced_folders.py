"""Makes the names in folders durable: even a synced file may lose its name in a power failure."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Make all names below a folder durable, deepest first."""
    for path, _, _ in os.walk(folder, topdown=False):
        sync_folder(Path(path))
