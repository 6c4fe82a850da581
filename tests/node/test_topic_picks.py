"""Plug-ins that stored topics name: a start must not lose one in silence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bolide.broker.attributes import DISPATCHERS, HOOKS
from bolide.broker.topics import TopicConfig
from bolide.errors import ConfigError
from bolide.node.broker import BrokerNode
from tests.node.test_broker import options


@pytest.mark.parametrize(("key", "noun"), [(DISPATCHERS, "dispatcher"), (HOOKS, "broker hook")])
def test_a_stored_topic_that_names_an_unknown_one_stops_the_start(tmp_path: Path, key: str, noun: str) -> None:
    async def store() -> None:
        node = BrokerNode(options(tmp_path))
        await node.start()
        node.parts.topics.put(TopicConfig("Flights", 1, 1, attributes={key: "search"}), 1)
        await node.stop()

    async def start() -> None:
        await BrokerNode(options(tmp_path)).start()

    asyncio.run(store())
    with pytest.raises(ConfigError, match=f"topic Flights: the {noun} 'search' is unknown, known are none") as error:
        asyncio.run(start())
    assert "config/topics.json" in str(error.value)


def test_a_broker_without_dispatchers_writes_no_progress(tmp_path: Path) -> None:
    async def once() -> None:
        node = BrokerNode(options(tmp_path))
        await node.start()
        await node.stop()

    asyncio.run(once())
    assert (tmp_path / "config" / "topics.json").exists()
    assert not (tmp_path / "config" / "dispatcherProgress.json").exists()
