"""The stamp of a store's format on disk (`layout/store_format.py`). Every program that uses a store checks it first."""

from __future__ import annotations

from bolide.layout.store_format import FORMAT, NAME, accepted_format, stamp
from bolide.store.disk.files import Files


def check_format(files: Files, root: str) -> int:
    """Return the format of a store, or 0 if it has no stamp.

    Raises `StoreTooNew`, or `LayoutError` if the stamp is invalid.
    """
    return accepted_format(files.read_file(f"{root}/{NAME}"), root)


def stamp_format(files: Files, root: str) -> None:
    """Check the format of a store and raise its stamp to this build's. Raises like `check_format`, and `FileFailed`.

    The caller must not have changed the store yet. A power failure leaves the complete old or new stamp. With the old
    stamp, no file of the new format was written.
    """
    if check_format(files, root) < FORMAT:
        files.write_file(f"{root}/{NAME}", stamp())
