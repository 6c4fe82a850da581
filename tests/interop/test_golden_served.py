"""Every message that Java brokers stored in the golden stores is served by our broker: by pull, by key and by id.

The killed stores are served after our recovery of what SIGKILL left. What a record must be is in the manifest, which
Java's own decoder wrote.
"""

import json
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaClient, wait_registered
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.wire import PULL_MESSAGE, QUERY_MESSAGE, SUCCESS, VIEW_MESSAGE_BY_ID, Wire, pull_ext, query_ext
from proof.reader.records import Record, read_records

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
STORES = sorted(path.name.removesuffix(".tar.xz") for path in GOLDEN.glob("*.tar.xz"))
OF_THE_PLACE = ("listenPort", "haListenPort", "namesrvAddr", "storePathRootDir", "storePathCommitLog")
ROLLED_BACK = 0x3 << 2
PREPARED = 0x1 << 2
TRANSACTION = 0x3 << 2


def unpack(name: str, home: Path) -> dict[str, Any]:
    """Put a golden store at `home/store`; returns its manifest."""
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(home, filter="data")
    (home / name / "store").rename(home / "store")
    manifest: dict[str, Any] = json.loads((home / name / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def settings_of(manifest: dict[str, Any]) -> dict[str, str]:
    """The broker.conf the store was written with, but for addresses and paths."""
    kept = {key: value for key, value in manifest["brokerConf"].items() if key not in OF_THE_PLACE}
    return kept | {"storeVersion": manifest["rocketmq"][:3]}


class Golden:
    """A broker on a golden store, and what the store holds."""

    def __init__(self, manifest: dict[str, Any], broker: OurBroker) -> None:
        self.records: list[dict[str, Any]] = [record for record in manifest["log"] if not record.get("blank")]
        self.sent: list[dict[str, Any]] = manifest["sent"]
        self.broker = broker


@pytest.fixture(scope="module", params=STORES)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Golden]:
    home = tmp_path_factory.mktemp(request.param)
    manifest = unpack(request.param, home)
    broker = OurBroker(home, "", settings_of(manifest))
    yield Golden(manifest, broker)
    assert broker.stop() == 0, broker.output()


def check(message: Record, record: dict[str, Any]) -> None:
    """A served message is the record the manifest tells of."""
    assert message.size == record["storeSize"]
    assert message.at == record["physicalOffset"]
    assert (message.topic, message.queue_id, message.queue_offset) == place(record)
    assert (message.flag, message.sys_flag) == (record["flag"], record["sysFlag"])
    assert message.reconsume_times == record["reconsumeTimes"]
    assert (message.crc, len(message.body)) == (record["bodyCRC"], record["storedBodyLength"])
    told = dict(message.properties)
    if "long" in told:
        told["long"] = f"{len(told['long'])} times x"
    assert told == record["properties"]


def place(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["topic"], record["queueId"], record["queueOffset"]


def test_by_pull(golden: Golden) -> None:
    queues: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for record in golden.records:
        if record["sysFlag"] & TRANSACTION not in (PREPARED, ROLLED_BACK):
            queues[record["topic"], record["queueId"]].append(record)
    with Wire(golden.broker.port) as wire:
        for (topic, queue_id), records in queues.items():
            offset = records[0]["queueOffset"]
            served: list[Record] = []
            while len(served) < len(records):
                answer = wire.ask(PULL_MESSAGE, pull_ext(topic, queue_id, offset))
                assert answer.code == SUCCESS, (topic, queue_id, offset, answer)
                served += read_records(answer.body)
                offset = int(answer.ext["nextBeginOffset"])
            for message, record in zip(served, records, strict=False):  # later ones may have been delivered since
                check(message, record)


def test_by_offset_id(golden: Golden) -> None:
    with Wire(golden.broker.port) as wire:
        for record in golden.records:
            answer = wire.ask(VIEW_MESSAGE_BY_ID, {"offset": str(record["physicalOffset"])})
            assert answer.code == SUCCESS, (record, answer)
            (message,) = read_records(answer.body)
            check(message, record)


def query(wire: Wire, topic: str, key: str, **more: str) -> dict[int, Record]:
    answer = wire.ask(QUERY_MESSAGE, query_ext(topic, key, **more))
    assert answer.code == SUCCESS, (topic, key, answer)
    return {message.at: message for message in read_records(answer.body)}


def test_by_key(golden: Golden) -> None:
    keyed = [record for record in golden.records if record["sysFlag"] & TRANSACTION != ROLLED_BACK]
    with Wire(golden.broker.port) as wire:
        for record in keyed:
            for key in record["properties"].get("KEYS", "").split(" "):
                if key:
                    check(query(wire, record["topic"], key)[record["physicalOffset"]], record)


def test_by_unique_key(golden: Golden) -> None:
    by_offset = {record["physicalOffset"]: record for record in golden.records}
    with Wire(golden.broker.port) as wire:
        for sent in golden.sent:
            for offset in sent["physicalOffsets"]:
                record = by_offset[offset]
                found = query(wire, record["topic"], record["properties"]["UNIQ_KEY"], _UNIQUE_KEY_QUERY="true")
                check(found[offset], record)


@pytest.mark.java
def test_a_java_client_reads_it(tmp_path: Path) -> None:
    manifest = unpack("store-5.5.0-killed", tmp_path / "broker")
    namesrv = OurNameServer(tmp_path / "namesrv")
    broker = OurBroker(tmp_path / "broker", namesrv.address, settings_of(manifest))
    wait_registered(namesrv.address)
    client = JavaClient(tmp_path / "client", namesrv.address, BROKER_VERSION)
    expected = [record for record in manifest["log"] if record.get("topic") == "golden_plain"]
    try:
        client.call("consume", group="golden_reader", topic="golden_plain")
        got = client.call("await", group="golden_reader", count=len(expected))
        client.call("stop", group="golden_reader")
    finally:
        client.close()
        broker.stop()
        namesrv.stop()
    assert sorted(m["physicalOffset"] for m in got) == [record["physicalOffset"] for record in expected]
    by_offset = {record["physicalOffset"]: record for record in expected}
    for message in got:
        record = by_offset[message["physicalOffset"]]
        assert (message["queueId"], message["queueOffset"]) == (record["queueId"], record["queueOffset"])
        assert message["msgId"] == record["properties"]["UNIQ_KEY"]
        assert len(message["body"].encode()) == record["bodyLength"]
