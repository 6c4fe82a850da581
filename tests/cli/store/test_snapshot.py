"""`bolide store snapshot`: the store of a real broker under traffic, and what the command says of each fault."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.cli.store.snapshot import _shown
from bolide.client import Message, MessageQueue, ReceivedMessage, SendResult, TransactionState
from bolide.declaration import java_key
from bolide.testing.broker import SMALL, Broker
from proof.kit.waiting import wait_until
from tests.cli.running import invoke
from tests.client.patient_blocking import Admin, Producer, PullConsumer, TransactionProducer

ROLLING: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 17,
    "mapped_file_size_consume_queue": 20 * 200,
    "mapped_file_size_consume_queue_ext": 1 << 16,
    "enable_consume_queue_ext": True,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
    "max_message_size": 1 << 16,
}
QUEUE = MessageQueue("T", "broker-a", 0)


def conf_of(folder: Path) -> Path:
    """A broker.conf with the sizes of the files."""
    path = folder / "broker.conf"
    path.write_text("".join(f"{java_key(name)}={str(value).lower()}\n" for name, value in ROLLING.items()))
    return path


class Traffic:
    """Sends messages with keys, tags, delays and timers until it is stopped."""

    def __init__(self, namesrv: str) -> None:
        self.acknowledged: list[str] = []
        self._namesrv = namesrv
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        number = 0
        with Producer("traffic", self._namesrv) as producer:
            while not self._end.is_set():
                sent = [self._message(number + at) for at in range(40)]
                number += len(sent)
                for message, outcome in zip(sent, producer.send_many(sent), strict=True):
                    if isinstance(outcome, SendResult):
                        self.acknowledged.append(message.body.decode())

    def _message(self, number: int) -> Message:
        more: dict[str, Any] = {7: {"delay_level": 1}, 8: {"delay": 1.0}}.get(number % 10, {})
        return Message("T", b"%d " % number + bytes([97]) * 300, keys=f"k{number}", tags=f"t{number % 3}", **more)


@contextmanager
def sending(namesrv: str) -> Iterator[Traffic]:
    traffic = Traffic(namesrv)
    traffic._thread.start()
    try:
        yield traffic
    finally:
        traffic._end.set()
        traffic._thread.join()


def consumed(namesrv: str, wanted: set[str], group: str = "reader") -> list[str]:
    """Consume until all wanted bodies have arrived."""
    found: list[str] = []
    missing = set(wanted)
    with PullConsumer(group, namesrv, start_from="first") as consumer:
        consumer.subscribe("T")
        while missing:
            arrived = [message.body.decode() for message in consumer.poll()]
            assert arrived, f"{len(missing)} acknowledged messages do not arrive"
            found += arrived
            missing.difference_update(arrived)
    return found


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_copy_under_traffic_serves_every_acknowledged_message(tmp_path: Path, flush: str) -> None:
    original, copy = tmp_path / "store", tmp_path / "copy"
    with Broker(str(original), flush_disk_type=flush, **ROLLING) as broker:
        broker.create_topic("T", 3)
        with Admin(broker.namesrv_addr) as admin, sending(broker.namesrv_addr) as traffic:
            admin.create_group("g")
            wait_until(lambda: len(traffic.acknowledged) > 2000)
            admin.set_group_offset("g", QUEUE, 12)  # the broker writes it within five seconds
            before = list(traffic.acknowledged)
            done = invoke("store", "snapshot", copy, "-n", broker.namesrv_addr, "--json")
            assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert report["copied_bytes"] > 0 and report["folder"] == str(copy)
        assert report["linked_files"] > 2 or flush == "ASYNC_FLUSH"  # only synced files are linked
        verdict = invoke("store", "verify", copy, "-c", conf_of(tmp_path))
        assert (verdict.exit_code, verdict.output[:6]) == (0, "clean:"), verdict.output
        assert "note" not in verdict.output
        # Both run: the copy shares the sealed files of the log.
        with Broker(str(copy), **ROLLING) as second, Admin(second.namesrv_addr) as admin:
            found = consumed(second.namesrv_addr, set(before))
            assert admin.group_offset("g", QUEUE) == 12
        assert set(before) <= set(found)
    for root in (original, copy):
        assert invoke("store", "verify", root, "-c", conf_of(tmp_path)).exit_code == 0


class Undecided:
    """Commits or rolls back by the body; does not know the outcome of `later` until a broker asks."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        if message.body == b"later":
            return TransactionState.UNKNOWN
        return TransactionState.COMMIT if message.body == b"commit" else TransactionState.ROLLBACK

    def check(self, message: ReceivedMessage) -> TransactionState:
        assert message.body == b"later", "the others have ended"
        return TransactionState.COMMIT


