"""The Java client, unchanged, against our name server and broker: versions 4.9.8 and 5.5.0, JSON and binary header."""

from collections import Counter
from typing import Any

import pytest

from proof.interop.java_processes import Java
from proof.interop.matrix import to_ours
from proof.kit.wire import PULL_MESSAGE, SUCCESS, Wire, pull_ext
from proof.reader.records import Record, read_records

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("java-client")]

QUEUES = 4
COUNT = 12


def everything_in(port: int, topic: str) -> list[Record]:
    """All messages of a topic, pulled by hand from every queue."""
    found: list[Record] = []
    with Wire(port) as wire:
        for queue_id in range(QUEUES):
            offset = 0
            while (answer := wire.ask(PULL_MESSAGE, pull_ext(topic, queue_id, offset))).code == SUCCESS:
                found += read_records(answer.body)
                offset = int(answer.ext["nextBeginOffset"])
    return found


def check_sent(messages: list[Record], mode: str, count: int) -> None:
    """Exactly the messages the driver makes for a mode, whole."""
    assert sorted(m.properties["KEYS"] for m in messages) == sorted(f"{mode}-{i}" for i in range(count))
    for message in messages:
        key = message.properties["KEYS"]
        assert message.body.decode() == f"{key} \u6b63\u6587 \U0001f680"
        assert message.properties["number"] == key.partition("-")[2]
        assert message.properties["\u57ce\u5e02"] == "\u676d\u5dde"
        assert message.properties["TAGS"] == "TagA"
        assert message.properties["UNIQ_KEY"]


def offset_id(port: int, physical_offset: int) -> str:
    """The offset message id: address and physical offset in hexadecimal."""
    return f"7F000001{port:08X}{physical_offset:016X}"


@to_ours("send {mode}")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_send(java: Java, mode: str) -> None:
    topic = java.topic(mode)
    results = java.client.call("send", topic=topic, mode=mode, count=COUNT)
    messages = everything_in(java.port, topic)
    check_sent(messages, mode, COUNT)
    assert [r["status"] for r in results] == ["SEND_OK"] * COUNT
    told = {(r["queueId"], r["queueOffset"], r["msgId"], r["offsetMsgId"]) for r in results}
    assert told == {
        (m.queue_id, m.queue_offset, m.properties["UNIQ_KEY"], offset_id(java.port, m.at)) for m in messages
    }


@to_ours("send oneway")
def test_send_oneway(java: Java) -> None:
    topic = java.topic("oneway")
    java.client.call("send", topic=topic, mode="sync", count=1)  # the topic exists and its route is known
    java.client.call("send", topic=topic, mode="oneway", count=COUNT)
    java.client.call("consume", group=topic, topic=topic)
    got = java.client.call("await", group=topic, count=COUNT + 1)
    java.client.call("stop", group=topic)
    assert Counter(m["keys"] for m in got) == Counter(["sync-0", *(f"oneway-{i}" for i in range(COUNT))])


@to_ours("send batch")
def test_send_batch(java: Java) -> None:
    topic = java.topic("batch")
    (result,) = java.client.call("send", topic=topic, mode="batch", count=COUNT)
    messages = everything_in(java.port, topic)
    check_sent(messages, "batch", COUNT)
    assert result["status"] == "SEND_OK"
    assert {m.queue_id for m in messages} == {result["queueId"]}
    in_order = sorted(messages, key=lambda m: m.queue_offset)
    assert [m.queue_offset for m in in_order] == [result["queueOffset"] + i for i in range(COUNT)]
    assert result["msgId"].split(",") == [m.properties["UNIQ_KEY"] for m in in_order]
    assert result["offsetMsgId"].split(",") == [offset_id(java.port, m.at) for m in in_order]


@to_ours("concurrent push")
def test_push_concurrent(java: Java) -> None:
    topic = java.topic("concurrent")
    java.client.call("send", topic=topic, mode="sync", count=COUNT)
    java.client.call("consume", group=topic, topic=topic)
    first = java.client.call("await", group=topic, count=COUNT)
    java.client.call("send", topic=topic, mode="batch", count=COUNT)  # while its pulls are held
    got = java.client.call("await", group=topic, count=2 * COUNT)
    java.client.call("stop", group=topic)
    assert Counter(m["keys"] for m in first) == Counter(f"sync-{i}" for i in range(COUNT))
    assert Counter(m["keys"] for m in got[COUNT:]) == Counter(f"batch-{i}" for i in range(COUNT))
    stored_there = {(m.queue_id, m.queue_offset, m.at) for m in everything_in(java.port, topic)}
    assert {(m["queueId"], m["queueOffset"], m["physicalOffset"]) for m in got} == stored_there
    assert all(m["body"] == f"{m['keys']} \u6b63\u6587 \U0001f680" for m in got)


