"""A store while its broker, ours or Java's, writes it: streamed, followed by a process that is killed, and audited."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark.dispatch.dispatch_job import dispatch_store
from bolide.spark.verify.verify_job import verify_on_spark
from bolide.testing.broker import Broker
from proof.kit.children import start
from proof.kit.our_processes import conf_file
from proof.kit.small import by_key, shape_of
from proof.kit.waiting import wait_until
from tests.spark.dispatch.derived import contents
from tests.spark.in_session import verb
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.xdist_group("spark")]

SIZES = {
    "mapped_file_size_commit_log": 1 << 18, "mapped_file_size_consume_queue": 20 * 100, "max_hash_slot_num": 1_000,
    "max_index_num": 700,
}  # fmt: skip


@dataclass
class Live:
    """A broker and its store."""

    broker: Any
    namesrv: Any
    address: str
    store: Path

    def stop(self) -> None:
        """Let the broker close its store."""
        self.broker.stop()


@pytest.fixture(params=["bolide", pytest.param("java", marks=pytest.mark.java)])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    if request.param == "bolide":
        with Broker(str(tmp_path / "store"), **SIZES) as broker:
            yield Live(broker, None, broker.namesrv_addr, tmp_path / "store")
        return
    from proof.interop.java_processes import JavaBroker, JavaNameServer

    namesrv = JavaNameServer(tmp_path / "namesrv")
    try:
        java = JavaBroker(tmp_path / "broker", namesrv.address, by_key(SIZES))
        try:
            yield Live(java, namesrv, namesrv.address, java.store)
        finally:
            java.kill()
    finally:
        namesrv.kill()


def following(store: Path, out: Path, conf: Path, mode: str = "--follow") -> list[str]:
    return ["dispatch", str(store), "--out", str(out), mode, "--config", str(conf), "--json"]


class FollowProcess:
    """`bolide pipeline dispatch --follow` as a user runs it."""

    def __init__(self, store: Path, out: Path, conf: Path) -> None:
        command = [sys.executable, "-m", "bolide.cli", "pipeline", *following(store, out, conf)]
        env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        self.process = start(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
        )

    def kill(self) -> None:
        """The driver and Spark's JVM, with no time to say anything."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def state_of(out: Path) -> int:
    path = out / ".bolide-follow" / "state.json"
    return int(json.loads(path.read_bytes())["state"]["end_offset"]) if path.exists() else -1


def test_a_live_log_is_streamed_and_followed(
    spark: Any, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = conf_file(tmp_path / "shape.conf", by_key(SIZES))
    out = tmp_path / "followed"
    sent: set[str] = set()

    def wave(number: int) -> None:
        messages = [Message(f"Live{n % 3}", b"x" * (1 + n * 37 % 900), tags="t", keys=[f"k{n}"]) for n in range(300)]
        sent.update(result.offset_message_id for result in send(live.address, messages))

    wave(0)
    frame = spark.readStream.format("rocketmq-store").option("maxBytesPerTrigger", 100_000).load(str(live.store))
    seen: dict[int, list[str]] = {}

    def batch(rows: Any, number: int) -> None:
        live = rows.where("topic LIKE 'Live%'").select("offset_message_id").collect()
        ids = sorted(row.offset_message_id for row in live)
        assert seen.setdefault(number, ids) == ids, "what was stopped on its way is done again with the same rows"

    def rows_seen() -> list[str]:
        return [row for ids in list(seen.values()) for row in ids]

    def query() -> Any:
        writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(processingTime="200 milliseconds").start()

    running = query()
    follower = FollowProcess(live.store, out, conf)
    wait_until(lambda: state_of(out) > 0, "the follower has done a batch", 400)
    wave(1)
    follower.kill()
    wait_until(lambda: len(rows_seen()) >= 300, "the stream has the first wave", 300)
    running.stop()
    wave(2)
    running = query()
    wave(3)
    wait_until(lambda: len(rows_seen()) >= 1_200, "the stream has all waves", 300)
    live.stop()
    running.processAllAvailable()
    running.stop()
    assert len(rows_seen()) == len(set(rows_seen())) == 1_200
    assert set(rows_seen()) == sent
    last = verb(monkeypatch, *following(live.store, out, conf, "--update"))
    assert last.exit_code == 0, last.output
    assert "stopped at physical offset" in last.stderr
    shape = shape_of(SIZES)
    report = dispatch_store(spark, str(live.store), shape, out=str(tmp_path / "fresh"))
    assert report.records >= 1_200
    made, expected = contents(out), contents(tmp_path / "fresh")
    assert made.pop("lock", None) is not None
    assert made == expected
    verdict = verify_on_spark(spark, str(live.store), shape)
    assert verdict.findings == []
    assert verdict.units == report.units
