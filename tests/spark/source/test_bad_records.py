"""Messages that a broker stores and nobody can read: a batch, a stream and a store each do what the options say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from bolide.layout.columns import RecordColumns, chain_starts
from bolide.spark.data_source import RocketMQReader
from bolide.spark.errors import BadBody, OptionError
from bolide.spark.source.bad_records import BAD_RECORD, BadRecords, read_bad_records
from bolide.spark.source.rows import EARLIEST_MS, LATEST_MS
from bolide.spark.source.sifting import MAX_PLAIN
from bolide.spark.source.source_options import read_options
from bolide.spark.store.store_options import columns_of, store_options
from bolide.spark.store.store_source import StoreReader
from bolide.testing.broker import Broker
from tests.spark.source.bad import NO_KIND, PLAIN, ZLIB, put

NAMES = ("queue_offset", "body", "born_timestamp")
SCHEMA = StructType([StructField(NAMES[0], LongType()), StructField(NAMES[1], BinaryType())])
TIMES = StructType([*SCHEMA.fields, StructField(NAMES[2], TimestampType())])
MARKED = StructType([*SCHEMA.fields, StructField(BAD_RECORD, StringType())])
UNKNOWN = "compression type 7 is unknown"
LARGE = "a zlib body inflates to more than 67108864 bytes"
POISON = (("plain", b"plain", ZLIB, PLAIN), ("unknown", b"abc", NO_KIND, UNKNOWN),
          ("large", zlib.compress(bytes(70 << 20)), ZLIB, LARGE))  # fmt: skip


def read(broker: Broker, schema: StructType = SCHEMA, **more: object) -> list[dict[str, Any]]:
    given = {"namesrv": broker.namesrv_addr, "subscribe": "T"} | {name: str(value) for name, value in more.items()}
    reader = RocketMQReader(read_options(given), schema)
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def read_store(broker: Broker, **more: object) -> list[dict[str, Any]]:
    given = {"path": broker.store_folder, "subscribe": "T"} | {name: str(value) for name, value in more.items()}
    options = store_options(given, streaming=False)
    names = tuple(name for name in (*NAMES, BAD_RECORD) if name in columns_of(options))
    reader = StoreReader(options, names)
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


@pytest.mark.parametrize(("body", "sys_flag", "why"), [one[1:] for one in POISON], ids=[one[0] for one in POISON])
def test_a_bad_message_is_named_dropped_shown_or_put_aside(
    bolide_broker: Broker, tmp_path: Path, body: bytes, sys_flag: int, why: str
) -> None:
    put(bolide_broker, [(b"before", 0), (body, sys_flag), (zlib.compress(b"packed"), ZLIB), (b"after", 0)])
    with pytest.raises(BadBody) as caught:
        read(bolide_broker)
    advice = "set badRecords to drop or column to read the rest"
    assert str(caught.value) == f"the body of T@broker-a:0 offset 1 cannot be read: {why}; {advice}"
    good = [(0, b"before"), (2, b"packed"), (3, b"after")]
    assert [(row["queue_offset"], row["body"]) for row in read(bolide_broker, badRecords="drop")] == good
    shown = read(bolide_broker, MARKED, badRecords="column")
    assert [(row["queue_offset"], row["body"]) for row in shown] == [good[0], (1, None), *good[1:]]
    assert [row[BAD_RECORD] for row in shown] == [None, why, None, None]
    for _ in range(2):
        kept = read(bolide_broker, deadLetterPath=tmp_path / "aside")
        assert [(row["queue_offset"], row["body"]) for row in kept] == good
    (aside,) = pq.read_table(str(tmp_path / "aside")).to_pylist()
    assert (aside["topic"], aside["broker"], aside["queue_id"], aside["queue_offset"]) == ("T", "broker-a", 0, 1)
    assert aside["reason"] == why
    stored = RecordColumns(aside["record"], chain_starts(aside["record"]))
    assert stored.body.to_pylist() == [body]
    assert aside["physical_offset"] == int(stored.numbers("physical_offset")[0])


def test_a_bad_message_in_a_store(bolide_broker: Broker, tmp_path: Path) -> None:
    put(bolide_broker, [(b"before", 0), (b"plain", ZLIB), (b"after", 0)])
    with pytest.raises(BadBody, match=r"the body of T:0 offset 1 at physical offset \d+ cannot be read: a zlib body"):
        read_store(bolide_broker)
    for options in ({"badRecords": "drop"}, {"corruptRecords": "skip"}, {"deadLetterPath": tmp_path / "aside"}):
        assert [row["body"] for row in read_store(bolide_broker, **options)] == [b"before", b"after"]
    (aside,) = pq.read_table(str(tmp_path / "aside")).to_pylist()
    assert (aside["broker"], aside["queue_offset"], aside["reason"]) == (None, 1, PLAIN)
    assert [(row["body"], row[BAD_RECORD]) for row in read_store(bolide_broker, badRecords="column")] == [
        (b"before", None), (None, PLAIN), (b"after", None)
    ]  # fmt: skip


@pytest.mark.parametrize("on_bad_body", ["column", "drop"])
def test_a_bad_message_among_typed_bodies(bolide_broker: Broker, on_bad_body: str) -> None:
    bodies = [(b"rubbish", 0), (b'{"id": 1}', 0), (b"plain", ZLIB), (b"more", 0), (zlib.compress(b'{"id": 2}'), ZLIB)]
    put(bolide_broker, bodies)
    given = {"body.format": "json", "body.schema": "id BIGINT", "body.onBadRecord": on_bad_body, "badRecords": "column"}
    extra = [StructField("_corrupt_record", BinaryType())] if on_bad_body == "column" else []
    schema = StructType([*MARKED.fields, StructField("id", LongType()), *extra])
    rows = read(bolide_broker, schema, **given)
    shown = [(row["queue_offset"], row["id"], row["body"], row[BAD_RECORD]) for row in rows]
    good = [(1, 1, b'{"id": 1}', None), (2, None, None, PLAIN), (4, 2, b'{"id": 2}', None)]
    if on_bad_body == "drop":
        assert shown == good
    else:
        assert shown == [(0, None, b"rubbish", None), *good[:2], (3, None, b"more", None), good[2]]
        assert [row["_corrupt_record"] for row in rows] == [b"rubbish", None, None, b"more", None]
    dropped = read(bolide_broker, StructType([StructField("id", LongType())]), **{**given, "badRecords": "drop"})
    assert [row["id"] for row in dropped if row["id"] is not None] == [1, 2]


def test_bodies_that_inflate_to_much_come_in_batches_that_fit_into_memory(bolide_broker: Broker) -> None:
    size = 30 << 20
    large = (zlib.compress(bytes(size)), ZLIB)
    put(bolide_broker, [large, (b"plain", ZLIB), *[large] * 5, (b"small", 0)])
    whole = [(0, size), *((offset, size) for offset in range(2, 7)), (7, 5)]
    options = read_options({"namesrv": bolide_broker.namesrv_addr, "subscribe": "T", "badRecords": "drop"})
    live = RocketMQReader(options, SCHEMA)
    options_of_store = store_options({"path": bolide_broker.store_folder, "badRecords": "drop", "subscribe": "T"})
    for reader in (live, StoreReader(options_of_store, NAMES[:2])):
        lengths = []
        for task in reader.partitions():
            for batch in reader.read(task):
                assert batch.nbytes < MAX_PLAIN + size + 4096
                sizes = [len(body or b"") for body in batch.column(1).to_pylist()]
                lengths += list(zip(batch.column(0).to_pylist(), sizes, strict=True))
        assert lengths == whole


@pytest.mark.parametrize(
    ("born", "shown"),
    [(10**17, LATEST_MS), (253_402_300_799_999, LATEST_MS), (-(10**17), EARLIEST_MS), (-(2**63), EARLIEST_MS)],
)
def test_a_time_beyond_what_a_timestamp_holds_is_the_nearest_one(bolide_broker: Broker, born: int, shown: int) -> None:
    put(bolide_broker, [(b"far", 0)], born)
    put(bolide_broker, [(b"near", 0)], 1_767_225_600_123)
    times = [row["born_timestamp"].timestamp() * 1000 for row in read(bolide_broker, TIMES)]
    assert times == [shown, 1_767_225_600_123]
    assert [row["born_timestamp"].timestamp() * 1000 for row in read_store(bolide_broker)] == times


def test_every_time_zone_can_show_the_farthest_times(tmp_path: Path) -> None:
    program = f"""
