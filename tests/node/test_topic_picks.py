"""Plug-ins that topics name: each sees its own topics only, and a start does not lose one in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from bolide import plugins
from bolide.broker.attributes import DISPATCHERS, HOOKS
from bolide.broker.hooks import BrokerHook, ConsumeCall, SendCall
from bolide.broker.topics import TopicConfig
from bolide.errors import ConfigError
from bolide.layout.record import Record
from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from bolide.remoting.command import make_request
from tests.client.waiting import until
from tests.node.test_broker import broker, options, pull_request, send_request


class Taker:
    """A dispatcher that remembers what it was handed."""

    from_first = True
    bodies: ClassVar[list[bytes]] = []

    def __init__(self, settings: Mapping[str, str]) -> None:
        pass

    def dispatch(self, records: Sequence[Record]) -> None:
        self.bodies.extend(record.body for record in records)


class Watcher(BrokerHook):
    """A hook that remembers whose sends and pulls it saw."""

    seen: ClassVar[list[str]] = []

    def __init__(self, settings: Mapping[str, str]) -> None:
        pass

    def before_send(self, call: SendCall) -> None:
        self.seen.append(f"send {call.topic}")

    def after_consume(self, call: ConsumeCall) -> None:
        self.seen.append(f"pulled {call.topic}")


def test_each_sees_the_topics_that_chose_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"taker": Taker, "watcher": Watcher}
    monkeypatch.setattr(plugins, "find", lambda kind, name: known[name])
    monkeypatch.setattr(Taker, "bodies", [])
    monkeypatch.setattr(Watcher, "seen", [])

    async def scenario() -> None:
        async with broker(tmp_path) as (_, client):

            async def pick(topic: str, attributes: str) -> None:
                given = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
                more = {"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false", "attributes": attributes}
                request = make_request(codes.UPDATE_AND_CREATE_TOPIC, 1, given | more)
                assert (await client.request(request, 5)).code == 0

            async def send(topic: str, body: bytes) -> None:
                assert (await client.request(send_request(topic, body=body), 5)).code == 0

            await pick("A", f"+{DISPATCHERS}=taker")
            await pick("B", f"+{HOOKS}=watcher")
            for topic in "ABC":
                await send(topic, f"to {topic}".encode())
                await client.request(pull_request(topic), 5)
            await pick("C", f"+{DISPATCHERS}=taker,+{HOOKS}=watcher")
            await pick("A", f"-{DISPATCHERS}")
            for topic in "ABC":
                await send(topic, f"again to {topic}".encode())
            await until(lambda: len(Taker.bodies) == 2, "what the dispatcher is handed")

    asyncio.run(scenario())
    assert Taker.bodies == [b"to A", b"again to C"]
    assert Watcher.seen == ["send B", "pulled B", "send B", "send C"]


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
