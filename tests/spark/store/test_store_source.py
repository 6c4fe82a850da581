"""Store folders that Java wrote, read by a real session with no broker."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bolide.layout.queue_unit import PRE_BLANK_SIZE
from tests.golden.stores import GoldenStore, golden_store

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def load(spark: Any, golden: GoldenStore | Path, **options: Any) -> Any:
    root = golden.root if isinstance(golden, GoldenStore) else golden
    return spark.read.format("rocketmq-store").options(**options).load(str(root))


@pytest.mark.parametrize("name", ["5.5.0-clean", "4.9.7-killed"])
def test_every_message_is_that_of_the_manifest(spark: Any, name: str) -> None:
    import hashlib

    golden = golden_store(name)
    frame = load(spark, golden, splitSize=200_000, checkCrc="true")
    assert frame.rdd.getNumPartitions() > len(golden.commit_log())
    rows = {row.physical_offset: row for row in frame.collect()}
    assert len(rows) == len(golden.log())
    for entry in golden.log():
        row = rows[entry["physicalOffset"]]
        assert (row.topic, row.queue_id, row.queue_offset) == (entry["topic"], entry["queueId"], entry["queueOffset"])
        assert hashlib.sha256(bytes(row.body)).hexdigest() == entry["bodySha256"]
        assert int(row.store_timestamp.timestamp() * 1000 + 0.5) == entry["storeTimestamp"]
        assert row.tags == entry["properties"].get("TAGS")
        assert row.broker is None
    kinds = {(row.kind, row.topic) for row in rows.values() if row.kind != "normal"}
    assert kinds == {("half", "RMQ_SYS_TRANS_HALF_TOPIC"), ("delayed", "SCHEDULE_TOPIC_XXXX")}


def test_topics_times_and_a_narrower_schema(spark: Any) -> None:
    golden = golden_store("5.5.0-clean")
    log = golden.log()
    some = load(spark, golden, subscribe="golden_one,golden_plain", splitSize=65_536)
    assert some.count() == sum(entry["topic"] in ("golden_one", "golden_plain") for entry in log)
    begin, end = log[100]["storeTimestamp"], log[-100]["storeTimestamp"]
    inside = sum(begin <= entry["storeTimestamp"] < end for entry in log)
    assert 0 < inside < len(log)
    assert load(spark, golden, startingTimestamp=begin, endingTimestamp=end).count() == inside
    narrow = spark.read.format("rocketmq-store").schema("kind STRING, physical_offset BIGINT").load(str(golden.root))
    assert sorted(row.physical_offset for row in narrow.collect()) == [entry["physicalOffset"] for entry in log]


def test_corrupt_records_fail_or_are_skipped_and_reported(spark: Any, tmp_path: Path) -> None:
    golden = golden_store("5.5.0-clean")
    root = tmp_path / "store"
    shutil.copytree(golden.root, root)
    lost = golden.log()[200]
    size = golden.shape.commit_log_segment_size
    path = root / "commitlog" / f"{lost['physicalOffset'] // size * size:020d}"
    data = bytearray(path.read_bytes())
    data[lost["physicalOffset"] % size + 5] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(Exception, match=f"at physical offset {lost['physicalOffset']}"):
        load(spark, root).count()
    assert load(spark, root, corruptRecords="skip").count() == len(golden.log()) - 1
    (bad,) = load(spark, root, table="bad_ranges", splitSize=100_000).collect()
    assert (bad.physical_offset, bad.size, bad.torn) == (lost["physicalOffset"], lost["storeSize"], False)
    assert bad.path == str(path)


def test_the_other_tables(spark: Any) -> None:
    golden = golden_store("5.5.0-clean")
    units = {(r.topic, r.queue_id, r.queue_offset): r for r in load(spark, golden, table="consume_queue").collect()}
    queued = [entry for entry in golden.log() if entry["sysFlag"] & 0xC not in (4, 0xC)]
    assert len(units) == len(queued)
    for entry in queued:
        unit = units[entry["topic"], entry["queueId"], entry["queueOffset"]]
        assert (unit.physical_offset, unit.size) == (entry["physicalOffset"], entry["storeSize"])
        assert unit.size != PRE_BLANK_SIZE
    entries = load(spark, golden, table="index", indexSlots=golden.shape.index_slots)
    offsets = {row.physical_offset for row in entries.collect()}
    assert offsets == {e["physicalOffset"] for e in golden.log() if {"UNIQ_KEY", "KEYS", "TAGS"} & set(e["properties"])}
    with pytest.raises(Exception, match="set option indexSlots to the broker's maxHashSlotNum"):
        load(spark, golden, table="index").count()
    topics = {row.topic: row for row in load(spark, golden, table="topics").collect()}
    assert topics["SCHEDULE_TOPIC_XXXX"].read_queues == 18
    groups = {row.group for row in load(spark, golden, table="groups").collect()}
    assert "golden_trans_group" in groups
    offsets_of = {
        (r.group, r.topic, r.queue_id): r.queue_offset for r in load(spark, golden, table="offsets").collect()
    }
    assert offsets_of["golden_trans_group", "golden_trans", 0] == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tabel": "messages"}, "tabel is unknown to format rocketmq-store: did you mean table"),
        ({"table": "rows"}, "option table must be messages, bad_ranges, .* or groups, not 'rows'"),
        ({"corruptRecords": "drop"}, "must be fail or skip"),
        ({"subscribe": "a", "topic": "b"}, "subscribe a and topic b contradict each other"),
        ({"startingTimestamp": "5", "endingTimestamp": "5"}, "nothing would be read"),
    ],
)
def test_a_wrong_option_is_one_sentence(spark: Any, options: dict[str, str], text: str) -> None:
    with pytest.raises(Exception, match=text):
        load(spark, golden_store("5.5.0-clean"), **options).count()


def test_a_folder_that_is_no_store_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="is not a store: there is no CommitLog file"):
        load(spark, tmp_path).count()


def test_the_program_of_the_page(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.page_programs import program

    program("spark_store").main(str(golden_store("4.9.7-clean").root))
    shown = capsys.readouterr().out
    assert "|half   |RMQ_SYS_TRANS_HALF_TOPIC" in shown
    assert "0 queue units lead to no message" in shown
