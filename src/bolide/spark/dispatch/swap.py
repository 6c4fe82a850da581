"""Moves rebuilt folders into a store, so that a crash at any line leaves a store on which a broker can start.

Four entries cannot be renamed atomically. So the store is first marked as not stopped (`abort`) and its checkpoint
removed: a broker that starts on a partly swapped store redispatches its whole log. The caller holds the store's lock,
so only a crash of this process can expose such a store.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bolide.spark.synced_folders import sync_folder, sync_tree

INVENTORY: Final = "derived.json"
"""File in which Bolide's broker records queues and index at a clean stop. An old file would make it discard a new
index."""
DERIVED: Final = ("consumequeue", "consumequeue_ext", "index", INVENTORY)
CHECKPOINT: Final = "checkpoint"


def put_in(staged: Path, target: Path) -> None:
    """Move the staged entries into an output folder that has none of them, with the checkpoint last."""
    sync_tree(staged)
    for name in (*DERIVED, CHECKPOINT):
        if (staged / name).exists():
            os.replace(staged / name, target / name)
    sync_folder(target)


def swap_in(staged: Path, store: Path) -> None:
    """Replace the derived folders and the checkpoint of a store by the staged ones, and delete the old ones.

    If a rename fails, undoes all earlier renames and raises the error.
    """
    sync_tree(staged)
    old = staged / "old"
    old.mkdir()
    abort = store / "abort"
    marked = not abort.exists()
    if marked:
        abort.write_text(str(os.getpid()), encoding="ascii")
    sync_folder(store)
    # After a crash here, the store is complete and looks like after a kill.
    names = [name for name in DERIVED if (staged / name).exists()]
    try:
        _exchange(staged, store, old)
    except OSError:
        _move_back(staged, names, store, old)
        if marked:
            abort.unlink()
        raise
    if marked:
        abort.unlink()
        sync_folder(store)


def _exchange(staged: Path, store: Path, old: Path) -> None:
    if (store / CHECKPOINT).exists():
        os.replace(store / CHECKPOINT, old / CHECKPOINT)
        sync_folder(store)
    # After a crash below, there is no checkpoint, so the next start reads the whole log and adds missing units.
    for name in DERIVED:
        if (store / name).exists():
            os.replace(store / name, old / name)
        if (staged / name).exists():
            os.replace(staged / name, store / name)
    sync_folder(store)
    os.replace(staged / CHECKPOINT, store / CHECKPOINT)
    sync_folder(store)


def _move_back(staged: Path, names: list[str], store: Path, old: Path) -> None:
    """Undo the first renames of an exchange, with the checkpoint last."""
    for name in names:
        if not (staged / name).exists():
            os.replace(store / name, staged / name)
    for name in (*DERIVED, CHECKPOINT):
        if (old / name).exists():
            os.replace(old / name, store / name)
    sync_folder(store)
