"""Sinks without Spark: what each leaves, whole or not at all, and under the same name when a task runs again."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bolide import plugins
from bolide.spark.errors import OptionError
from bolide.spark.jobs.sinks import SinkTask, drain

BODIES = [b"one", b"two", b"three"]


def batches() -> list[pa.RecordBatch]:
    """Messages as the source gives them, in two batches and an empty one."""
    schema = pa.schema({"topic": pa.string(), "body": pa.binary(), "properties": pa.map_(pa.string(), pa.string())})
    rows = [{"topic": "T", "body": body, "properties": [("k", "v")]} for body in BODIES]
    return [pa.RecordBatch.from_pylist(part, schema) for part in (rows[:2], [], rows[2:])]


def task(folder: Path, attempt: int = 0, **options: str) -> SinkTask:
    return SinkTask({"path": str(folder), **options}, 7, 3, attempt)


def run(name: str, made: SinkTask) -> int:
    return drain(plugins.find(plugins.SINKS, name)(made), iter(batches()))


def read(name: str, file: Path) -> list[bytes]:
    if name == "parquet":
        return pq.read_table(file).column("body").to_pylist()
    return [json.loads(line)["body"].encode() for line in file.read_text().splitlines()]


@pytest.mark.parametrize(("name", "suffix"), [("parquet", "parquet"), ("json", "jsonl")])
def test_a_task_that_runs_again_replaces_its_file(tmp_path: Path, name: str, suffix: str) -> None:
    for attempt in range(2):
        assert run(name, task(tmp_path, attempt)) == 3
        assert [path.name for path in tmp_path.iterdir()] == [f"part-00000007-00003.{suffix}"]
        assert read(name, tmp_path / f"part-00000007-00003.{suffix}") == BODIES


@pytest.mark.parametrize("name", ["parquet", "json"])
def test_a_task_that_fails_leaves_nothing(tmp_path: Path, name: str) -> None:
    def broken() -> object:
        yield batches()[0]
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        drain(plugins.find(plugins.SINKS, name)(task(tmp_path)), broken())  # type: ignore[arg-type] # yields batches
    assert list(tmp_path.iterdir()) == []


def test_json_lines_hold_maps_and_bodies_as_asked(tmp_path: Path) -> None:
    run("json", task(tmp_path, body="base64"))
    (line, *_) = next(tmp_path.iterdir()).read_text().splitlines()
    assert json.loads(line) == {"topic": "T", "body": base64.b64encode(b"one").decode(), "properties": {"k": "v"}}


def test_sinks_get_times_in_utc_whatever_the_zone_of_the_session(tmp_path: Path) -> None:
    zoned = pa.timestamp("us", "GMT+8")
    columns = {
        "born_timestamp": pa.array([1_793_000_000_123_000, 253_402_300_799_000_000], zoned),
        "body_times": pa.array([[{"at": 1_000_000}], None], pa.list_(pa.struct([("at", zoned)]))),
    }
    drain(plugins.find(plugins.SINKS, "json")(task(tmp_path)), iter([pa.RecordBatch.from_pydict(columns)]))
    lines = [json.loads(line) for line in next(tmp_path.iterdir()).read_text().splitlines()]
    assert [line["born_timestamp"] for line in lines] == [
        "2026-10-26T07:33:20.123000+00:00",
        "9999-12-31T23:59:59+00:00",
    ]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("parquet", {"pathh": "x"}, "the option pathh is unknown to this sink: use one of path, compression"),
        ("parquet", {"path": "x", "compression": "rar"}, "option compression is one of zstd, snappy, gzip, lz4, none"),
        ("json", {"body": "hex"}, "option body is text or base64"),
        ("json", {}, "set the option path"),
        ("rocketmq", {"namesrv": "127.0.0.1:1", "colour": "red"}, "option colour is unknown"),
        ("rocketmq", {"namesrv": "127.0.0.1:1", "mode": "exactly-once"}, "sends at least once: remove option mode"),
        ("rocketmq", {"namesrv": "127.0.0.1:1", "deadLetterPath": "/x"}, "remove option deadLetterPath"),
        ("rocketmq", {"namesrv": "127.0.0.1:1", "body.format": "json"}, "remove option body.format"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, name: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        plugins.find(plugins.SINKS, name)(SinkTask(options, 0, 0, 0))


def test_messages_are_sent_on_with_what_their_sender_gave(bolide_broker: object) -> None:
    from bolide.client.blocking import PullConsumer
    from bolide.testing.broker import Broker

    assert isinstance(bolide_broker, Broker)
    options = {"namesrv": bolide_broker.namesrv_addr, "topic": "Copies"}
    bolide_broker.create_topic("Copies")
    assert drain(plugins.find(plugins.SINKS, "rocketmq")(SinkTask(options, 0, 0, 0)), iter(batches())) == 3
    with PullConsumer("readers", bolide_broker.namesrv_addr, start_from="first") as consumer:
        consumer.subscribe("Copies")
        found = []
        while len(found) < 3:
            found += consumer.poll(5)
    assert sorted(message.body for message in found) == sorted(BODIES)
    assert {message.properties["k"] for message in found} == {"v"}
