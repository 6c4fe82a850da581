"""Runtime info of Java's brokers and of Bolide's after the same load: the same keys, the same kind of values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bolide.client import Message
from bolide.testing.broker import Broker
from tests.client.patient import Admin, Producer
from tests.interop.our_client.java_cluster import JavaCluster
from tests.interop.our_client.receiving import received, routed

pytestmark = pytest.mark.java

COUNT = 12
BY_CHANCE = re.compile(r"scheduleMessageOffset_|remainHowManyDataToCommit")
"""Keys that depend on what the broker was sent before, or on how it keeps its log."""


async def loaded(namesrv: str, broker: str, topic: str) -> tuple[dict[str, str], dict[str, str]]:
    """Runtime info before and after some messages that were sent and consumed."""
    async with Producer("P", namesrv) as producer, Admin(namesrv) as admin:
        before = await admin.broker_runtime(broker)
        for number in range(COUNT):
            await producer.send(Message(topic, b"%d" % number))
        await routed(admin, topic)
        await received(namesrv, topic, COUNT)
        return named(before), named(await admin.broker_runtime(broker))


def named(info: dict[str, str]) -> dict[str, str]:
    """Without the path of the store in a key."""
    return {re.sub(r"^(commitLogDiskRatio_).*", r"\1", key): value for key, value in info.items()}


def shape(value: str) -> str:
    """A value without its numbers; a rate that Java leaves out while its window is not full is one."""
    return re.sub(r"[0-9]+(\.[0-9]+)?(E[0-9]+)?", "0", value).replace("-0", "0")


async def test_runtime_info_has_the_keys_of_java(cluster: JavaCluster, topic: str, tmp_path: Path) -> None:
    java_before, java = await loaded(cluster.namesrv, "broker-a", topic)
    with Broker(str(tmp_path)) as broker:
        ours_before, ours = await loaded(broker.namesrv_addr, "broker-a", topic)
    missing = {key for key in set(java) - set(ours) if not BY_CHANCE.match(key)}
    assert missing == set()
    units = ("commitLogDirCapacity", "remainHowManyDataToFlush", "brokerVersionDesc", "putMessageDistributeTime")
    for key in sorted(set(java) & set(ours)):
        if not key.endswith("Tps") and key not in units and not BY_CHANCE.match(key):
            assert shape(ours[key]) == shape(java[key]), key
    for key in ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps"):
        assert [float(rate) >= 0 for rate in ours[key].split(" ")] == [True, True, True]
    for key in ("putMessageTimesTotal", "msgPutTotalTodayNow", "msgGetTotalTodayNow"):
        assert int(ours[key]) - int(ours_before[key]) == COUNT, key
        assert int(java[key]) - int(java_before[key]) >= COUNT - 1, key  # Java begins to count at 1
    size, java_size = (
        int(after["putMessageSizeTotal"]) - int(before["putMessageSizeTotal"])
        for before, after in ((ours_before, ours), (java_before, java))
    )
    assert 0.7 * java_size < size < 1.3 * java_size
    assert float(ours["commitLogDiskRatio"]) == pytest.approx(float(java["commitLogDiskRatio"]), abs=0.03)
    assert int(ours["putMessageEntireTimeMax"]) >= 0 and float(ours["getFoundTps"].split(" ")[0]) > 0
