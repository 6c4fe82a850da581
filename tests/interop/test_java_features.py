"""What the Java client offers beyond sending and receiving, against our broker: versions 4.9.8 and 5.5.0, JSON and
binary header: selectors, delay, broadcast, order, pulling, traces, transactions, requests, SQL92 subscriptions.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from proof.interop.java_processes import DriverError, Java, wait_registered
from proof.interop.matrix import to_ours
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.small import QUICK_CHECKS
from proof.kit.waiting import wait_until
from tests.interop.asked_back import asked_while_open

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("java-features")]

COUNT = 12
ALL = Counter(f"sync-{i}" for i in range(COUNT))
SETTINGS = {
    "flushDiskType": "ASYNC_FLUSH",
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    **QUICK_CHECKS,
}


@pytest.fixture(scope="module")
def broker(namesrv: OurNameServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    server = OurBroker(tmp_path_factory.mktemp("broker"), namesrv.address, SETTINGS)
    wait_registered(namesrv.address)
    yield server
    assert server.stop() == 0, server.output()


@to_ours("send by selector")
def test_a_selector_keeps_a_shard_in_its_queue_and_in_order(java: Java) -> None:
    topic = java.topic("shards")
    results = java.client.call("send", topic=topic, mode="sync", count=COUNT, shards=3)
    for shard in range(3):
        of_shard = results[shard::3]
        assert len({r["queueId"] for r in of_shard}) == 1
        offsets = [r["queueOffset"] for r in of_shard]
        assert offsets == sorted(set(offsets))
    java.client.call("consume", group=topic, topic=topic, orderly=1)
    got = java.client.call("await", group=topic, count=COUNT)
    java.client.call("stop", group=topic)
    assert Counter(m["keys"] for m in got) == ALL
    for shard in range(3):
        numbers = [int(m["properties"]["number"]) for m in got if int(m["properties"]["number"]) % 3 == shard]
        assert numbers == sorted(numbers)


@to_ours("delay level")
def test_delay_levels(java: Java) -> None:
    topic = java.topic("delayed")
    java.client.call("send", topic=topic, mode="sync", count=1)
    java.client.call("consume", group=topic, topic=topic)
    java.client.call("await", group=topic, count=1)
    sent = java.client.call("send", topic=topic, mode="async", count=4, level=1)
    got = java.client.call("await", group=topic, count=5)[1:]
    java.client.call("stop", group=topic)
    assert Counter(m["msgId"] for m in got) == Counter(r["msgId"] for r in sent)
    for message in got:
        assert message["storeTimestamp"] - message["bornTimestamp"] >= 1000
        assert message["properties"]["REAL_TOPIC"] == topic == message["topic"]
        assert message["properties"]["DELAY"] == "1"
        assert message["queueId"] == {r["msgId"]: r["queueId"] for r in sent}[message["msgId"]]


@to_ours("broadcast")
def test_broadcast_gives_everyone_everything(java: Java) -> None:
    topic = java.topic("broadcast")
    for name in ("one", "two"):
        java.client.call("consume", group=topic, topic=topic, broadcast=1, **{"as": f"{topic}_{name}"})
    java.client.call("send", topic=topic, mode="sync", count=COUNT)
    for name in ("one", "two"):
        got = java.client.call("await", group=f"{topic}_{name}", count=COUNT)
        assert Counter(m["keys"] for m in got) == ALL
        java.client.call("stop", group=f"{topic}_{name}")


@to_ours("orderly push")
def test_a_suspended_queue_is_not_overtaken(java: Java) -> None:
    topic = java.topic("suspended")
    java.client.call("send", topic=topic, mode="sync", count=COUNT, queue=2)
    java.client.call("consume", group=topic, topic=topic, orderly=1, fails=1)
    got = java.client.call("await", group=topic, count=2 * COUNT)
    java.client.call("stop", group=topic)
    assert [m["keys"] for m in got] == [f"sync-{i}" for i in range(COUNT) for _ in (0, 1)]


@to_ours("lite pull")
def test_lite_pull_goes_on_where_it_stopped(java: Java) -> None:
    topic = java.topic("lite")
    java.client.call("send", topic=topic, mode="sync", count=COUNT)
    got = java.client.call("lite", group=topic, topic=topic, count=COUNT)
    assert Counter(m["keys"] for m in got) == ALL
    java.client.call("send", topic=topic, mode="batch", count=3)
    more = java.client.call("lite", group=topic, topic=topic, count=3)
    assert Counter(m["keys"] for m in more) == Counter(f"batch-{i}" for i in range(3))


@to_ours("lite pull of assigned queues")
def test_lite_pull_of_assigned_queues(java: Java) -> None:
    topic = java.topic("assigned")
    java.client.call("send", topic=topic, mode="sync", count=8, queue=3)
    got = java.client.call("lite", group=topic, topic=topic, count=8, assign=3, **{"from": 3})
    offsets = [*range(8), *range(3, 8)]
    assert [(m["queueId"], m["queueOffset"], m["keys"]) for m in got] == [(3, i, f"sync-{i}") for i in offsets]


@to_ours("message trace")
def test_traces_are_sent_and_readable(java: Java) -> None:
    topic, watcher = java.topic("traced"), java.topic("watcher")
    (sent,) = java.client.call("send", topic=topic, mode="traced", count=1)
    java.client.call("consume", group=topic, topic=topic, traced=1)
    java.client.call("await", group=topic, count=1)
    java.client.call("consume", group=watcher, topic="RMQ_SYS_TRACE_TOPIC")
    kinds: set[str] = set()

    def all_there() -> bool:
        steps = [m["body"] for m in java.client.call("await", group=watcher, count=10_000, seconds=1)]
        lines = [line.split("\x01") for text in steps for line in text.split("\x02") if sent["msgId"] in line]
        kinds.update(line[0] for line in lines)
        return kinds == {"Pub", "SubBefore", "SubAfter"}

    wait_until(all_there, f"three steps of {sent['msgId']}, not only {kinds}")
    java.client.call("stop", group=watcher)
    java.client.call("stop", group=topic)


@to_ours("request-reply")
def test_java_asks_java(java: Java) -> None:
    topic = java.topic("asked")
    java.client.call("send", topic=topic, mode="sync", count=1)  # the topic exists and its route is known
    java.client.call("consume", group=topic, topic=topic, answers=1)
    answer = java.client.call("request", topic=topic, body="abc")
    java.client.call("stop", group=topic)
    assert (answer["body"], answer["topic"]) == ("cba", "DefaultCluster_REPLY_TOPIC")


@to_ours("SQL92 filter")
def test_sql_subscriptions(java: Java) -> None:
    topic = java.topic("sql")
    java.client.call("send", topic=topic, mode="sync", count=COUNT)
    java.client.call("consume", group=topic, topic=topic, sql="number_>_7_AND_TAGS_=_'TagA'")
    got = java.client.call("await", group=topic, count=4)
    java.client.call("send", topic=topic, mode="batch", count=COUNT)  # while its pulls are held
    got = java.client.call("await", group=topic, count=8)
    java.client.call("stop", group=topic)
    kinds = ("sync", "batch")
    assert Counter(m["keys"] for m in got) == Counter(f"{kind}-{i}" for kind in kinds for i in range(8, COUNT))
    with pytest.raises(DriverError, match="CODE: 23"):
        java.client.call("consume", group=java.topic("wrong"), topic=topic, sql="number_>_'a'")


@to_ours("transaction with check-back")
def test_transactions(java: Java) -> None:
    topic, group = java.topic("tx"), java.topic("txp")
    results = java.client.call("transact", topic=topic, group=group, execute="cruuc", check="..rc.")
    assert [r["status"] for r in results] == ["SEND_OK"] * 5
    java.client.call("consume", group=topic, topic=topic)
    got = java.client.call("await", group=topic, count=3)
    left_open = {"tx-2", "tx-3"}
    checks = java.client.await_until(group, lambda got: {m["keys"] for m in got} >= left_open, "both are asked about")
    java.client.call("stop", group=topic)
    assert sorted(m["keys"] for m in got) == ["tx-0", "tx-3", "tx-4"]
    ended = [m for m in got if m["keys"] not in left_open]
    assert asked_while_open([m for m in checks if m["keys"] not in left_open], ended)
