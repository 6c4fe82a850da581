"""`inspect` and `verify` on the golden stores: whole as they are, and each kind of damage is found in its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bolide.declaration import options_of
from bolide.layout.checkpoint import decode_checkpoint
from bolide.layout.index_file import entry_position
from bolide.layout.shape import ShapeOptions, StoreShape
from bolide.store.disk.files import RealFiles
from bolide.store.offline.inspect import NoStore, inspect_store, shape_of
from bolide.store.offline.verify import Verdict, verify_store
from tests.golden.stores import GoldenStore, golden_store


def test_inspect_counts_what_the_manifest_lists(golden: GoldenStore) -> None:
    shape = shape_of(RealFiles(), str(golden.root), options_of(ShapeOptions, golden.manifest["brokerConf"]))
    summary = inspect_store(RealFiles(), str(golden.root), shape)
    log = golden.log()
    assert summary.log.records == len(log)
    assert summary.log.end_offset == log[-1]["physicalOffset"] + log[-1]["storeSize"]
    assert summary.log.first_store_timestamp == log[0]["storeTimestamp"]
    assert summary.log.last_store_timestamp == log[-1]["storeTimestamp"]
    assert summary.log.problems == 0
    assert summary.abort == golden.killed
    assert summary.checkpoint == decode_checkpoint((golden.root / "checkpoint").read_bytes())
    for queue in summary.queues:
        mine = [r for r in log if (r["topic"], r["queueId"]) == (queue.topic, queue.queue_id)]
        assert (queue.records, queue.units, queue.max_offset) == (len(mine), len(mine), len(mine))
        assert queue.bytes == sum(r["storeSize"] for r in mine)
    assert [file.name for file in summary.index] == [name for name, _ in golden.index_files()]


def test_golden_stores_are_whole(golden: GoldenStore) -> None:
    verdict = verify_store(RealFiles(), str(golden.root), golden.shape)
    assert verdict.findings == []
    assert verdict.records == verdict.units == len(golden.log())
    assert verdict.ext_units == (verdict.units if golden.shape.enable_consume_queue_ext else 0)
    assert len(verdict.notes) == golden.killed
    # Read by the other version's rules, only a note tells.
    other = StoreShape.of(options_of(ShapeOptions, {**golden.manifest["brokerConf"], "storeVersion": "5.5"}))
    verdict = verify_store(RealFiles(), str(golden.root), other)
    assert verdict.findings == []
    assert len(verdict.notes) == golden.killed + (golden.shape.store_version == "4.9")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(golden_store("5.5.0-ext").root, tmp_path / "store")
    return tmp_path / "store"


def verify(root: Path) -> Verdict:
    return verify_store(RealFiles(), str(root), golden_store("5.5.0-ext").shape)


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


LOG = "commitlog/00000000000000000000"
QUEUE = "consumequeue/golden_one/0/00000000000000000000"
EXT = "consumequeue_ext/golden_one/0/00000000000000000000"
INDEX_ENTRY = entry_position(200, 7)

DAMAGE: list[tuple[str, str, int, bytes, str]] = [
    ("body", LOG, 88, b"\xff", "does not match its CRC"),
    ("magic", LOG, 4, b"\0", "bytes that are not a record, followed by records"),
    ("size", LOG, 3, b"\xf7", "bytes that are not a record, followed by records"),
    ("physical offset", LOG, 28 + 7, b"\1", "the record calls itself 1, but it is 0"),
    ("unit offset", QUEUE, 47, b"\x77", "the unit says"),
    ("unit size", QUEUE, 48, b"\xff", "the unit says -"),
    ("unit lost", QUEUE, 40, bytes(20), "lacks 1 records of the log"),
    ("unit too many", QUEUE, 45 * 20, b"\0\0\0\0\0\xff\xff\xff\0\0\0\x55" + bytes(8), "the log ends at"),
    ("unit of nobody", QUEUE, 45 * 20, b"\0\0\0\0\0\0\0\5\0\0\0\x55" + bytes(8), "no record of this queue"),
    ("ext tags", EXT, 9, b"\x55", "the unit has tags code"),
    ("ext time", EXT, 17, b"\x55", "another record's store time"),
    ("ext size", EXT, 0, b"\0\0", "cannot be read"),
    ("index hash", "index", INDEX_ENTRY, b"\0\0\0\1", "are not those of its"),
    ("index chain", "index", INDEX_ENTRY + 16, b"\0\0\0\6", "is chained to 6"),
    ("index slot", "index", 40, b"\0\0\0\6", "holds entry 6"),
    ("index count", "index", 32, b"\0\0\0\1", "the header counts 1 slots"),
    ("checkpoint", "checkpoint", 40, b"\0\0\0\1", "beyond the log"),
]


@pytest.mark.parametrize(("what", "path", "at", "data", "sentence"), DAMAGE, ids=[d[0] for d in DAMAGE])
def test_damage_is_found(copy: Path, what: str, path: str, at: int, data: bytes, sentence: str) -> None:
    file = copy / path
    if file.is_dir():
        file = min(file.iterdir())
    assert file.read_bytes()[at : at + len(data)] != data
    overwrite(file, at, data)
    verdict = verify(copy)
    assert not verdict.clean
    assert any(sentence in finding.sentence for finding in verdict.findings), verdict.findings
    assert all(finding.path.startswith(str(copy)) and finding.position >= 0 for finding in verdict.findings)
    inspect_store(RealFiles(), str(copy), golden_store("5.5.0-ext").shape)


def lose(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).unlink()


FILES: list[tuple[str, Callable[[Path], None], str]] = [
    ("middle segment", lose("commitlog/00000000000001048576"), "the file before ends at 1048576"),
    ("queue", lose(QUEUE), "golden_one queue 0 lacks"),
    ("strange name", lambda root: (root / "commitlog" / "note.txt").write_text("x"), "not a start offset of 20 digits"),
    ("short file", lambda root: overwrite_size(root / QUEUE, 1000), "it has 1000 bytes, a file of this store has 2000"),
]


def overwrite_size(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize(("what", "break_it", "sentence"), FILES, ids=[f[0] for f in FILES])
def test_lost_files_are_found(copy: Path, what: str, break_it: Callable[[Path], None], sentence: str) -> None:
    break_it(copy)
    verdict = verify(copy)
    found = [finding.sentence for finding in verdict.findings]
    if what == "queue":
        assert any("does not have the last" in one or "lacks" in one for one in found), found
    else:
        assert any(sentence in one for one in found), found


def test_units_that_the_next_start_writes_are_a_note_after_a_kill(tmp_path: Path) -> None:
    golden = golden_store("5.5.0-killed")
    root = tmp_path / "store"
    shutil.copytree(golden.root, root)
    last = golden.log()[-1]
    queue = root / f"consumequeue/{last['topic']}/{last['queueId']}"
    at = last["queueOffset"] * 20
    overwrite(queue / f"{at // 2000 * 2000:020d}", at % 2000, bytes(20))
    verdict = verify_store(RealFiles(), str(root), golden.shape)
    assert verdict.findings == []
    assert any("does not have the last 1 records yet" in note for note in verdict.notes)
    (root / "abort").unlink()
    verdict = verify_store(RealFiles(), str(root), golden.shape)
    assert ["does not have the last 1 records yet" in finding.sentence for finding in verdict.findings] == [True]


def test_the_shape_comes_from_the_files_or_is_asked_for(tmp_path: Path) -> None:
    golden = golden_store("5.5.0-ext")
    with pytest.raises(NoStore, match=r"--config"):
        shape_of(RealFiles(), str(golden.root), None)
    root = tmp_path / "store"
    shutil.copytree(golden.root, root)
    shutil.rmtree(root / "index")
    shape = shape_of(RealFiles(), str(root), None)
    assert shape.commit_log_segment_size == 1 << 20
    assert shape.consume_queue_segment_size == 2000
    assert shape.enable_consume_queue_ext
    with pytest.raises(NoStore, match=r"no CommitLog file"):
        shape_of(RealFiles(), str(tmp_path), None)