import datetime
for ms in ({EARLIEST_MS}, {LATEST_MS}):
    assert datetime.datetime.fromtimestamp(ms // 1000).year in (1, 9999)
"""
    for zone in ("Etc/GMT-14", "Etc/GMT+12", "UTC"):
        subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "TZ": zone}, cwd=tmp_path)


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    assert read_bad_records({}) == BadRecords()
    assert read_bad_records({"deadletterpath": f"file://{tmp_path}/"}) == BadRecords("drop", str(tmp_path))
    with pytest.raises(OptionError, match="option badRecords must be fail, drop or column, not 'skip'"):
        read_bad_records({"badrecords": "skip"})
    with pytest.raises(OptionError, match="deadLetterPath keeps dropped messages: set badRecords to drop"):
        read_bad_records({"badrecords": "column", "deadletterpath": "/x"})
    with pytest.raises(OptionError, match="mounted here"):
        read_bad_records({"deadletterpath": "hdfs:///x"})
    with pytest.raises(OptionError, match="columns names _bad_record, which is not a column"):
        read_options({"namesrv": "n:1", "subscribe": "T", "columns": BAD_RECORD})
    json_body = {"body.format": "json", "body.schema": json.dumps(BAD_RECORD).strip('"') + " STRING"}
    with pytest.raises(OptionError, match=BAD_RECORD):
        read_options({"namesrv": "n:1", "subscribe": "T", **json_body})
