"""A key of RocketMQ that has no effect here is said at the start, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.node.settings.config import load_options
from bolide.node.settings.without_effect import without_effect


def test_a_key_without_effect_is_said_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(
        "haSlaveFallbehindMax=1\ndLegerGroup=2\ndLegerPeers=2\nflushConsumeQueueLeastPages=3\nisolateLogEnable=false\n"
    )
    variables = {"BOLIDE_SEND_MESSAGE_THREAD_POOL_NUMS": "4"}
    loaded = load_options(BrokerOptions, {"commercialBaseCount": "2"}, str(path), variables)
    assert loaded.warnings == [
        f"file {path}: haSlaveFallbehindMax has no effect here: it is the name in 4.9 of haMaxGapNotInSync: set that",
        f"file {path}: dLegerGroup, dLegerPeers have no effect here: there is no DLedger, and controllerAddr lists "
        "the controllers",
        f"file {path}: flushConsumeQueueLeastPages has no effect here: queues are written every interval and synced "
        "together at the thorough one",
        "variable BOLIDE_SEND_MESSAGE_THREAD_POOL_NUMS: sendMessageThreadPoolNums has no effect here: requests run on "
        "one event loop, not in thread pools",
        "flag: commercialBaseCount has no effect here: there are no statistics for billing",
    ]
    assert "dLegerPeers" not in loaded.origins


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("diskFallRecorded", "the lag of a group's pulls"),
        ("transferMsgByHeap", "copied into the process's memory"),
        ("forwardTimeout", "static topics"),
        ("priorityOrderAsc", "POP"),
        ("consumerOffsetUpdateVersionStep", "once in 500 commits"),
        ("writeBufferHighWaterMark", "clientWriteBufferHigh"),
        ("putMessageTimeout", "reads it nowhere"),
    ],
)
def test_reason_says_what_the_key_is_about(key: str, reason: str) -> None:
    assert reason in without_effect(BrokerOptions)[key]
