"""Stores that real Java brokers left, stopped or killed, are opened: every record is in its queue and under its key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.golden.unpacked import GOLDEN, NOW, Golden

NAMES = sorted(path.name.removesuffix(".tar.xz") for path in GOLDEN.glob("store-*.tar.xz"))


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def test_six_golden_stores_exist() -> None:
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
def test_missing_files_of_a_java_store_are_rebuilt(name: str, lost: str, tmp_path: Path) -> None:
    golden = Golden(name, tmp_path)
    remove(golden.root / lost)
    store, _ = golden.open()
    assert not golden.wrong(store)
    store.close(NOW)


@pytest.mark.parametrize("lost", ["a queue", "a queue's first file", "an index file", "all queues", "all of the index"])
def test_missing_files_after_a_clean_stop_are_rebuilt(lost: str, tmp_path: Path) -> None:
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
