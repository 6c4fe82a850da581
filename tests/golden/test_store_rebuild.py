"""The store's own queues, extension and index, fed by dispatch from Java's log, leave Java's files byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bolide.dispatch.rebuild import filter_bitmap
from bolide.dispatch.row import Dispatch
from bolide.store.background.reput import Reput
from bolide.store.disk.files import RealFiles
from bolide.store.disk.segments import HandleCache
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queues import ConsumeQueues
from bolide.store.reading.query import KeyQuery
from bolide.store.reading.read import QueueReader
from bolide.store.reading.read_result import FOUND
from proof.reader.records import read_records
from tests.golden.registered import registered_filters
from tests.golden.stores import GoldenStore

FAR = 1 << 62
NOW = 1_763_700_000_000


class Derived:
    """Log, queues, index and dispatch over a folder, without the rest of a message store."""

    def __init__(self, root: Path, golden: GoldenStore) -> None:
        self.files = RealFiles()
        self.handles = HandleCache(self.files, 16)  # few, so that handles close and open all the time
        shape = golden.shape
        self.log = CommitLog(self.files, f"{root}/commitlog", shape, StoreOptions(), self.handles)
        self.log.segments.load()
        last = golden.log()[-1]
        self.log.start_at(last["physicalOffset"] + last["storeSize"], last["storeTimestamp"], NOW)
        self.queues = ConsumeQueues(self.files, str(root), shape, self.handles, _calc_bitmap(golden))
        self.index = IndexService(self.files, str(root), shape, self.handles)
        self.reput = Reput(self.log, self.queues, self.index, shape)
        self.arrivals: list[tuple[str, int, int]] = []

    def dispatch(self, budget: int = 7, flush_every: int = 0) -> None:
        """Everything, a few records at a time; every so many turns what waits goes to the files."""
        turns = 0
        while self.reput.dispatched_offset < self.log.written_offset:
            for arrival in self.reput.run(self.log.written_offset, budget, NOW):
                self.arrivals.append((arrival.topic, arrival.queue_id, arrival.max_offset))
            turns += 1
            if flush_every and turns % flush_every == 0:
                self.queues.flush()
                self.index.flush()

    def close(self) -> None:
        self.queues.close()
        self.index.close()
        self.handles.close()


def _calc_bitmap(golden: GoldenStore) -> Callable[[Dispatch], bytes] | None:
    if not golden.shape.enable_calc_filter_bit_map:
        return None
    filters, _ = registered_filters(golden)
    bits = golden.shape.bloom.bits
    return lambda d: filter_bitmap(d, filters.get(d.topic, ()), bits)


@pytest.fixture
def bare(golden: GoldenStore, tmp_path: Path) -> Path:
    """A store folder with nothing but Java's log."""
    shutil.copytree(golden.root / "commitlog", tmp_path / "commitlog")
    return tmp_path


def _files(root: Path, folder: str) -> dict[str, bytes]:
    base = root / folder
    return {str(path.relative_to(base)): path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file()}


def _assert_queues_equal(root: Path, golden: GoldenStore, folder: str) -> None:
    mine, theirs = _files(root, folder), _files(golden.root, folder)
    if golden.killed:
        # Java was killed before its last units were put; what it wrote is the beginning of what we write.
        assert set(theirs) <= set(mine)
        for name, java in theirs.items():
            used = len(java.rstrip(b"\0"))
            assert mine[name][:used] == java[:used], name
        return
    assert set(mine) == set(theirs)
    for name, java in theirs.items():
        assert mine[name] == java, name


def _assert_index_equal(root: Path, golden: GoldenStore) -> None:
    mine = list(_files(root, "index").values())
    theirs = list(_files(golden.root, "index").values())
    entries = 40 + 4 * golden.shape.index_slots
    assert len(mine) == len(theirs) or golden.killed
    for number, (ours, java) in enumerate(zip(mine, theirs, strict=False)):
        if golden.killed and number == len(theirs) - 1:
            used = len(java.rstrip(b"\0"))
            assert ours[entries:used] == java[entries:used]
        else:
            assert ours == java, f"index file {number}"


@pytest.mark.parametrize("flush_every", [0, 3])
def test_rebuilt_files_are_javas(golden: GoldenStore, bare: Path, flush_every: int) -> None:
    store = Derived(bare, golden)
    store.dispatch(flush_every=flush_every)
    store.close()
    assert store.reput.skipped_records == 0
    _assert_queues_equal(bare, golden, "consumequeue")
    if golden.shape.enable_consume_queue_ext:
        _assert_queues_equal(bare, golden, "consumequeue_ext")
    _assert_index_equal(bare, golden)


def test_recovery_of_javas_files_adds_nothing(golden: GoldenStore, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden.root, root)
    store = Derived(root, golden)
    store.queues.load()
    store.queues.recover(not golden.killed)
    store.index.load(False, 0)
    store.dispatch()
    store.close()
    if not golden.killed:
        assert store.arrivals == []
    _assert_queues_equal(root, golden, "consumequeue")
    if golden.shape.enable_consume_queue_ext:
        _assert_queues_equal(root, golden, "consumequeue_ext")


def test_an_index_after_a_kill_is_made_good_not_made_again(golden: GoldenStore, bare: Path, tmp_path: Path) -> None:
    fresh = Derived(bare, golden)
    fresh.dispatch()
    fresh.close()
    root = tmp_path / "store"
    shutil.copytree(golden.root, root)
    store = Derived(root, golden)
    assert store.index.load(True, 0) == []
    last = max(entry["physicalOffset"] for entry in golden.log())
    assert store.index.last_update_physical_offset >= last // 2
    store.dispatch()
    store.close()
    mine, expected = _files(root, "index").values(), _files(bare, "index").values()
    assert list(mine) == list(expected)


def test_every_record_is_pulled_and_found_by_its_keys(golden: GoldenStore, bare: Path) -> None:
    store = Derived(bare, golden)
    store.dispatch(budget=1000)
    reader = QueueReader(store.log, StoreOptions())
    pulled: set[int] = set()
    for queue in store.queues.all_queues():
        offset = int(queue.min_offset)
        while offset < queue.max_offset:
            result = reader.read(queue, offset, 32, 1 << 30, None, None)
            assert result.status == FOUND and not result.cold
            assert sum(map(len, result.buffers)) == result.size
            for data in result.buffers:
                pulled.update(record.at for record in read_records(bytes(data)))
            assert result.next_begin_offset > offset
            offset = int(result.next_begin_offset)
    expected = {entry["physicalOffset"] for entry in golden.log() if entry["sysFlag"] & 0xC not in (4, 0xC)}
    assert pulled == expected
    for entry in golden.log()[::17]:
        key = entry["properties"].get("UNIQ_KEY")
        if key and entry["sysFlag"] & 0xC != 0xC:
            found = KeyQuery(store.log, store.index).messages(entry["topic"], key, 64, begin=0, end=FAR)
            assert entry["physicalOffset"] in found.offsets
    store.close()
