"""A key of RocketMQ that has no effect here is said at the start, with the reason."""

from __future__ import annotations

from pathlib import Path

from bolide.broker.core.options import BrokerOptions
from bolide.node.settings.config import load_options


def test_a_key_without_effect_is_said_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(
        "haSlaveFallbehindMax=1\nforwardTimeout=2\nreadUnCommitted=2\nflushConsumeQueueLeastPages=3\nisolateLogEnable=false\n"
    )
    variables = {"BOLIDE_SEND_MESSAGE_THREAD_POOL_NUMS": "4"}
    loaded = load_options(BrokerOptions, {"commercialBaseCount": "2"}, str(path), variables)
    assert loaded.warnings == [
        f"file {path}: haSlaveFallbehindMax has no effect here: it is the name in 4.9 of haMaxGapNotInSync: set that",
        f"file {path}: forwardTimeout, readUnCommitted have no effect here: replication is in plain mode or "
        "under a controller",
        f"file {path}: flushConsumeQueueLeastPages has no effect here: queues are written every interval and synced "
        "together at the thorough one",
        "variable BOLIDE_SEND_MESSAGE_THREAD_POOL_NUMS: sendMessageThreadPoolNums has no effect here: requests run on "
        "one event loop, not in thread pools",
        "flag: commercialBaseCount has no effect here: statistics are kept in one way",
    ]
    assert "readUnCommitted" not in loaded.origins
