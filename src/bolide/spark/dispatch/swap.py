"""Moves rebuilt folders into a store, so that a crash at any line leaves a store on which a broker can start.

No call renames four things at once. So the store is first marked as not stopped (`abort`) and loses its checkpoint: a
broker that starts on a partly swapped store dispatches its whole log again. The caller holds the store's lock, so
only a crash of this process can expose such a store.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bolide.spark.synced_folders import sync_folder, sync_tree

INVENTORY: Final = "derived.json"
"""What a clean stop of Bolide's broker records of queues and index; an old one would make it discard a new index."""
DERIVED: Final = ("consumequeue", "consumequeue_ext", "index", INVENTORY)
CHECKPOINT: Final = "checkpoint"


def put_in(staged: Path, target: Path) -> None:
    """Move what is staged into an output folder that has none of it yet; the checkpoint is last."""
    sync_tree(staged)
    for name in (*DERIVED, CHECKPOINT):
        if (staged / name).exists():
            os.replace(staged / name, target / name)
    sync_folder(target)


def swap_in(staged: Path, store: Path) -> None:
    """Replace the derived folders and the checkpoint of a store by the staged ones; the old ones are deleted.

    If a rename fails, everything is moved back and the error is raised.
    """
    sync_tree(staged)
    old = staged / "old"
    old.mkdir()
    abort = store / "abort"
    marked = not abort.exists()
    if marked:
        abort.write_text(str(os.getpid()), encoding="ascii")
    sync_folder(store)
    # Crash here: the store looks as after a kill, with everything in place.
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
    # Crash from here on: without a checkpoint the next start reads the whole log, and adds what is missing.
    for name in DERIVED:
        if (store / name).exists():
            os.replace(store / name, old / name)
        if (staged / name).exists():
            os.replace(staged / name, store / name)
    sync_folder(store)
    os.replace(staged / CHECKPOINT, store / CHECKPOINT)
    sync_folder(store)


def _move_back(staged: Path, names: list[str], store: Path, old: Path) -> None:
    """Undo the first renames of an exchange; the checkpoint is restored last."""
    for name in names:
        if not (staged / name).exists():
            os.replace(store / name, staged / name)
    for name in (*DERIVED, CHECKPOINT):
        if (old / name).exists():
            os.replace(old / name, store / name)
    sync_folder(store)
