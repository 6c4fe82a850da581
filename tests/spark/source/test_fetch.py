"""Pulls of one range, against a real broker and without Spark: stretches, gaps, filters, a broker that goes away."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark.errors import ClusterUnavailable, DataLost, OptionError
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.fetch import RangeReader
from bolide.spark.source.members import BrokerMembers, master_alone
from bolide.spark.source.queues import Queue
from bolide.spark.source.ranges import Range
from bolide.spark.source.source_options import SourceOptions, read_options
from bolide.testing.broker import Broker
from proof.kit.ports import reserve_port
from tests.spark.produce import send
from tests.spark.source.fetched import QUICK, offsets


def options_of(broker: Broker, **more: object) -> SourceOptions:
    return read_options(
        {"namesrv": broker.namesrv_addr, "subscribe": "T"} | {name: str(value) for name, value in more.items()}
    )


def reader_of(broker: Broker, begin: int, end: int, **more: object) -> RangeReader:
    return RangeReader(
        Range(Queue("T", "broker-a", 0), begin, end),
        master_alone(broker.broker_addr),
        options_of(broker, **more),
        QUICK,
    )


def fill(broker: Broker, count: int, size: int = 10) -> None:
    broker.create_topic("T", queues=1)
    send(broker.namesrv_addr, [Message("T", b"x" * size, tags="AB"[n % 2], keys=f"k{n}") for n in range(count)])


@pytest.mark.parametrize("answer", [32, 1024], ids=["32", "1024"])
def test_answers_of_any_size_give_every_offset_once(answer: int) -> None:
    with Broker(max_transfer_count_on_message_in_memory=answer, bulk_pull_count=1) as broker:
        fill(broker, 1500)
        for batch in (1, 7, 1024):
            reader = reader_of(broker, 3, 1500, pullBatchSize=batch, pullsInFlight=4)
            assert offsets(reader.chunks()) == list(range(3, 1500))


def test_a_limit_in_bytes_leaves_no_gap() -> None:
    with Broker(max_transfer_count_on_message_in_memory=1024, bulk_pull_bytes=1) as broker:
        broker.create_topic("T", queues=1)
        send(broker.namesrv_addr, [Message("T", b"x" * (1 + (n * 7919) % 9000)) for n in range(600)])
        reader = reader_of(broker, 0, 600, pullsInFlight=3)
        assert offsets(reader.chunks()) == list(range(600))


@pytest.mark.parametrize(
    ("settings", "first"),
    [({}, 700), ({"bulk_pull_count": 200}, 200), ({"bulk_pull_count": 1}, 32), ({"bulk_pull_bytes": 1}, 700)],
    ids=["default", "200", "off", "bytes off"],
)
def test_a_broker_answers_with_as_many_as_it_allows_a_bulk_pull(settings: dict[str, int], first: int) -> None:
    with Broker(**settings) as broker:
        fill(broker, 700)
        chunks = list(reader_of(broker, 0, 700).chunks())
        assert chunks[0][1] == first
        assert offsets(iter(chunks)) == list(range(700))


def test_a_filter_at_the_broker_gives_every_match(bolide_broker: Broker) -> None:
    fill(bolide_broker, 300)
    reader = reader_of(bolide_broker, 10, 290, tags="B", pullsInFlight=5)
    found = offsets(reader.chunks())
    assert sorted(set(found) & set(range(10, 290))) == list(range(11, 290, 2))


def test_sql_that_a_broker_does_not_take_is_an_option_error(bolide_broker: Broker) -> None:
    fill(bolide_broker, 3)
    with pytest.raises(OptionError, match="option sql: .* T@broker-a:0 rejected it with 1.*enablePropertyFilter"):
        list(reader_of(bolide_broker, 0, 3, sql="n > 1").chunks())


@pytest.mark.bolide_broker(enable_property_filter=True)
def test_sql_that_does_not_parse_is_an_option_error(bolide_broker: Broker) -> None:
    fill(bolide_broker, 3)
    with pytest.raises(OptionError, match="option sql: .* rejected it with 23"):
        list(reader_of(bolide_broker, 0, 3, sql="n >").chunks())


def test_a_reset_of_the_group_is_not_for_us(bolide_broker: Broker) -> None:
    from bolide.admin.blocking import Admin

    fill(bolide_broker, 50)
    with Admin(bolide_broker.namesrv_addr) as admin:
        admin.create_group("bolide-spark")
        admin.reset_offset("bolide-spark", "T", 0)
    reader = reader_of(bolide_broker, 20, 50)
    assert offsets(reader.chunks()) == list(range(20, 50))


def test_missing_messages_fail_or_are_skipped(bolide_broker: Broker) -> None:
    fill(bolide_broker, 5)
    with pytest.raises(DataLost, match="has fewer messages than when the batch was planned; set failOnDataLoss"):
        list(reader_of(bolide_broker, 0, 9).chunks())
    with pytest.raises(DataLost, match=r"offset 7 of T@broker-a:0 is gone: the broker holds 0 to 5"):
        list(reader_of(bolide_broker, 7, 9).chunks())
    assert offsets(reader_of(bolide_broker, 3, 9, failOnDataLoss="false").chunks()) == [3, 4]


def test_a_broker_that_comes_back_is_read_on(tmp_path: Any) -> None:
    store = str(tmp_path / "store")
    with Broker(store, listen_port=reserve_port()) as broker:  # one that no outgoing connection takes meanwhile
        fill(broker, 400)
        options = options_of(broker, retryTimeoutMs=30_000)
        address = broker.broker_addr
        reader = RangeReader(Range(Queue("T", "broker-a", 0), 0, 400), master_alone(address), options, QUICK)
        chunks = reader.chunks()
        first = offsets(iter([next(chunks)]))
    port = int(address.rpartition(":")[2])
    with Broker(store, listen_port=port):
        assert first + offsets(chunks) == list(range(400))


def test_a_queue_that_was_taken_away_is_said_or_passed_over(bolide_broker: Broker) -> None:
    fill(bolide_broker, 5)
    options = options_of(bolide_broker)
    for gone in (Queue("T", "broker-a", 7), Queue("U", "broker-a", 0)):
        part = Range(gone, 0, 5)
        with pytest.raises(DataLost, match="the broker no longer has this queue .* set failOnDataLoss to false"):
            list(RangeReader(part, master_alone(bolide_broker.broker_addr), options).chunks())
        tolerant = options_of(bolide_broker, failOnDataLoss="false")
        assert list(RangeReader(part, master_alone(bolide_broker.broker_addr), tolerant).chunks()) == []


def test_another_address_of_the_broker_is_tried(bolide_broker: Broker) -> None:
    fill(bolide_broker, 50)
    part = Range(Queue("T", "broker-a", 0), 0, 50)
    options = options_of(bolide_broker)
    gone = "127.0.0.1:1"
    members = BrokerMembers((gone, bolide_broker.broker_addr), gone)
    assert offsets(RangeReader(part, members, options, QUICK).chunks()) == list(range(50))
    assert offsets(RangeReader(part, master_alone(gone), options, QUICK).chunks()) == list(range(50)), (
        "as the name server says"
    )


def test_a_broker_that_stays_away_is_named() -> None:
    with Broker() as broker:
        fill(broker, 3)
        reader = reader_of(broker, 0, 3, retryTimeoutMs=100, requestTimeoutMs=500)
    with pytest.raises(ClusterUnavailable, match=r"T@broker-a:0, offsets 0 to 3: given up after \d+ tries: .*refused"):
        list(reader.chunks())


def test_a_cluster_that_is_down_is_said_at_once() -> None:
    with Broker() as broker:
        fill(broker, 3)
        options = options_of(broker, retryTimeoutMs=100, requestTimeoutMs=500)
    cluster = Cluster(options, QUICK)
    with pytest.raises(ClusterUnavailable, match="name server at .* did not respond in 3 rounds"):
        cluster.selected()
    cluster.close()


def test_a_replica_answers_for_a_master_that_takes_connections_and_hangs(bolide_broker: Broker) -> None:
    fill(bolide_broker, 100)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        master = f"127.0.0.1:{hanging.getsockname()[1]}"
        part = Range(Queue("T", "broker-a", 0), 0, 100)
        # No name server tells of another master.
        given = {"namesrv": "127.0.0.1:1", "subscribe": "T", "requestTimeoutMs": "500", "retryTimeoutMs": "30000"}
        options = read_options(given)
        reader = RangeReader(part, BrokerMembers((master, bolide_broker.broker_addr), master), options, QUICK)
        assert offsets(reader.chunks()) == list(range(100))