@to_ours("tag filter")
def test_push_filters_by_tag(java: Java) -> None:
    topic = java.topic("tags")
    for tag in ("TagA", "TagB", "TagC"):
        java.client.call("send", topic=topic, mode="sync", count=4, tag=tag)
    java.client.call("consume", group=topic, topic=topic, tags="TagA_||_TagC")
    got = java.client.call("await", group=topic, count=8)
    java.client.call("stop", group=topic)
    assert Counter(m["tags"] for m in got) == {"TagA": 4, "TagC": 4}


@to_ours("orderly push")
def test_push_orderly(java: Java) -> None:
    topic = java.topic("orderly")
    java.client.call("send", topic=topic, mode="sync", count=COUNT, queue=1)
    java.client.call("consume", group=topic, topic=topic, orderly=1)
    got = java.client.call("await", group=topic, count=COUNT)
    java.client.call("stop", group=topic)
    assert [m["keys"] for m in got] == [f"sync-{i}" for i in range(COUNT)]
    assert {m["queueId"] for m in got} == {1}


@to_ours("queues shared out by the broker")
def test_queues_shared_out_by_the_broker(java: Java) -> None:
    asks = {"brokerside": 1} if java.name.startswith("55") else {}  # before 5.x the clients do it themselves
    topic = java.topic("shared")
    java.client.call("send", topic=topic, mode="sync", count=COUNT)
    java.client.call("consume", group=topic, topic=topic, **asks)
    got = java.client.call("await", group=topic, count=COUNT)
    java.client.call("stop", group=topic)
    assert Counter(m["keys"] for m in got) == Counter(f"sync-{i}" for i in range(COUNT))


@to_ours("resume at the offset")
def test_a_group_goes_on_where_it_stopped(java: Java) -> None:
    topic = java.topic("resume")
    java.client.call("send", topic=topic, mode="sync", count=4)
    java.client.call("consume", group=topic, topic=topic)
    java.client.call("await", group=topic, count=4)
    java.client.call("stop", group=topic)  # writes its offsets to the broker
    java.client.call("send", topic=topic, mode="async", count=4)
    java.client.call("consume", group=topic, topic=topic)
    got = java.client.call("await", group=topic, count=8)
    java.client.call("stop", group=topic)
    assert Counter(m["keys"] for m in got[4:]) == Counter(f"async-{i}" for i in range(4))


@to_ours("retry to dead letters")
def test_retry_to_dead_letters(java: Java) -> None:
    topic = java.topic("retry")
    dead = java.topic("dead")
    java.client.call("send", topic=topic, mode="sync", count=3)
    java.client.call("consume", group=topic, topic=topic, fails=1, times=1)
    java.client.call("consume", group=dead, topic=f"%DLQ%{topic}")
    expected = {(f"sync-{i}", times) for i in range(3) for times in (0, 1)}
    # A client sends again what was not answered within five seconds: each arrives at least once.
    tries = java.client.await_until(
        topic, lambda got: {(m["keys"], m["reconsumeTimes"]) for m in got} >= expected, "each one and its retry"
    )
    letters = java.client.await_until(dead, lambda got: len({m["keys"] for m in got}) >= 3, "three dead letters")
    java.client.call("stop", group=topic)
    java.client.call("stop", group=dead)
    assert {(m["keys"], m["reconsumeTimes"]) for m in tries} == expected
    assert {m["topic"] for m in letters} == {f"%DLQ%{topic}"}
    assert {m["keys"] for m in letters} == {f"sync-{i}" for i in range(3)}
    first = {m["keys"]: m for m in tries if m["reconsumeTimes"] == 0}
    for letter in letters:
        properties: dict[str, Any] = letter["properties"]
        assert letter["body"] == first[letter["keys"]]["body"]
        assert properties["RETRY_TOPIC"] == topic
        origin = first[letter["keys"]]
        named = properties["ORIGIN_MESSAGE_ID"]
        sent_anew = letter["bornTimestamp"] != origin["bornTimestamp"]  # by a client, which names it by its unique id
        assert named == offset_id(java.port, origin["physicalOffset"]) or (sent_anew and named == origin["msgId"])


@to_ours("query by key and id")
def test_query_by_key_and_id(java: Java) -> None:
    topic = java.topic("query")
    results = java.client.call("send", topic=topic, mode="sync", count=3)
    (by_key,) = java.client.call("query_key", topic=topic, key="sync-1")
    assert (by_key["msgId"], by_key["queueOffset"]) == (results[1]["msgId"], results[1]["queueOffset"])
    for name in ("msgId", "offsetMsgId"):
        by_id = java.client.call("query_id", topic=topic, id=results[2][name])
        assert (by_id["keys"], by_id["msgId"]) == ("sync-2", results[2]["msgId"])
        assert by_id["body"] == "sync-2 \u6b63\u6587 \U0001f680"
