"""SQL92 subscriptions: Java consumers at our broker with filter bitmaps on, and a store that goes to Java and back."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.declaration import options_of
from bolide.layout.shape import ShapeOptions, StoreShape
from bolide.store.disk.files import RealFiles
from bolide.store.offline.verify import verify_store
from proof.interop.java_artefacts import BROKER_VERSION, CLIENT_VERSIONS
from proof.interop.java_processes import DriverError, JavaBroker, JavaClient, wait_registered
from proof.interop.matrix import STORE_BACK, STORE_OUT, to_ours
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.small import SMALL, by_key

pytestmark = pytest.mark.java

SETTINGS = {
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "filterSupportRetry": "true",
    **by_key(SMALL),
}
COUNT = 12
WITH_EXT = "SQL92 filters with ext"
BELOW = [f"sync-{i}" for i in range(6)]


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNameServer]:
    server = OurNameServer(tmp_path_factory.mktemp("namesrv"))
    yield server
    assert server.stop() == 0, server.output()


@contextmanager
def our_broker(home: Path, namesrv: str) -> Iterator[OurBroker]:
    """A Bolide broker for a while; it must stop cleanly."""
    with closing(OurBroker(home, namesrv, {**SETTINGS, "flushDiskType": "ASYNC_FLUSH"})) as broker:
        wait_registered(namesrv)
        assert isinstance(broker, OurBroker)
        yield broker


@contextmanager
def closing(broker: OurBroker | JavaBroker) -> Iterator[OurBroker | JavaBroker]:
    try:
        yield broker
    finally:
        status = broker.stop()
    assert status == 0 or isinstance(broker, JavaBroker), broker.output()


def consume(client: JavaClient, group: str, sql: str, count: int, **more: Any) -> list[dict[str, Any]]:
    """What a group gets until it has so many messages."""
    client.call("consume", group=group, topic="filtered", sql=sql.replace(" ", "_"), **more)
    client.call("send", topic="filtered", mode="sync", count=COUNT)
    got: list[dict[str, Any]] = client.call("await", group=group, count=count)
    client.call("stop", group=group)
    return got


@to_ours("SQL92 filter with bitmaps")
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_a_java_consumer(namesrv: OurNameServer, tmp_path: Path, version: str) -> None:
    with our_broker(tmp_path / "broker", namesrv.address), client_at(namesrv, tmp_path / "client", version) as client:
        client.call("send", topic="filtered", mode="sync", count=COUNT)  # before the group is known: no bits for it
        got = consume(client, "above", "number > 7 AND TAGS = 'TagA'", 8)
        assert Counter(m["keys"] for m in got) == Counter({f"sync-{i}": 2 for i in (8, 9, 10, 11)})
        tries = consume(client, "again", "number BETWEEN 3 AND 4", 9 + 3, fails=1, times=1)
        assert {m["keys"] for m in tries} == {"sync-3", "sync-4"}
        assert {m["reconsumeTimes"] for m in tries} == {0, 1}
        with pytest.raises(DriverError, match="CODE: 23"):
            client.call("consume", group="wrong", topic="filtered", sql="number_>_'a'")


@pytest.mark.matrix(feature=WITH_EXT, version=BROKER_VERSION, direction=STORE_OUT)
@pytest.mark.matrix(feature=WITH_EXT, version=BROKER_VERSION, direction=STORE_BACK)
def test_there_and_back(namesrv: OurNameServer, tmp_path: Path) -> None:
    """The bits that one wrote are understood by the other, and so is the file of filter data."""
    home = tmp_path / "broker"
    with our_broker(home, namesrv.address), client_at(namesrv, tmp_path / "first") as client:
        assert keys(consume(client, "below", "number < 6", 6)) == Counter(BELOW)
        client.call("send", topic="filtered", mode="sync", count=COUNT)  # for a group that is away: it has its bits
    assert_whole(home)
    with closing(JavaBroker(home, namesrv.address, SETTINGS)), client_at(namesrv, tmp_path / "second") as client:
        assert keys(consume(client, "below", "number < 6", 12)) == Counter(BELOW * 2)
        client.call("send", topic="filtered", mode="sync", count=COUNT)
    with our_broker(home, namesrv.address), client_at(namesrv, tmp_path / "third") as client:
        assert keys(consume(client, "below", "number < 6", 12)) == Counter(BELOW * 2)
    assert_whole(home)


@contextmanager
def client_at(namesrv: OurNameServer, home: Path, version: str = BROKER_VERSION) -> Iterator[JavaClient]:
    """A Java client for as long as one broker runs: each has its own port."""
    client = JavaClient(home, namesrv.address, version)
    try:
        yield client
    finally:
        client.close()


def keys(messages: list[dict[str, Any]]) -> Counter[str]:
    return Counter(message["keys"] for message in messages)


def assert_whole(home: Path) -> None:
    verdict = verify_store(RealFiles(), str(home / "store"), StoreShape.of(options_of(ShapeOptions, SETTINGS)))
    assert not verdict.findings, verdict.findings
    assert any((home / "store" / "consumequeue_ext").rglob("*0"))
