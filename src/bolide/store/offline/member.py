"""Recognizes the store of a replica in controller mode, and moves its identity aside.

Other replicas have the messages that such a store has lost. If its damage were only filled or truncated, its set would
treat it as a complete replica. So it joins as a new replica and copies the log after its valid part.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bolide.store.disk.files import Files

DERIVED: Final = ("consumequeue", "consumequeue_ext", "index", "checkpoint", "derived.json")
"""Files and folders that a start rebuilds from the log."""
_OF_THE_LOG: Final = (*DERIVED, "deleted-topics", "timerwheel", "timerlog", "abort")
_PARTS: Final = ("", "-temp", "-life")


class MemberPaths(NamedTuple):
    """Paths of a replica's identity and of the epochs of its log."""

    identity: str
    epochs: str

    @classmethod
    def within(cls, root: str, identity: str = "", epochs: str = "") -> MemberPaths:
        """Return the paths in a store folder. `identity` and `epochs` replace them if broker.conf sets other paths."""
        return cls(identity or f"{root}/brokerIdentity", epochs or f"{root}/epochFileCheckpoint")


def identity_words(files: Files, paths: MemberPaths) -> list[str] | None:
    """Return cluster, broker name and replica id of an identity, [] if it is damaged, or None if there is none."""
    data = files.read_file(paths.identity)
    if data is None:
        return None
    words = data.decode("utf-8", "replace").strip().split("#")
    return words if len(words) == 3 else []


def replica_of(files: Files, paths: MemberPaths) -> str:
    """Return `replica ID of SET`, or "" if the store does not belong to a replica.

    A damaged identity also marks a replica's store. Epochs without an identity mark it too, because an interrupted
    repair may have moved the identity.
    """
    words = identity_words(files, paths)
    if words is None:
        return "" if files.read_file(paths.epochs) is None else "a replica without an identity"
    return f"replica {words[2]} of {words[1]}" if words else "a replica whose identity cannot be read"


def set_member_aside(files: Files, root: str, paths: MemberPaths, folder: str) -> None:
    """Move log, identity, epochs and everything derived from the log into `folder`, in this order.

    After a crash between two moves, queues or checkpoint still exist: a start rejects them without a log, and another
    repair continues.
    """
    set_aside(files, [f"{root}/commitlog"], folder)
    set_identity_aside(files, paths, folder)
    set_aside(files, [paths.epochs, f"{paths.epochs}.bak"], folder)
    set_aside(files, [f"{root}/{name}" for name in _OF_THE_LOG], folder)


def set_identity_aside(files: Files, paths: MemberPaths, folder: str) -> None:
    """Move the identity into `folder`, so that the next start makes the store a new replica."""
    set_aside(files, [f"{paths.identity}{part}{backup}" for part in _PARTS for backup in ("", ".bak")], folder)


def set_aside(files: Files, paths: list[str], folder: str) -> None:
    """Move these files and folders durably to `folder`, if they exist. Raises `FileFailed`."""
    parents: dict[str, None] = {}
    for path in paths:
        parent, _, name = path.rpartition("/")
        if files.size(path) >= 0 or files.list_dir(path):
            files.rename(path, f"{folder}/{name}")
            parents[parent] = None
    files.sync_dir(folder)
    for parent in parents:
        files.sync_dir(parent)