def test_transactions_end_once_in_the_copy(tmp_path: Path) -> None:
    settings = {**ROLLING, "transaction_time_out": 100, "transaction_check_interval": 100}
    copy = tmp_path / "copy"
    with Broker(**{**settings, "transaction_time_out": 600_000}) as broker:
        with TransactionProducer("pay", broker.namesrv_addr, Undecided()) as producer:
            for body in (b"commit", b"rollback", b"later"):
                producer.send_in_transaction(Message("T", body))
        consumed(broker.namesrv_addr, {"commit"})  # ends of transactions have no response
        assert invoke("store", "snapshot", copy, "-n", broker.namesrv_addr).exit_code == 0
    with Broker(str(copy), **settings) as second:
        with TransactionProducer("pay", second.namesrv_addr, Undecided()):
            assert sorted(consumed(second.namesrv_addr, {"commit", "later"}, "other")) == ["commit", "later"]


def test_output_for_people(tmp_path: Path) -> None:
    with Broker(**ROLLING) as broker:
        with Producer("p", broker.namesrv_addr) as producer:
            producer.send(Message("T", b"one"))
        done = invoke("store", "snapshot", tmp_path / "copy", "--broker", broker.broker_addr, "-n", broker.namesrv_addr)
    assert done.exit_code == 0, done.output
    assert f"{tmp_path}/copy has the log from 0 to " in done.stdout
    assert done.stderr == ""


def test_progress_of_long_copies_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = _shown(lambda: now)
    progress("log", 1_000_000, 4_000_000, "bytes")
    assert capsys.readouterr().err == ""
    now = 10.0
    progress("log", 2_000_000, 4_000_000, "bytes")
    assert capsys.readouterr().err == "log: 2 of 4 MB, 0 MB/s, 10 s left\n"
    progress("tables", 1, 1, "files")
    assert capsys.readouterr().err == "tables: 1 of 1 files, 0/s\n"


def test_another_file_system_gets_copies(tmp_path: Path) -> None:
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir() or os.stat(shared_memory).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("the machine has no second file system for this test")
    copy = shared_memory / f"bolide-{os.getpid()}-{tmp_path.name}"
    try:
        with Broker(**ROLLING) as broker:
            with Producer("p", broker.namesrv_addr) as producer:
                producer.send_many([Message("T", b"x" * 3000) for _ in range(120)])
            done = invoke("store", "snapshot", copy, "-n", broker.namesrv_addr, "--json")
            assert done.exit_code == 0, done.output
            report = json.loads(done.stdout)
            assert report["linked_files"] == 0 and report["copied_bytes"] > 300_000
        assert invoke("store", "verify", copy, "-c", conf_of(tmp_path)).exit_code == 0
    finally:
        shutil.rmtree(copy, ignore_errors=True)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["{copy}/deeper"], 2, "there is no folder {copy} for the copy: create it"),
        (["{tmp}"], 1, "{tmp} exists: give a new folder"),
        (["{store}/copy"], 1, "is in the store that it would copy"),
        (["{copy}", "--store", "{tmp}"], 1, "is not the store of the running broker"),
        (["{copy}", "--broker", "nobody"], 1, "no master of broker nobody is registered; known brokers: broker-a"),
        (["{copy}", "--broker", "127.0.0.1:1"], 3, "127.0.0.1:1"),
    ],
)
def test_faults_are_one_sentence(words: list[str], code: int, text: str, tmp_path: Path) -> None:
    with Broker(**ROLLING) as broker:
        names = {"copy": tmp_path / "copy", "tmp": tmp_path, "store": broker.store_folder}
        done = invoke("store", "snapshot", *(word.format(**names) for word in words), "-n", broker.namesrv_addr)
        assert (done.exit_code, text.format(**names) in done.stderr) == (code, True), done.output
        assert len(done.stderr.strip().splitlines()) == 1
        told = invoke(
            "store", "snapshot", *(word.format(**names) for word in words), "-n", broker.namesrv_addr, "--json"
        )
        assert json.loads(told.stderr)["exit_code"] == code
    assert list(tmp_path.iterdir()) == []


def test_commands_of_the_page_on_backups(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "back-up.md").read_text(encoding="utf-8")
    section = page.partition("## A copy of a running broker\n")[2].partition("\n## ")[0]
    commands = [line.split() for line in section.splitlines() if line.startswith("    bolide ")]
    assert [words[:3] for words in commands] == [["bolide", "store", "snapshot"], ["bolide", "store", "verify"]]
    with Broker() as broker:
        with Producer("p", broker.namesrv_addr) as producer:
            producer.send(Message("T", b"one"))
        conf = tmp_path / "broker.conf"
        conf.write_text("".join(f"{java_key(name)}={value}\n" for name, value in SMALL.items()))
        for words in commands:
            here = [word.replace("/backup/", f"{tmp_path}/") for word in words[1:]]
            more = ["-c", conf] if "verify" in words else []  # the files of this broker are small
            done = invoke(*here, *more, BOLIDE_NAMESRV_ADDR=broker.namesrv_addr)
            assert done.exit_code == 0, done.output
    assert done.stdout.startswith("clean: 1 records")
