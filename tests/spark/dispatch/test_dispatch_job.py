"""Everything derived, rebuilt from a golden store's log on Spark, is what Java wrote, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bolide.dispatch.rebuild import rebuild
from bolide.job_progress import JobProgress
from bolide.layout.checkpoint import decode_checkpoint
from bolide.spark.dispatch.dispatch_job import dispatch_store
from bolide.spark.dispatch.follow import follow_store
from bolide.spark.errors import CorruptStore, OptionError
from bolide.spark.failures import JobFailed
from bolide.spark.session.progress import Runner
from bolide.store.disk.files import FileLocked, RealFiles
from bolide.store.offline.verify import verify_store
from tests.golden.registered import registered_filters
from tests.golden.stores import GOLDEN_NAMES, GoldenStore, golden_store
from tests.golden.unpacked import NOW, Golden

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def contents(root: Path, folder: str) -> dict[str, bytes]:
    base = root / folder
    return {str(path.relative_to(base)): path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file()}


@pytest.fixture
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> GoldenStore:
    """A golden store that may be written to."""
    golden = golden_store(request.param)
    shutil.copytree(golden.root, tmp_path / "store")
    return GoldenStore(golden.name, tmp_path / "store", golden.manifest, golden.shape)


def assert_derived(out: Path, golden: GoldenStore) -> None:
    """Queue and index files are those of the row rebuild, which tests/golden holds equal to Java's, and Java's own."""
    filters = registered_filters(golden)[0] if golden.shape.enable_calc_filter_bit_map else {}
    made = rebuild(golden.commit_log(), golden.shape, filters)
    shape = golden.shape
    queues: dict[str, bytes] = {}
    ext: dict[str, bytes] = {}
    for (topic, queue_id), image in made.queues.items():
        for start, data in image.segments():
            queues[f"{topic}/{queue_id}/{start:020d}"] = data.ljust(shape.consume_queue_segment_size, b"\0")
        for start, data in image.ext_segments():
            ext[f"{topic}/{queue_id}/{start:020d}"] = data.ljust(shape.consume_queue_ext_segment_size, b"\0")
    assert contents(out, "consumequeue") == queues
    assert contents(out, "consumequeue_ext") == ext
    index = contents(out, "index")
    assert len(index) == len(made.index_files)
    assert list(index) == sorted(index)
    for ours, file in zip(index.values(), made.index_files, strict=True):
        assert ours == file.encode().ljust(len(ours), b"\0")
    if golden.killed:
        return
    assert list(index.values()) == list(contents(golden.root, "index").values())
    for folder, made_here in (("consumequeue", queues), ("consumequeue_ext", ext)):
        if (golden.root / folder).exists():
            assert contents(golden.root, folder) == made_here


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_derived_files_are_javas(spark: Any, name: str, tmp_path: Path) -> None:
    golden = golden_store(name)
    shutil.copytree(golden.root / "commitlog", tmp_path / "store" / "commitlog")
    shutil.copytree(golden.root / "config", tmp_path / "store" / "config")
    seen: list[JobProgress] = []
    report = dispatch_store(
        spark,
        str(tmp_path / "store"),
        golden.shape,
        out=str(tmp_path / "out"),
        split_size=300_000,
        progress=seen.append,
    )
    assert_derived(tmp_path / "out", golden)
    last = golden.log()[-1]
    assert report.records == len(golden.log())
    assert report.end_offset == last["physicalOffset"] + last["storeSize"]
    assert report.bad == []
    assert report.skipped == []
    assert report.late_filters == []
    checkpoint = decode_checkpoint((tmp_path / "out" / "checkpoint").read_bytes())
    java = decode_checkpoint((golden.root / "checkpoint").read_bytes())
    assert checkpoint.logics_msg_timestamp == last["storeTimestamp"]
    assert checkpoint.logics_physical_offset == (0 if golden.shape.store_version == "4.9" else last["physicalOffset"])
    assert golden.killed or checkpoint.index_msg_timestamp == java.index_msg_timestamp
    assert (seen[-1].stage, seen[-1].done) == ("writing files", seen[-1].total)
    assert any(one.stage == "reading the log" and one.done == one.total == report.log_bytes for one in seen)
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.name != "consumequeue_ext") == [
        "checkpoint",
        "consumequeue",
        "derived.json",
        "index",
    ]


@pytest.mark.parametrize("copy", ["5.5.0-clean"], indirect=True)
def test_in_place_a_damaged_store_becomes_whole(spark: Any, copy: GoldenStore) -> None:
    before = contents(copy.root, "consumequeue")
    shutil.rmtree(copy.root / "index")
    (copy.root / "consumequeue" / "golden_one" / "0" / f"{0:020d}").write_bytes(b"x" * 2000)
    config = contents(copy.root, "config")
    assert not verify_store(RealFiles(), str(copy.root), copy.shape).clean
    dispatch_store(spark, str(copy.root), copy.shape)
    assert contents(copy.root, "consumequeue") == before
    assert contents(copy.root, "config") == config
    verdict = verify_store(RealFiles(), str(copy.root), copy.shape)
    assert (verdict.findings, verdict.notes) == ([], [])
    assert not (copy.root / "abort").exists()
    assert [path.name for path in copy.root.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["4.9.7-clean", "5.5.0-killed"])
def test_a_broker_starts_on_it_and_finds_everything(spark: Any, name: str, tmp_path: Path) -> None:
    golden = Golden(f"store-{name}", tmp_path)
    for folder in ("consumequeue", "index"):
        shutil.rmtree(golden.root / folder)
    (golden.root / "derived.json").write_text('{"queues": {}, "index": ["20200101000000000"]}', "ascii")
    report = dispatch_store(spark, str(golden.root), golden.shape)
    store, recovery = golden.open()
    assert recovery.log_end == report.end_offset
    assert recovery.abnormal == name.endswith("killed")
    assert recovery.abnormal or (recovery.dispatched, recovery.deleted_files) == (0, [])
    assert golden.wrong(store) == []
    store.close(NOW)
    verdict = verify_store(RealFiles(), str(golden.root), golden.shape)
    assert verdict.findings == []


@pytest.mark.parametrize("copy", ["5.5.0-clean"], indirect=True)
def test_a_bad_place_in_the_log_stops_it_and_changes_nothing(spark: Any, copy: GoldenStore) -> None:
    lost = copy.log()[100]
    path = copy.root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[lost["physicalOffset"] + 4] ^= 0xFF
    path.write_bytes(data)
    before = contents(copy.root, "")
    with pytest.raises(Exception, match=f"at physical offset {lost['physicalOffset']}, one of 1 such ranges"):
        dispatch_store(spark, str(copy.root), copy.shape)
    after = contents(copy.root, "")
    del after["lock"]
    assert after == before
    report = dispatch_store(spark, str(copy.root), copy.shape, skip_corrupt=True)
    assert [bad.physical_offset for bad in report.bad] == [lost["physicalOffset"]]
    assert report.records == len(copy.log()) - 1
    # The next record has the next queue offset: its unit is one place lower than that, as a broker writes it.
    assert [skip.reason.partition(" ends at")[0] for skip in report.skipped][:1] == [
        f"{lost['topic']} queue {lost['queueId']}"
    ]


@pytest.mark.parametrize("copy", ["5.5.0-clean"], indirect=True)
def test_a_store_that_a_broker_has_is_refused(spark: Any, copy: GoldenStore, tmp_path: Path) -> None:
    files = RealFiles()
    lock = files.lock(str(copy.root / "lock"))
    try:
        with pytest.raises(FileLocked):
            dispatch_store(spark, str(copy.root), copy.shape, out=str(tmp_path / "out"))
    finally:
        files.unlock(lock)
    assert not (tmp_path / "out").exists()
    (tmp_path / "out" / "index").mkdir(parents=True)
    with pytest.raises(Exception, match="already has index: name an empty folder"):
        dispatch_store(spark, str(copy.root), copy.shape, out=str(tmp_path / "out"))


def test_a_log_without_a_record_gives_an_empty_store(spark: Any, tmp_path: Path) -> None:
    shape = golden_store("5.5.0-clean").shape
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(shape.commit_log_segment_size))
    report = dispatch_store(spark, str(tmp_path), shape)
    assert (report.records, report.units, report.index_files, report.bad) == (0, 0, 0, [])
    assert contents(tmp_path, "consumequeue") == contents(tmp_path, "index") == {}
    assert decode_checkpoint((tmp_path / "checkpoint").read_bytes()).logics_msg_timestamp == 0


def test_a_task_that_fails_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    def run(task: int) -> int:
        (tmp_path / "gone" / str(task)).read_bytes()
        return task

    with pytest.raises(JobFailed) as failed:
        Runner(spark.sparkContext).each("trying", "things", [1, 2], run, [1, 1])
    text = str(failed.value)
    assert "No such file or directory" in text
    assert "\n" not in text
    assert "Traceback" not in text


def test_following_says_what_is_wrong(spark: Any, tmp_path: Path) -> None:
    golden = golden_store("5.5.0-clean")
    shutil.copytree(golden.root, tmp_path / "store")
    with pytest.raises(OptionError, match="is the store itself"):
        follow_store(spark, str(tmp_path / "store"), golden.shape, out=str(tmp_path / "store"))
    path = tmp_path / "store" / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    lost = golden.log()[100]
    data[lost["physicalOffset"] + 4] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptStore, match=f"at physical offset {lost['physicalOffset']}"):
        follow_store(spark, str(tmp_path / "store"), golden.shape, out=str(tmp_path / "out"))
    state = follow_store(spark, str(tmp_path / "store"), golden.shape, out=str(tmp_path / "out"), skip_corrupt=True)
    last = golden.log()[-1]
    assert state.end_offset == last["physicalOffset"] + last["storeSize"]
