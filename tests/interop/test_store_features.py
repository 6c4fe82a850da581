"""A store folder full of unfinished business moves between our broker and Java's, 5.5.0 and 4.9.7, both ways.

The first broker is left with delayed messages, open and decided transactions, retries, groups that filter by SQL92,
groups in the middle of an ordered queue, and traces. The second one must serve all of it and continue each.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker, JavaClient, wait_registered
from proof.interop.matrix import STORE_BACK, STORE_OUT, marked
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.small import QUICK_CHECKS, SMALL, by_key
from proof.kit.waiting import wait_until

pytestmark = pytest.mark.java

COUNT = 12
SETTINGS = {
    **by_key(SMALL),
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "traceTopicEnable": "true",
    **QUICK_CHECKS,
}
PATIENT = SETTINGS | {"transactionCheckInterval": "3600000"}


class Move(NamedTuple):
    """Whose broker wrote the store, and the version of Java's."""

    first: str
    version: str

    def __str__(self) -> str:
        return f"{self.first}-{self.version}"

    @property
    def direction(self) -> str:
        return STORE_OUT if self.first == "ours" else STORE_BACK

    @property
    def second(self) -> str:
        return "java" if self.first == "ours" else "ours"


class Moved:
    """The second broker's client, and what was sent to the first one."""

    def __init__(self, client: JavaClient, before: dict[str, list[dict[str, Any]]]) -> None:
        self.client = client
        self.before = before

    def consume(self, group: str, topic: str, count: int, **more: Any) -> list[dict[str, Any]]:
        """What a group gets until it has so many different messages."""
        self.client.call("consume", group=group, topic=topic, **more)
        got = different(self.client, group, count)
        self.client.call("stop", group=group)
        return got


def different(client: JavaClient, group: str, count: int) -> list[dict[str, Any]]:
    """What a group has once it has so many different messages: retries, and what comes twice, are no progress."""
    what = f"{count} different messages of {group}"
    return client.await_until(group, lambda got: len({message["keys"] for message in got}) >= count, what)


MOVES = [Move(first, version) for version in (BROKER_VERSION, OLD_BROKER_VERSION) for first in ("ours", "java")]


def proves(*features: str) -> Callable[[Any], Any]:
    """Marks a test as a proof of these features, in the direction of its move."""
    return marked("{moved.direction}", *features)


@pytest.fixture(
    scope="module",
    params=[pytest.param(move, id=str(move), marks=pytest.mark.xdist_group(f"store-{move}")) for move in MOVES],
)
def moved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    """The store in the hands of the second broker."""
    move: Move = request.param
    home = tmp_path_factory.mktemp("moved")
    namesrv = OurNameServer(home / "namesrv")
    try:
        with running(move.first, move.version, home, namesrv, PATIENT):
            client = JavaClient(home / "first", namesrv.address, BROKER_VERSION)
            try:
                before = leave_open(client)
            finally:
                client.close()
        with running(move.second, move.version, home, namesrv, SETTINGS, last=True):
            client = JavaClient(home / "second", namesrv.address, BROKER_VERSION)
            try:
                yield Moved(client, before)
            finally:
                client.close()
    finally:
        assert namesrv.stop() == 0, namesrv.output()


@contextmanager
def running(
    whose: str, version: str, home: Path, namesrv: OurNameServer, settings: dict[str, str], *, last: bool = False
) -> Iterator[None]:
    """A broker on the store in `home`, until the end of the block. The `last` one leaves no store to read."""
    broker: OurBroker | JavaBroker
    if whose == "ours":
        more = {"flushDiskType": "ASYNC_FLUSH", "storeVersion": version[:3]}
        broker = OurBroker(home, namesrv.address, settings | more)
    else:
        broker = JavaBroker(home, namesrv.address, settings | {"timerWheelEnable": "false"}, version=version)
    try:
        wait_registered(namesrv.address)
        yield
    finally:
        if last and whose == "java":
            broker.kill()  # it takes ten seconds to stop
            status = 0
        else:
            status = broker.stop()
    assert status == 0 or whose == "java", broker.output()


def leave_open(client: JavaClient) -> dict[str, list[dict[str, Any]]]:
    """Work for the second broker: what was sent, by topic."""
    sent = {topic: client.call("send", topic=topic, mode="sync", count=COUNT) for topic in ("plain", "sql", "failing")}
    sent["batch"] = client.call("send", topic="batch", mode="batch", count=COUNT)
    sent["ordered"] = client.call("send", topic="ordered", mode="sync", count=COUNT, queue=1)
    sent["traced"] = client.call("send", topic="traced", mode="traced", count=1)
    sent["tx"] = client.call("transact", topic="tx", group="txp", execute="cruu", check="....")
    client.call("consume", group="txc", topic="tx")  # a commit travels oneway: it has taken effect once it is seen
    client.call("consume", group="spies", topic="RMQ_SYS_TRACE_TOPIC")  # traces are sent a moment later
    client.call("consume", group="plain", topic="plain")
    client.call("consume", group="ordered", topic="ordered", orderly=1)
    client.call("consume", group="sql", topic="sql", sql="number_<_6")
    client.call("consume", group="failing", topic="failing", fails=1, times=1000)  # one a second, until the move
    client.call("consume", group="dying", topic="failing", fails=1, times=0)
    client.call("consume", group="dead", topic="%DLQ%dying")
    counts = {
        "txc": 1,
        "spies": 1,
        "plain": COUNT,
        "ordered": COUNT,
        "sql": 6,
        "failing": COUNT,
        "dying": COUNT,
        "dead": COUNT,
    }
    for group, count in counts.items():
        different(client, group, count)
        client.call("stop", group=group)
    # For groups that are away now: in order, and with the bits of their filters.
    client.call("send", topic="ordered", mode="batch", count=3, queue=1)
    client.call("send", topic="sql", mode="async", count=COUNT)
    sent["late"] = client.call("send", topic="late", mode="sync", count=4, level=3)
    sent["soon"] = client.call("send", topic="soon", mode="sync", count=4, level=1)
    return sent


