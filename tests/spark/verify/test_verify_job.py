"""The audit on Spark finds nothing in Java's stores, and everything that is spoilt in them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bolide.job_progress import JobProgress
from bolide.layout.checkpoint import decode_checkpoint
from bolide.layout.shape import StoreShape
from bolide.spark.bench.store import make_store
from bolide.spark.verify.verdict import Verdict
from bolide.spark.verify.verify_job import verify_on_spark, verify_with
from bolide.spark.verify.verify_page import verdict_page
from proof.sequences.in_process import InProcess
from tests.golden.stores import GOLDEN_NAMES, GoldenStore, golden_store
from tests.spark.in_session import verb


def verify(root: Path, shape: StoreShape) -> Verdict:
    return verify_with(InProcess(), str(root), shape, split_size=300_000)  # type: ignore[arg-type]  # a stand-in


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.versions
def test_tasks_on_spark_find_what_they_find_here(spark: Any, tmp_path: Path) -> None:
    golden = golden_store("5.5.0-ext")
    shutil.copytree(golden.root, tmp_path / "store")
    unit_gone(golden, tmp_path / "store")
    seen: list[JobProgress] = []
    there = verify_on_spark(spark, str(tmp_path / "store"), golden.shape, split_size=300_000, progress=seen.append)
    here = verify(tmp_path / "store", golden.shape)
    there.seconds = here.seconds = 0.0
    assert there == here
    assert not there.clean
    assert [(one.stage, one.done) for one in seen if one.done == one.total] == [
        ("reading the log", there.log_bytes),
        ("checking files", len(there.queues) + len(there.index)),
    ]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_spoilt_store_is_told_in_every_form(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = golden_store("5.5.0-clean")
    shutil.copytree(golden.root, tmp_path / "store")
    unit = tmp_path / "store" / "consumequeue" / "golden_one" / "0" / f"{0:020d}"
    unit.write_bytes(unit.read_bytes()[:7] + b"\xff" + unit.read_bytes()[8:])
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in golden.manifest["brokerConf"].items()), "utf-8")
    page = tmp_path / "report.html"
    words = ["verify", str(tmp_path / "store"), "--config", str(conf), "--html", str(page), "--json"]
    done = verb(monkeypatch, *words)
    assert done.exit_code == 1, done.output
    verdict = json.loads(done.stdout)
    assert (verdict["clean"], verdict["records"]) == (False, len(golden.log()))
    assert any("the unit says" in finding["sentence"] for finding in verdict["findings"])
    assert "consumequeue/golden_one/0" in page.read_text("utf-8")
    assert "checking files: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_store_that_java_wrote_is_clean(name: str) -> None:
    golden = golden_store(name)
    verdict = verify(golden.root, golden.shape)
    assert verdict.findings == []
    assert verdict.clean
    assert verdict.records == len(golden.log())
    queued = sum(entry["sysFlag"] & 0xC not in (4, 0xC) for entry in golden.log())
    behind = sum(int(note.split(" the last ")[1].split()[0]) for note in verdict.notes if " the last " in note)
    assert verdict.units + behind == queued
    assert (verdict.ext_units > 0) == name.endswith("ext")
    assert verdict.index_entries > 0
    assert verdict.consumer_offsets > 0
    assert any("abort exists" in note for note in verdict.notes) == golden.killed


def test_an_index_of_the_other_version_is_told() -> None:
    golden = golden_store("4.9.7-clean")
    notes = verify(golden.root, replace(golden.shape, store_version="5.5")).notes
    assert [note for note in notes if "the index was written by the rules of 4.9" in note]


def flip(path: Path, at: int, mask: int = 0xFF) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def commit_log(golden: GoldenStore, root: Path, record: dict[str, Any]) -> tuple[Path, int]:
    size = golden.shape.commit_log_segment_size
    start = record["physicalOffset"] // size * size
    return root / "commitlog" / f"{start:020d}", record["physicalOffset"] - start


def body_changed(golden: GoldenStore, root: Path) -> str:
    record = next(entry for entry in golden.log() if entry["topic"] == "golden_one")
    path, at = commit_log(golden, root, record)
    flip(path, at + 88, 1)
    return "a record whose body does not match its CRC"


def record_gone(golden: GoldenStore, root: Path) -> str:
    record = golden.log()[150]
    path, at = commit_log(golden, root, record)
    flip(path, at + 4)
    return f"{record['storeSize']} bytes that are not a record, followed by records"


def unit_points_elsewhere(golden: GoldenStore, root: Path) -> str:
    flip(root / "consumequeue" / "golden_one" / "0" / f"{0:020d}", 3 * 20 + 7, 1)
    return "the unit says"


def unit_has_another_code(golden: GoldenStore, root: Path) -> str:
    flip(root / "consumequeue" / "golden_one" / "0" / f"{0:020d}", 3 * 20 + 19, 1)
    return "the unit has tags code"


def unit_gone(golden: GoldenStore, root: Path) -> str:
    path = root / "consumequeue" / "golden_one" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[40:60] = bytes(20)
    path.write_bytes(data)
    return "golden_one queue 0 lacks 1 records of the log, the first at "


def queue_gone(golden: GoldenStore, root: Path) -> str:
    shutil.rmtree(root / "consumequeue" / "golden_one" / "0")
    return "golden_one queue 0 does not have the last "


def unit_too_many(golden: GoldenStore, root: Path) -> str:
    path = root / "consumequeue" / "golden_one" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    end = max(at for at in range(0, len(data), 20) if any(data[at : at + 12])) + 20
    data[end : end + 20] = data[:20]
    path.write_bytes(data)
    return "no record of this queue"


def strange_name(golden: GoldenStore, root: Path) -> str:
    (root / "consumequeue" / "golden_one" / "0" / "notes.txt").write_text("x")
    return "the name is not a start offset of 20 digits"


def first_index(root: Path) -> Path:
    return sorted((root / "index").iterdir())[0]


def entry(golden: GoldenStore, number: int) -> int:
    return 40 + 4 * golden.shape.index_slots + 20 * number


def chain_broken(golden: GoldenStore, root: Path) -> str:
    flip(first_index(root), entry(golden, 5) + 19, 1)
    return "entry 5 is chained to "


def entry_of_no_record(golden: GoldenStore, root: Path) -> str:
    flip(first_index(root), entry(golden, 5) + 3, 1)
    return "no record with such a key"


def slot_changed(golden: GoldenStore, root: Path) -> str:
    data = first_index(root).read_bytes()
    slot = next(slot for slot in range(golden.shape.index_slots) if any(data[40 + 4 * slot : 44 + 4 * slot]))
    flip(first_index(root), 43 + 4 * slot, 3)
    return f"slot {slot} holds entry "


def header_changed(golden: GoldenStore, root: Path) -> str:
    flip(first_index(root), 35, 1)
    return "slots, "


def index_gone(golden: GoldenStore, root: Path) -> str:
    for path in sorted((root / "index").iterdir()):
        path.unlink()
    return "the index ends at the record at -1, records with keys continue to "


def seconds_changed(golden: GoldenStore, root: Path) -> str:
    flip(first_index(root), entry(golden, 5) + 15, 8)
    return "an entry says 8 s after the file's begin, its record at "


def first_seconds_changed(golden: GoldenStore, root: Path) -> str:
    flip(sorted((root / "index").iterdir())[1], entry(golden, 1) + 15, 8)
    return "an entry says 8 s"


def index_cut_in_its_slots(golden: GoldenStore, root: Path) -> str:
    return index_cut(root, 600)


def index_cut_in_its_header(golden: GoldenStore, root: Path) -> str:
    return index_cut(root, 7)


def index_cut_in_its_entries(golden: GoldenStore, root: Path) -> str:
    return index_cut(root, entry(golden, 5))


def index_cut(root: Path, size: int) -> str:
    first_index(root).write_bytes(first_index(root).read_bytes()[:size])
    return "it is too short for the entries it counts"


def index_too_long(golden: GoldenStore, root: Path) -> str:
    first_index(root).write_bytes(first_index(root).read_bytes() + b"x")
    return " bytes, an index file of this store has "


def offsets_that_are_none(golden: GoldenStore, root: Path) -> str:
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": {"golden_one@g": {"x": 1}}}))
    return "it cannot be read: "


def file_gone(golden: GoldenStore, root: Path) -> str:
    (root / "commitlog" / f"{golden.shape.commit_log_segment_size:020d}").unlink()
    return "no bytes where the log should continue to "


def offset_beyond(golden: GoldenStore, root: Path) -> str:
    path = root / "config" / "consumerOffset.json"
    path.write_text(json.dumps({"offsetTable": {"golden_one@g": {"0": 10**6}}}))
    return "group g is at 1000000 of golden_one queue 0, which ends at "


def checkpoint_beyond(golden: GoldenStore, root: Path) -> str:
    path = root / "checkpoint"
    path.write_bytes(path.read_bytes()[:40] + (10**9).to_bytes(8, "big") + bytes(4048))
    return "its logics_physical_offset 1000000000 is beyond the log"


def checkpoint_of_tomorrow(golden: GoldenStore, root: Path) -> str:
    path = root / "checkpoint"
    late = decode_checkpoint(path.read_bytes()).physic_msg_timestamp + 86_400_000
    path.write_bytes(late.to_bytes(8, "big") + path.read_bytes()[8:])
    return f"its physic_msg_timestamp {late} is later than every record of the log"


SPOILT: list[Callable[[GoldenStore, Path], str]] = [
    body_changed, record_gone, unit_points_elsewhere, unit_has_another_code, unit_gone, queue_gone, unit_too_many,
    strange_name, chain_broken, entry_of_no_record, slot_changed, header_changed, index_gone, offset_beyond,
    checkpoint_of_tomorrow,
    checkpoint_beyond, seconds_changed, first_seconds_changed, index_cut_in_its_slots, index_cut_in_its_header,
    index_cut_in_its_entries, index_too_long, offsets_that_are_none, file_gone,
]  # fmt: skip


def test_whatever_is_spoilt_is_found(tmp_path: Path) -> None:
    golden = golden_store("5.5.0-clean")
    missed = []
    for number, spoil in enumerate(SPOILT):
        root = tmp_path / str(number)
        shutil.copytree(golden.root, root)
        expected = spoil(golden, root)
        verdict = verify(root, golden.shape)
        if not any(expected in one.sentence for one in verdict.findings):
            missed.append((spoil.__name__, expected, verdict.findings, verdict.notes))
        shutil.rmtree(root)
    assert missed == []


def test_a_spoilt_extension_is_found(tmp_path: Path) -> None:
    golden = golden_store("5.5.0-ext")
    shutil.copytree(golden.root, tmp_path / "store")
    files = sorted((tmp_path / "store" / "consumequeue_ext").glob("*/*/*"))
    path = next(path for path in files if any(path.read_bytes()[:2]))
    flip(path, 17, 1)
    found = [one.sentence for one in verify(tmp_path / "store", golden.shape).findings]
    assert [sentence for sentence in found if "has another record's store time" in sentence]
    flip(path, 17, 1)
    flip(path, 1, 1)
    found = [one.sentence for one in verify(tmp_path / "store", golden.shape).findings]
    assert [sentence for sentence in found if "cannot be read" in sentence]


def test_bits_that_a_filter_asks_for_are_missed_and_others_noted(tmp_path: Path) -> None:
    golden = golden_store("5.5.0-ext")
    shutil.copytree(golden.root, tmp_path / "store")
    assert not any("bits" in note for note in verify(golden.root, golden.shape).notes)
    filters = tmp_path / "store" / "config" / "consumerFilter.json"
    known = json.loads(filters.read_text("utf-8"))
    (topic, of_topic), *_ = known["filterDataByTopic"].items()
    for one in of_topic["groupFilterData"].values():
        one["bornTime"] = 1  # known before the first message
    filters.write_text(json.dumps(known), "utf-8")
    before = verify(tmp_path / "store", golden.shape).findings
    path = next(path for path in sorted((tmp_path / "store" / "consumequeue_ext" / topic).glob("*/*")) if bits(path))
    cleared = path.read_bytes()
    at, size = bits(path)[-1]
    path.write_bytes(cleared[:at] + bytes(size) + cleared[at + size :])
    found = [one.sentence for one in verify(tmp_path / "store", golden.shape).findings if one not in before]
    assert len(found) == 1
    assert "lacks bits of a filter that matches the record" in found[0]
    path.write_bytes(cleared[:at] + b"\xff" * size + cleared[at + size :])
    after = verify(tmp_path / "store", golden.shape)
    assert after.findings == before
    assert any(": 1 extension units have bits that no filter" in note for note in after.notes)
    filters.write_text('{"filterDataByTopic": 5}', "utf-8")
    assert any("it cannot be read" in one.sentence for one in verify(tmp_path / "store", golden.shape).findings)


def bits(path: Path) -> list[tuple[int, int]]:
    """Place and size of the bitmaps of a file that are not empty."""
    data, at, found = path.read_bytes(), 0, []
    while (size := int.from_bytes(data[at : at + 2], "big", signed=True)) > 0:
        if any(data[at + 20 : at + size]):
            found.append((at + 20, size - 20))
        at += size
    return found


@pytest.mark.slow
def test_a_bad_record_that_is_alone_in_what_is_read_at_once_is_found(tmp_path: Path) -> None:
    size = make_store(tmp_path, 6, 3_000_000)
    flip(tmp_path / "commitlog" / f"{0:020d}", 2 * size + 1_000_000, 1)
    (found,) = [one for one in verify(tmp_path, StoreShape()).findings if "commitlog" in one.path]
    assert (found.position, found.sentence) == (2 * size, "a record whose body does not match its CRC")


@pytest.mark.parametrize("name", ["5.5.0-ext", "4.9.7-clean"])
def test_noise_anywhere_is_a_finding_and_no_crash(tmp_path: Path, name: str) -> None:
    golden = golden_store(name)
    shutil.copytree(golden.root, tmp_path / "store")
    paths = [path for path in sorted((tmp_path / "store").rglob("*")) if path.is_file() and path.stat().st_size]
    chance = random.Random(7)
    for path in paths[:: len(paths) // 25]:
        whole = path.read_bytes()
        end = len(whole.rstrip(b"\0")) + 1
        at = chance.randrange(end)
        noise = chance.randbytes(chance.choice([1, 8, 100]))
        cut = chance.choice([None, chance.randrange(end)])
        path.write_bytes((whole[:at] + noise + whole[at + len(noise) :])[:cut])
        verify(tmp_path / "store", golden.shape)
        path.write_bytes(whole)


def test_the_page_needs_nothing_else_and_quotes_what_it_shows(tmp_path: Path) -> None:
    verdict = Verdict("/data/<store>", records=5, seconds=1.0)
    verdict.find("/data/<store>/consumequeue/T/0", 20, "<script>alert(1)</script>")
    page = verdict_page(verdict)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "1 finding<" in page
    assert not any(word in page for word in ("http://", "https://", "src=", "@import", "url("))
