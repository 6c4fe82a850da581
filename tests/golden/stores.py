"""The golden stores, unpacked once a process: where each lies, what its manifest says, what shape it has."""

from __future__ import annotations

import atexit
import functools
import json
import lzma
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bolide.declaration import options_of
from bolide.layout.shape import ShapeOptions, StoreShape

GOLDEN_NAMES = ("4.9.7-clean", "4.9.7-killed", "4.9.7-ext", "5.5.0-clean", "5.5.0-killed", "5.5.0-ext")
_ARCHIVES = Path(__file__).parent.parent / "data" / "golden"


@dataclass(frozen=True)
class GoldenStore:
    """One unpacked store; copy `root` before anything writes to it."""

    name: str
    root: Path
    manifest: dict[str, Any]
    shape: StoreShape

    @property
    def killed(self) -> bool:
        return self.name.endswith("killed")

    def commit_log(self) -> list[tuple[int, bytes]]:
        """Start and bytes of each CommitLog segment."""
        return self.segments("commitlog")

    def segments(self, folder: str) -> list[tuple[int, bytes]]:
        """Start and bytes of each segment file of a folder below the root."""
        return [(int(path.name), path.read_bytes()) for path in sorted((self.root / folder).iterdir())]

    def queues(self, folder: str = "consumequeue") -> Iterator[tuple[str, int, list[tuple[int, bytes]]]]:
        """Topic, queue id and segments of each queue."""
        for topic in sorted((self.root / folder).iterdir()):
            for queue in sorted(topic.iterdir(), key=lambda path: int(path.name)):
                yield topic.name, int(queue.name), self.segments(f"{folder}/{topic.name}/{queue.name}")

    def index_files(self) -> list[tuple[str, bytes]]:
        """Name and bytes of each index file, oldest first."""
        return [(path.name, path.read_bytes()) for path in sorted((self.root / "index").iterdir())]

    def log(self) -> list[dict[str, Any]]:
        """The manifest's records of the CommitLog, blanks left out."""
        return [entry for entry in self.manifest["log"] if not entry.get("blank")]


@functools.cache
def golden_store(name: str) -> GoldenStore:
    """Unpack one of GOLDEN_NAMES; it is gone when the process ends."""
    folder = Path(_temporary_root().name)
    with lzma.open(_ARCHIVES / f"store-{name}.tar.xz") as raw, tarfile.open(fileobj=raw) as archive:
        archive.extractall(folder, filter="data")
    base = folder / f"store-{name}"
    manifest = json.loads((base / "manifest.json").read_text("utf-8"))
    version = "4.9" if manifest["rocketmq"].startswith("4.9") else "5.5"
    shape = StoreShape.of(options_of(ShapeOptions, {**manifest["brokerConf"], "storeVersion": version}))
    return GoldenStore(name, base / "store", manifest, shape)


@functools.cache
def _temporary_root() -> tempfile.TemporaryDirectory[str]:
    root = tempfile.TemporaryDirectory(prefix="bolide-golden-")
    atexit.register(root.cleanup)
    return root