@proves("plain messages", "index by key", "offset id", "tags")
def test_moved_store_serves_all_messages(moved: Moved) -> None:
    results = moved.before["plain"]
    got = moved.consume("again", "plain", COUNT, tags="TagA_||_TagB")
    assert Counter(m["msgId"] for m in got) == Counter(r["msgId"] for r in results)
    for number in (0, COUNT - 1):
        (by_key,) = moved.client.call("query_key", topic="plain", key=f"sync-{number}")
        by_id = moved.client.call("query_id", topic="plain", id=results[number]["msgId"])
        assert by_key["msgId"] == by_id["msgId"] == results[number]["msgId"]
        at = int(results[number]["offsetMsgId"][16:], 16)
        assert (by_key["queueId"], by_key["physicalOffset"]) == (results[number]["queueId"], at)


@proves("batch")
def test_a_batch_is_served(moved: Moved) -> None:
    got = moved.consume("batches", "batch", COUNT)
    # By key: 4.9 stores the unique key of the batch with every element.
    assert Counter(m["keys"] for m in got) == Counter(f"batch-{i}" for i in range(COUNT))
    offsets = sorted(m["queueOffset"] for m in got)
    assert offsets == list(range(moved.before["batch"][0]["queueOffset"], offsets[0] + COUNT))


@proves("consumer offsets")
def test_a_group_goes_on(moved: Moved) -> None:
    moved.client.call("send", topic="plain", mode="async", count=3)
    got = moved.consume("plain", "plain", 3)
    assert Counter(m["keys"] for m in got) == Counter(f"async-{i}" for i in range(3))


@proves("orderly offsets")
def test_an_ordered_group_goes_on(moved: Moved) -> None:
    moved.client.call("send", topic="ordered", mode="sync", count=2, queue=1)
    got = [m for m in moved.consume("ordered", "ordered", 5, orderly=1) if m["queueId"] == 1]
    assert [m["keys"] for m in got if m["keys"].startswith("sync")] == ["sync-0", "sync-1"]
    offsets = [m["queueOffset"] for m in got]
    assert offsets == sorted(offsets) and offsets[0] >= COUNT


@proves("delay levels")
def test_delays_go_on(moved: Moved) -> None:
    soon = moved.consume("soon", "soon", 4)
    late = moved.consume("late", "late", 4)
    assert Counter(m["msgId"] for m in soon) == Counter(r["msgId"] for r in moved.before["soon"])
    assert Counter(m["msgId"] for m in late) == Counter(r["msgId"] for r in moved.before["late"])
    waited = [m["storeTimestamp"] - m["bornTimestamp"] for m in late]
    assert min(waited) >= 10_000, late


@proves("open transactions", "decided transactions")
def test_transactions_go_on(moved: Moved) -> None:
    """What was open is asked about; what was decided is neither asked about nor delivered again."""
    client = moved.client
    ids = [result["msgId"] for result in moved.before["tx"]]
    client.call("transact", topic="tx", group="txp", execute="r", check="rrcr")
    client.call("consume", group="later_tx", topic="tx")
    got: list[str] = []
    asked: set[str] = set()

    def all_there() -> bool:
        got[:] = [m["msgId"] for m in client.call("await", group="later_tx", count=10_000, seconds=1)]
        asked.update(m["properties"]["UNIQ_KEY"] for m in client.call("await", group="txp", count=0))
        return set(got) >= {ids[0], ids[2]} and asked >= {ids[2], ids[3]}

    wait_until(all_there, "two messages and two questions")
    client.call("stop", group="later_tx")
    assert set(got) == {ids[0], ids[2]}
    assert asked.isdisjoint({ids[0], ids[1]})
    assert got.count(ids[0]) == 1  # Java may ask twice about an open one, and commit it twice


@proves("retries and dead letters")
def test_retries_go_on(moved: Moved) -> None:
    got = moved.consume("failing", "failing", COUNT)
    assert {m["keys"] for m in got} == {f"sync-{i}" for i in range(COUNT)}
    assert all(m["reconsumeTimes"] >= 1 for m in got)
    letters = moved.consume("mourners", "%DLQ%dying", COUNT)
    # At least once: a client sends again what a broker does not answer within five seconds.
    assert {m["keys"] for m in letters} == {f"sync-{i}" for i in range(COUNT)}
    assert {(m["topic"], m["properties"]["RETRY_TOPIC"]) for m in letters} == {("%DLQ%dying", "failing")}


@proves("SQL92 filters with ext")
def test_a_filtering_group_goes_on(moved: Moved) -> None:
    got = moved.consume("sql", "sql", 6, sql="number_<_6")
    assert Counter(m["keys"] for m in got) == Counter(f"async-{i}" for i in range(6))


@proves("message trace")
def test_traces_are_kept(moved: Moved) -> None:
    got = moved.consume("watchers", "RMQ_SYS_TRACE_TOPIC", 1)
    assert any(moved.before["traced"][0]["msgId"] in m["body"] for m in got)
