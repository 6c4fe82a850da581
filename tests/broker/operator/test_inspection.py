"""What an operator asks: the units of a queue with who reads them, replication, and bytes in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bolide.broker.operator.inspection import InspectService, MachineUse, byte_count
from bolide.broker.tables.clients import Client
from bolide.layout.hashes import java_hash
from bolide.remoting import codes
from bolide.remoting.bodies.clients import ConsumerData, SubscriptionData
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, Parts, reply_of, send_request, text


class Inspected(Parts):
    """The parts with an operator's questions; what only runtime info reads is not there."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        unread: Any = SimpleNamespace(role=self.role)
        self.service = InspectService(
            self.options, self.store, self.stats, unread, unread, self.clients, self.filters,
            lambda: MachineUse(3 << 40, 1 << 39, 7),
        )  # fmt: skip

    def ask(self, code: int, **fields: str) -> Command:
        return reply_of(self.service.handlers()[code](self.channel, make_request(code, 1, fields), NOW))

    def units(self, **fields: str) -> Any:
        asked = {"topic": "T", "queueId": "0", "index": "0", "count": "9", **fields}
        return json.loads(self.ask(codes.QUERY_CONSUME_QUEUE, **asked).body)

    def subscribe(self, expression_type: str, text: str) -> None:
        data = ConsumerData(group_name="g", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING")
        subscription = SubscriptionData(topic="T", sub_string=text, expression_type=expression_type, sub_version=5)
        data.subscription_data_set = [subscription]
        self.clients.register_consumer(data, Client(self.channel, "c", 0, 513, NOW))
        self.filters.register("g", data.subscription_data_set, NOW)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Inspected]:
    made = Inspected(tmp_path)
    for tags in ("a", "b", "c"):
        made.answer(send_request(properties=text(TAGS=tags)))
    yield made
    made.close()


def test_the_units_of_a_queue(parts: Inspected) -> None:
    shown = parts.units(index="1", count="1")
    assert (shown["minQueueIndex"], shown["maxQueueIndex"]) == (0, 3)
    (unit,) = shown["queueData"]
    assert unit["tagsCode"] == java_hash("b") and unit["physicOffset"] == parts.records("T")[1].physical_offset
    assert parts.units(index="2", count="0") == {"minQueueIndex": 0, "maxQueueIndex": 3, "queueData": []}
    beyond = parts.ask(codes.QUERY_CONSUME_QUEUE, topic="T", queueId="0", index="9", count="1")
    assert (beyond.code, beyond.remark, beyond.body) == (0, "Index 9 of 0@T is not exist!", b"")
    unknown = parts.ask(codes.QUERY_CONSUME_QUEUE, topic="S", queueId="2", index="0", count="1")
    assert (unknown.code, unknown.remark) == (0, "Index 0 of 2@S is not exist!")


def test_who_reads_a_queue_and_by_what(parts: Inspected) -> None:
    assert "subscriptionData" not in parts.units()
    assert parts.units(consumerGroup="g")["filterData"] == "g@T is not online!"
    parts.subscribe("TAG", "*")
    shown = parts.units(consumerGroup="g")
    assert (shown["subscriptionData"]["subString"], shown["filterData"]) == ("*", "null")
    parts.subscribe("SQL92", "a > 1")
    assert json.loads(parts.units(consumerGroup="g")["filterData"])["expression"] == "a > 1"


def test_a_master_without_slaves(parts: Inspected) -> None:
    shown = json.loads(parts.ask(codes.GET_BROKER_HA_STATUS).body)
    assert (shown["master"], shown["inSyncSlaveNums"], shown["haConnectionInfo"]) == (True, 0, [])
    assert shown["masterCommitLogMaxOffset"] == parts.store.end_offset


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")]
)
def test_bytes_in_words(size: int, words: str) -> None:
    assert byte_count(size) == words
