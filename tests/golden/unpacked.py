"""A golden store, unpacked and opened, compared with its manifest."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from bolide.declaration import options_of
from bolide.layout.shape import ShapeOptions, StoreShape
from bolide.store.disk.files import RealFiles
from bolide.store.message_store import MessageStore, RecoveryReport

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
NOW = 1_900_000_000_000


class Golden:
    """One unpacked store and what its manifest says."""

    def __init__(self, name: str, folder: Path) -> None:
        with tarfile.open(GOLDEN / f"{name}.tar.xz") as packed:
            packed.extractall(folder, filter="data")
        self.root = folder / name / "store"
        self.manifest: dict[str, Any] = json.loads((folder / name / "manifest.json").read_text())
        version = "4.9" if self.manifest["rocketmq"].startswith("4.") else "5.5"
        self.shape = StoreShape.of(options_of(ShapeOptions, {**self.manifest["brokerConf"], "storeVersion": version}))
        self.records = [record for record in self.manifest["log"] if not record.get("blank")]

    def open(self) -> tuple[MessageStore, RecoveryReport]:
        store = MessageStore(RealFiles(), str(self.root), self.shape)
        return store, store.load(NOW)

    def wrong(self, store: MessageStore) -> list[str]:
        """Records that are not where the manifest says."""
        found: list[str] = []
        ends: dict[tuple[str, int], int] = {}
        for record in self.records:
            place = (record["topic"], record["queueId"])
            at, size, number = record["physicalOffset"], record["storeSize"], record["queueOffset"]
            if store.record_at(at) is None:
                found.append(f"{at}: no record")
            elif record["sysFlag"] & 0xC not in (0x4, 0xC):
                ends[place] = max(ends.get(place, 0), number + 1)
                unit = store.units(*place, number, 1)
                if not unit or unit[0][:2] != (at, size):
                    found.append(f"{at}: unit {number} of {place} is {unit}")
            key = record["properties"].get("UNIQ_KEY")
            if key and at not in store.index.query(record["topic"], key, 64, 0, NOW):
                found.append(f"{at}: not found by {key}")
        for place, end in ends.items():
            if store.max_queue_offset(*place) != end or store.next_queue_offset(*place) != end:
                found.append(f"{place} ends at {store.max_queue_offset(*place)}, not {end}")
        return found
