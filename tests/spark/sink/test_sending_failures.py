"""Requests of the sink that fail in part: what is sent again, to which queue, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.signature import ACCESS_KEY, FULL_SIGNATURE, SIGNATURE, full_signature_holds, signature_holds
from bolide.spark.errors import ClusterUnavailable, RowRefused
from bolide.spark.sink.bundles import Bundle
from bolide.spark.sink.elements import ElementReader, Elements
from bolide.spark.sink.messages import Task
from bolide.spark.source.queues import Queue
from proof.kit.waiting import wait_until
from tests.client.scripted_broker import ScriptedBroker
from tests.spark.sink_rounds import write

TASK = Task("q", 0, 3)
ROWS = [b"%d" % number for number in range(30)]
LEVELS = [1] * len(ROWS)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker("broker-a") as broker:
        yield broker


def options(broker: ScriptedBroker, **more: str) -> dict[str, str]:
    return {"namesrv": broker.address, "topic": "T", "deliveryTimeoutMs": "60000", **more}


def stored(broker: ScriptedBroker) -> Counter[bytes]:
    return Counter(record.body for data in broker.stored.values() for each in data for record in decode_records(each))


def once(broker: ScriptedBroker, fails: Callable[[Command], Command | None], *wanted: bytes) -> None:
    """The first request with one of these bodies fails."""
    left = set(wanted)

    def answer(command: Command) -> Command | None:
        if command.body in left:
            left.remove(command.body)
            return fails(command)
        return broker.on_send_message_v2(command)

    broker.script[codes.SEND_MESSAGE_V2] = answer


def busy(command: Command) -> Command:
    return make_response(command, codes.SYSTEM_BUSY, "scripted")


def test_only_the_requests_of_a_run_that_failed_are_repeated(broker: ScriptedBroker) -> None:
    once(broker, busy, b"4", b"17")
    written = write(options(broker), TASK, ROWS, delay_level=LEVELS)
    assert (written.rows, stored(broker)) == (len(ROWS), Counter(ROWS))
    assert Counter(command.body for command in broker.requests(codes.SEND_MESSAGE_V2)) == Counter([*ROWS, b"4", b"17"])


def test_a_refused_request_of_a_run_names_its_row(broker: ScriptedBroker) -> None:
    once(broker, lambda command: make_response(command, codes.MESSAGE_ILLEGAL, "scripted"), b"17")
    with pytest.raises(RowRefused, match="partition 3, row 17, topic T: broker broker-a answered 13: scripted"):
        write(options(broker), TASK, ROWS, delay_level=LEVELS)


def test_a_batch_that_is_refused_is_sent_one_by_one(broker: ScriptedBroker, tmp_path: Any) -> None:
    def refuse(command: Command) -> Command:
        return make_response(command, codes.MESSAGE_ILLEGAL, "scripted")

    once(broker, refuse, b"17", b"23")
    broker.script[codes.SEND_BATCH_MESSAGE] = refuse
    numbers = [number % 2 for number in range(30)]
    written = write(options(broker, deadLetterPath=str(tmp_path)), TASK, ROWS, flag=list(range(30)), queue_id=numbers)
    dead = pq.read_table(tmp_path / "_staging" / written.dead[0]).to_pylist()
    assert sorted((row["row"], row["body"]) for row in dead) == [(17, b"17"), (23, b"23")]
    assert written.rows == 28
    assert stored(broker) == Counter(ROWS) - Counter([b"17", b"23"])
    singles = {command.body: command.ext() for command in broker.requests(codes.SEND_MESSAGE_V2)}
    assert all(int(ext["h"]) == int(body) for body, ext in singles.items())
    ids = {parse_properties_bytes(ext["i"].encode())["UNIQ_KEY"] for ext in singles.values()}
    assert len(ids) == len(ROWS)


@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
def test_a_connection_that_ends_within_a_run_costs_only_what_was_not_answered(
    broker: ScriptedBroker, tmp_path: Any, mode: str
) -> None:
    def cut(_: Command) -> None:
        for client in broker.clients:
            client.transport.abort()

    once(broker, cut, b"20")
    half = {"mode": mode, "checkpointLocation": str(tmp_path)} if mode == "exactly-once" else {}
    rows: dict[str, Any] = {"queue_id": [1] * len(ROWS)} | ({} if half else {"delay_level": LEVELS})
    written = write(options(broker, **half), TASK, ROWS, **rows)
    found = stored(broker)
    assert written.rows == len(ROWS)
    assert set(found) == set(ROWS)
    assert 0 < written.uncertain <= len(ROWS)
    if half:
        assert len(written.handles) == len(ROWS)
        assert len(written.handles.places()) == len(ROWS)


def test_a_request_without_an_answer_ends_with_the_row(broker: ScriptedBroker) -> None:
    broker.script[codes.SEND_MESSAGE_V2] = lambda command: None
    with pytest.raises(
        ClusterUnavailable, match="row 0 of this partition was not stored in topic T within 0.3 s: .*ans"
    ):
        write(options(broker, deliveryTimeoutMs="300", requestTimeoutMs="200"), TASK, ROWS, delay_level=LEVELS)


@pytest.mark.parametrize("topics", [["Nowhere"] * 30, ["T", "Nowhere"] * 15], ids=["all", "every second"])
@pytest.mark.parametrize("key", [None, "s1"])
def test_rows_of_an_unknown_topic_are_saved_and_the_others_stored(
    broker: ScriptedBroker, tmp_path: Any, topics: list[str], key: str | None
) -> None:
    saving = options(broker, deadLetterPath=str(tmp_path), deliveryTimeoutMs="300")
    written = write(saving, TASK, ROWS, topic=topics, sharding_key=[key] * 30)
    good = [row for row, topic in zip(ROWS, topics, strict=True) if topic == "T"]
    dead = pq.read_table(tmp_path / "_staging" / written.dead[0]).to_pylist()
    assert [row["body"] for row in dead] == [row for row in ROWS if row not in good]
    assert {row["reason"] for row in dead} == {"no name server knew the topic within 0.3 s: create it"}
    assert (written.rows, stored(broker)) == (len(good), Counter(good))


def test_a_key_keeps_its_queue_when_its_batch_is_repeated(broker: ScriptedBroker) -> None:
    seen: list[str] = []

    def answer(command: Command) -> Command:
        seen.append(command.ext()["n"])
        return busy(command) if len(seen) < 3 else broker.on_send_batch_message(command)

    with ScriptedBroker("broker-b") as other:
        for each in (broker, other):
            each.script[codes.SEND_BATCH_MESSAGE] = answer
        broker.others.append(other)
        write(options(broker), TASK, ROWS, sharding_key=["s1"] * 30)
    assert len(set(seen)) == 1


def test_sharding_key_binds_its_whole_batch() -> None:
    batch = pa.record_batch({"body": pa.array(ROWS), "sharding_key": pa.array([None] * 29 + ["s1"])})
    (elements,) = ElementReader("T", TASK, False).read(batch)
    assert isinstance(elements, Elements)
    bundle = Bundle(Queue("T", "broker-a", 0), single=False)
    ends = elements.ends()
    bundle.add(elements, 0, 29, elements.bytes()[ends[0] : ends[29]])
    assert not bundle.keyed
    bundle.add(elements, 29, 30, elements.bytes()[ends[29] : ends[30]])
    assert bundle.keyed
    assert bundle.singles([3]).keyed


def test_delayed_and_ordinary_rows_of_a_queue_keep_their_order(broker: ScriptedBroker) -> None:
    levels = [1 if number % 7 in (2, 3) else None for number in range(30)]
    write(options(broker), TASK, ROWS, delay_level=levels, queue_id=[1] * 30)
    (data,) = broker.stored.values()
    assert [record.body for each in data for record in decode_records(each)] == ROWS
    delayed = [row for row, level in zip(ROWS, levels, strict=True) if level]
    assert [command.body for command in broker.requests(codes.SEND_MESSAGE_V2)] == delayed


@pytest.mark.parametrize("most", [1, 8])
def test_runs_stay_within_the_requests_allowed_in_flight(broker: ScriptedBroker, most: int) -> None:
    broker.script[codes.SEND_MESSAGE_V2] = lambda command: None
    limits = {"sendsInFlight": str(most), "deliveryTimeoutMs": "300", "requestTimeoutMs": "400"}
    with pytest.raises(ClusterUnavailable):
        write(options(broker, **limits), TASK, ROWS, delay_level=LEVELS)
    wait_until(lambda: len(broker.requests(codes.SEND_MESSAGE_V2)) == most, "all that was written is read")


def test_signed_runs_are_whole_commands(broker: ScriptedBroker) -> None:
    keys = {"accessKey": "a", "secretKey": "s3cret-of-a"}
    write(options(broker, **keys), TASK, ROWS, delay_level=LEVELS, tags=['a"\\ж'] * 30)
    signed = broker.requests(codes.SEND_MESSAGE_V2)
    with ScriptedBroker("broker-a") as other:
        write(options(other), TASK, ROWS, delay_level=LEVELS, tags=['a"\\ж'] * 30)
        plain = other.requests(codes.SEND_MESSAGE_V2)
    left_out = {ACCESS_KEY, SIGNATURE, FULL_SIGNATURE, "g", "e"}

    def fields(command: Command) -> tuple[bytes, dict[str, str]]:
        return command.body, {name: value for name, value in command.ext().items() if name not in left_out}

    assert [fields(command) for command in signed] == [fields(command) for command in plain]
    for each in signed:
        assert signature_holds(each.ext(), each.body, "s3cret-of-a", each.version)
        assert full_signature_holds(each.code, each.ext(), each.body, "s3cret-of-a")
