"""Stores that real Java brokers left, stopped or killed, are opened: every record is in its queue and under its key."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from bolide.declaration import options_of
from bolide.layout.shape import ShapeOptions, StoreShape
from bolide.store.files import RealFiles
from bolide.store.message_store import MessageStore, RecoveryReport

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in GOLDEN.glob("store-*.tar.xz"))
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


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def test_all_stores_are_here() -> None:
    assert len(NAMES) == 6


@pytest.mark.parametrize("name", NAMES)
def test_a_javas_store_opens_whole_and_closes_clean(name: str, tmp_path: Path) -> None:
    golden = Golden(name, tmp_path)
    store, report = golden.open()
    assert report.abnormal == name.endswith("killed")
    last = golden.records[-1]
    assert report.log_end == last["physicalOffset"] + last["storeSize"]
    assert store.confirm_offset == store.dispatched_offset == report.log_end
    assert not golden.wrong(store)
    store.close(NOW)
    assert not (golden.root / "abort").exists()
    store, report = golden.open()
    assert not report.abnormal
    assert report.dispatched == 0, "a clean stop leaves nothing to do"
    assert not golden.wrong(store)
    store.close(NOW)


# One lost queue folder is noticed after a clean stop only: after a kill nothing tells which queues there were.
LOST = [(name, lost) for name in NAMES for lost in ("consumequeue", "index", "checkpoint")]
LOST += [(name, "consumequeue/golden_plain/1") for name in NAMES if not name.endswith("killed")]


@pytest.mark.parametrize(("name", "lost"), LOST)
def test_what_is_missing_in_a_javas_store_is_made_again(name: str, lost: str, tmp_path: Path) -> None:
    golden = Golden(name, tmp_path)
    remove(golden.root / lost)
    store, _ = golden.open()
    assert not golden.wrong(store)
    store.close(NOW)


@pytest.mark.parametrize("lost", ["a queue", "a queue's first file", "an index file", "all queues", "all of the index"])
def test_what_is_missing_after_our_own_clean_stop_is_made_again(lost: str, tmp_path: Path) -> None:
    golden = Golden("store-5.5.0-clean", tmp_path)
    store, _ = golden.open()
    store.close(NOW)
    queue = golden.root / "consumequeue" / "golden_one" / "0"
    paths = {
        "a queue": queue,
        "a queue's first file": sorted(queue.iterdir())[0],
        "an index file": sorted((golden.root / "index").iterdir())[1],
        "all queues": golden.root / "consumequeue",
        "all of the index": golden.root / "index",
    }
    remove(paths[lost])
    store, report = golden.open()
    assert not report.abnormal
    assert report.scanned_from == 0
    assert not golden.wrong(store)
    store.close(NOW)
