"""Recognize the store of a replica that has a controller, and move its identity aside.

Other replicas hold what such a store has lost. With its damage filled or truncated it would pass for a replica that
holds everything, so it joins its set as a new replica and copies what follows the valid part of its log.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bolide.store.disk.files import Files

DERIVED: Final = ("consumequeue", "consumequeue_ext", "index", "checkpoint", "derived.json")
"""What a start makes again from the log."""
_OF_THE_LOG: Final = (*DERIVED, "deleted-topics", "timerwheel", "timerlog", "abort")
_PARTS: Final = ("", "-temp", "-life")


class MemberPaths(NamedTuple):
    """Where a replica keeps its identity and the epochs of its log."""

    identity: str
    epochs: str

    @classmethod
    def within(cls, root: str, identity: str = "", epochs: str = "") -> MemberPaths:
        """The paths in a store folder, unless broker.conf has others."""
        return cls(identity or f"{root}/brokerIdentity", epochs or f"{root}/epochFileCheckpoint")


def identity_words(files: Files, paths: MemberPaths) -> list[str] | None:
    """Return cluster, broker name and replica ID of an identity, [] if it is damaged, or None if there is none."""
    data = files.read_file(paths.identity)
    if data is None:
        return None
    words = data.decode("utf-8", "replace").strip().split("#")
    return words if len(words) == 3 else []


def replica_of(files: Files, paths: MemberPaths) -> str:
    """Return `replica ID of SET`, or "" for a store of no replica. An identity that is damaged counts as one, and so do
    epochs alone: a repair was interrupted after it had moved the identity."""
    words = identity_words(files, paths)
    if words is None:
        return "" if files.read_file(paths.epochs) is None else "a replica without an identity"
    return f"replica {words[2]} of {words[1]}" if words else "a replica whose identity cannot be read"


def set_member_aside(files: Files, root: str, paths: MemberPaths, folder: str) -> None:
    """Move log, identity, epochs and all that follows from the log into `folder`, in this order.

    Crash between two of them: queues or checkpoint are still there, so a start without the log is refused, and another
    repair continues.
    """
    set_aside(files, [f"{root}/commitlog"], folder)
    set_identity_aside(files, paths, folder)
    set_aside(files, [paths.epochs, f"{paths.epochs}.bak"], folder)
    set_aside(files, [f"{root}/{name}" for name in _OF_THE_LOG], folder)


def set_identity_aside(files: Files, paths: MemberPaths, folder: str) -> None:
    """Move the identity into `folder`: with the next start the store is that of a new replica."""
    set_aside(files, [f"{paths.identity}{part}{backup}" for part in _PARTS for backup in ("", ".bak")], folder)


def set_aside(files: Files, paths: list[str], folder: str) -> None:
    """Move these files and folders, as far as they are there, and make sure of it. Raises `FileFailed`."""
    parents: dict[str, None] = {}
    for path in paths:
        parent, _, name = path.rpartition("/")
        if files.size(path) >= 0 or files.list_dir(path):
            files.rename(path, f"{folder}/{name}")
            parents[parent] = None
    files.sync_dir(folder)
    for parent in parents:
        files.sync_dir(parent)
