"""Sends of one task against a real broker: batches, order, bad rows among good ones, queues by key and by number."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from bolide.layout.properties import parse_properties_bytes
from bolide.remoting.command import Command
from bolide.spark.errors import OptionError, RowRefused
from bolide.spark.sink.bundles import Bundle
from bolide.spark.sink.elements import ElementReader, Elements
from bolide.spark.sink.messages import Refusal, Task
from bolide.spark.sink.sending import Sender
from bolide.spark.sink.sink_options import sink_options
from bolide.testing.broker import Broker
from proof.kit.waiting import wait_until
from tests.spark.sink_rounds import bodies, records, write

TASK = Task("q", 0, 3)


@pytest.fixture
def options(bolide_broker: Broker) -> dict[str, str]:
    bolide_broker.create_topic("Out", queues=4)
    return {"namesrv": bolide_broker.namesrv_addr, "topic": "Out"}


def test_many_rows_travel_together_and_keep_their_order(options: dict[str, str]) -> None:
    requests: list[int] = []

    def stored(bundle: Bundle, answers: list[Command]) -> None:
        requests.append(bundle.count)

    def refused(refusal: Refusal) -> None:
        raise AssertionError(refusal)

    count = 5_000
    rows = pa.RecordBatch.from_arrays([pa.array([b"%06d" % number for number in range(count)])], names=["body"])
    # Sends that get no answer in time go out once more, later and to another queue.
    patient = {**options, "batchBytes": "4096", "requestTimeoutMs": "240000", "deliveryTimeoutMs": "480000"}
    with closing(Sender(sink_options(patient), stored, refused)) as sender:
        for elements in ElementReader("Out", TASK, immediate=False).read(rows):
            assert isinstance(elements, Elements)
            sender.send(elements)
        sender.drain()
    assert sender.tally.stored == sum(requests) == count
    assert len(requests) < count / 20
    found = records(options["namesrv"], "Out")
    assert len(found) == count
    by_queue: dict[int, list[bytes]] = {}
    for record in found:
        by_queue.setdefault(record.queue_id, []).append(record.body)
    assert len(by_queue) == 4
    assert all(bodies == sorted(bodies) for bodies in by_queue.values())
    assert len({parse_properties_bytes(record.properties)["UNIQ_KEY"] for record in found}) == count


def test_keys_and_numbers_choose_queues(options: dict[str, str]) -> None:
    rows = 60
    write(
        options,
        TASK,
        [b"%d" % number for number in range(rows)],
        sharding_key=[None if number % 3 == 0 else f"s{number % 3}" for number in range(rows)],
        queue_id=[3 if number % 3 == 0 else None for number in range(rows)],
    )
    found = records(options["namesrv"], "Out")
    keys = {(parse_properties_bytes(record.properties).get("__SHARDINGKEY"), record.queue_id) for record in found}
    assert len(found) == rows
    assert (None, 3) in keys
    assert len(keys) == 3  # java_hash("s1") = 3614, java_hash("s2") = 3615
    assert {("s1", 3614 % 4), ("s2", 3615 % 4)} < keys


@pytest.mark.bolide_broker(max_message_size=2_000)
def test_a_row_too_large_costs_none_of_its_neighbours(options: dict[str, str], tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    rows = [b"%d" % number for number in range(50)]
    rows[20] = b"x" * 3_000
    with pytest.raises(RowRefused, match="partition 3, row 20, topic Out: broker .* answered 13: .*maxMessageSize"):
        write(options, TASK, rows)
    before = Counter(record.body for record in records(options["namesrv"], "Out"))
    options = {**options, "deadLetterPath": str(tmp_path)}
    written = write(options, TASK, rows, queue_id=[None] * 49 + [9])
    after = Counter(record.body for record in records(options["namesrv"], "Out"))
    assert (after - before) == Counter(row for number, row in enumerate(rows) if number not in (20, 49))
    (staged,) = written.dead
    dead = pq.read_table(tmp_path / "_staging" / staged).to_pylist()
    assert sorted((row["row"], row["reason"][:24]) for row in dead) == [
        (20, "broker broker-a answered"),
        (49, "the topic has no writabl"),
    ]


def test_an_unknown_topic_is_waited_for_once(options: dict[str, str]) -> None:
    with pytest.raises(RowRefused, match="no name server knew the topic within 1 s: create it; or set option dead"):
        write({**options, "deliveryTimeoutMs": "1000"}, TASK, [b"x"], topic=["Nowhere"], queue_id=[7])


def test_only_a_reason_in_the_row_asks_to_correct_it(bolide_broker: Broker, options: dict[str, str]) -> None:
    with pytest.raises(RowRefused, match="the topic has no writable queue 7; correct the row, or set option"):
        write(options, TASK, [b"x"], queue_id=[7])
    bolide_broker.create_topic("Closed", perm=4)
    with pytest.raises(RowRefused, match="no writable queue: check its permission; or set option deadLetter"):
        write(options, TASK, [b"x"], topic=["Closed"])


def test_the_address_of_a_broker_is_no_name_server(bolide_broker: Broker) -> None:
    options = {"namesrv": bolide_broker.broker_addr, "topic": "Out", "deliveryTimeoutMs": "480000"}
    with pytest.raises(OptionError, match=f"option namesrv: {bolide_broker.broker_addr} is not a name server.*broker"):
        write(options, TASK, [b"x"])


def test_rows_that_were_sent_before_keep_what_they_had(options: dict[str, str]) -> None:
    write(options, TASK, [b"x"], message_id=["0A" * 16], born_timestamp=[1_700_000_000_123], route_key=["s1"])
    (record,) = records(options["namesrv"], "Out")
    properties = parse_properties_bytes(record.properties)
    assert (record.born_timestamp, record.queue_id) == (1_700_000_000_123, 3614 % 4)
    assert properties["UNIQ_KEY"] == "0A" * 16
    assert "__SHARDINGKEY" not in properties


def test_a_row_appears_at_its_time(options: dict[str, str]) -> None:
    due = int(time.time() * 1000) + 2_000
    write(options, TASK, [b"now", b"later", b"level"], deliver_time=[None, due, None], delay_level=[None, None, 1])
    assert b"now" in bodies(options["namesrv"], "Out")
    wait_until(lambda: len(bodies(options["namesrv"], "Out")) == 3, "the delayed rows arrive")
    (later,) = (record for record in records(options["namesrv"], "Out") if record.body == b"later")
    assert later.store_timestamp >= due - 1_000  # the wheel turns once a second
