"""What an operator asks: the units of a queue with who reads them, replication, and bytes in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bolide.broker.operator.inspection import InspectedNode, InspectService, MachineUse, byte_count
from bolide.broker.tables.clients import Client
from bolide.layout.hashes import java_hash
from bolide.remoting import codes
from bolide.remoting.bodies.clients import ConsumerData, SubscriptionData
from bolide.remoting.command import Command, make_request
from bolide.remoting.store_position import StorePosition, position_ext, position_of
from tests.broker.parts import NOW, Parts, reply_of, send_request, text


class Inspected(Parts):
    """The parts with an operator's questions; what only runtime info reads is not there."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        idle: Any = SimpleNamespace(role=self.role, metrics=SimpleNamespace(rates=lambda now: (1.5, 2.5)))
        idle.behind = lambda now=0: (3000, 4, 5) if now else {1: (6, 7)}
        self.machine = MachineUse(3 << 40, 1 << 39, 7)
        self.saved: list[int] = []
        """The end of the log when tables were saved."""
        self.service = InspectService(
            self.options, self.store, self.stats, idle, idle, self.clients, self.filters,
            InspectedNode(lambda: self.machine, lambda: self.saved.append(int(self.store.written_offset))),
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


def test_units_show_subscription_and_filter(parts: Inspected) -> None:
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


class Busy:
    """A loop in which some requests wait."""

    def for_turn(self, codes_asked: frozenset[int]) -> tuple[int, int]:
        if codes.SEND_MESSAGE_V2 in codes_asked:
            return 3, NOW - 40
        return (2, NOW - 7) if codes.END_TRANSACTION in codes_asked else (0, 0)

    def oldest_send(self, now: int) -> int:
        return 12


def test_runtime_info_tells_of_traffic(parts: Inspected) -> None:
    size = parts.store.end_offset
    parts.pulled(maxMsgNums=2)
    parts.pulled(queueOffset=3)
    parts.pulled(queueOffset=3)
    parts.stats.put_times.add(15, 2)
    parts.stats.put_times.end_minute()
    parts.stats.put_failed += 4
    info = parts.service.runtime_info(NOW + 1000)
    assert (info["putTps"], info["getFoundTps"], info["getTransferredTps"]) == (
        "3.00 3.00 3.00", "1.00 1.00 1.00", "2.00 2.00 2.00",
    )  # fmt: skip
    assert (info["getMissTps"], info["getTotalTps"]) == ("2.00 2.00 2.00", "3.00 3.00 3.00")
    assert (info["putMessageTimesTotal"], info["putMessageSizeTotal"]) == ("3", str(size))
    assert (info["putMessageFailedTimes"], info["putMessageEntireTimeMax"]) == ("4", "15")
    assert "[10~50ms]:2 " in info["putMessageDistributeTime"] and 14 < float(info["putLatency99"]) <= 19
    assert (info["msgPutTotalTodayNow"], info["msgGetTotalTodayNow"]) == ("3", "2")


def test_runtime_info_tells_what_waits(parts: Inspected) -> None:
    quiet = parts.service.runtime_info(NOW)
    assert {quiet[key] for key in quiet if key.endswith(("QueueSize", "HeadWaitTimeMills"))} == {"0"}
    parts.service.waiting = Busy()
    info = parts.service.runtime_info(NOW)
    assert (info["sendThreadPoolQueueSize"], info["sendThreadPoolQueueHeadWaitTimeMills"]) == ("3", "40")
    assert (info["EndTransactionQueueSize"], info["EndTransactionThreadPoolQueueCapacity"]) == ("2", "100000")
    assert (info["pullThreadPoolQueueSize"], info["pullThreadPoolQueueHeadWaitTimeMills"]) == ("0", "0")
    assert info["pageCacheLockTimeMills"] == "12"
    assert (info["timerReadBehind"], info["timerDequeueTps"], info["scheduleMessageOffset_1"]) == ("3", "2.5", "6,7")


def test_runtime_info_tells_of_the_disk(parts: Inspected) -> None:
    info = parts.service.runtime_info(NOW)
    ratio = info["commitLogDiskRatio"]
    assert 0 < float(ratio) <= 1 and len(ratio) == 4
    assert info[f"commitLogDiskRatio_{parts.store.root}/commitlog"] == info["consumeQueueDiskRatio"] == ratio
    assert info["commitLogDirCapacity"] == "Total : 3.0 TiB, Free : 512.0 GiB."
    assert info["remainHowManyDataToFlush"] == f"{parts.store.written_offset - parts.store.flushed_offset} B"


def test_runtime_info_contains_the_end_of_a_certificate(parts: Inspected) -> None:
    assert "certificateEndTimestamp" not in parts.service.runtime_info(NOW)
    parts.machine = MachineUse(1, 1, 1, certificate_end=1_800_000_000_123)
    assert parts.service.runtime_info(NOW)["certificateEndTimestamp"] == "1800000000123"


def test_position_of_the_store_is_returned_on_request_with_tables_saved(parts: Inspected) -> None:
    plain = json.loads(parts.ask(codes.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert position_of(plain) is None and parts.saved == []
    told = json.loads(parts.ask(codes.GET_BROKER_RUNTIME_INFO, **position_ext()).body)["table"]
    store = parts.store
    assert told.keys() > plain.keys()
    assert position_of(told) == StorePosition(
        store.root, store.maintenance.run_id, 0, 0, int(store.written_offset), int(store.flushed_offset)
    )
    assert parts.saved == [store.written_offset]


def test_cleaning_queues_takes_nothing_that_the_log_has(parts: Inspected) -> None:
    assert parts.ask(codes.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    assert len(parts.records("T")) == 3


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")]
)
def test_bytes_in_words(size: int, words: str) -> None:
    assert byte_count(size) == words
