"""The files that a dispatch of a log derived."""

from __future__ import annotations

from pathlib import Path

from bolide.spark.dispatch.follow import FOLDER


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and FOLDER not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}
