"""Plug-ins that topics name: each sees its own topics only, and a start does not lose one in silence."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bolide.broker.tables.attributes import DISPATCHERS, HOOKS
from bolide.broker.tables.topic_config import TopicConfig
from bolide.errors import ConfigError
from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from bolide.remoting.command import make_request
from proof.kit.waiting import PATIENCE, until
from tests.node.brokers import broker, options, pull_request, send_request

MODULE = """
from bolide.broker.hooks import BrokerHook

bodies, seen = [], []

class Taker:
    from_first = True

    def __init__(self, settings):
        pass

    def dispatch(self, records):
        bodies.extend(record.body for record in records)

class Watcher(BrokerHook):
    def __init__(self, settings):
        pass

    def before_send(self, call):
        seen.append(f"send {call.topic}")

    def after_consume(self, call):
        seen.append(f"pulled {call.topic}")
"""
ENTRY_POINTS = """
[bolide.dispatchers]
taker = picks_for_bolide:Taker
[bolide.hooks]
watcher = picks_for_bolide:Watcher
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package with a dispatcher and a hook that remember what they saw."""
    folder = tmp_path / "packages"
    info = folder / "picks_for_bolide-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "picks_for_bolide.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: picks-for-bolide\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("picks_for_bolide")
    del sys.modules["picks_for_bolide"]


async def test_each_sees_the_topics_that_chose_it(tmp_path: Path, installed: ModuleType) -> None:
    async with broker(tmp_path / "store") as (_, client):

        async def pick(topic: str, attributes: str) -> None:
            given = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
            more = {"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false", "attributes": attributes}
            request = make_request(codes.UPDATE_AND_CREATE_TOPIC, 1, given | more)
            assert (await client.request(request, PATIENCE)).code == 0

        async def send(topic: str, body: bytes) -> None:
            assert (await client.request(send_request(topic, body=body), PATIENCE)).code == 0

        await pick("A", f"+{DISPATCHERS}=taker")
        await pick("B", f"+{HOOKS}=watcher")
        for topic in "CBA":
            await send(topic, f"to {topic}".encode())
            await client.request(pull_request(topic), PATIENCE)
        # Dispatched in the log's order, and by what is picked at that moment: with A's all are through.
        await until(lambda: installed.bodies, "what the dispatcher is handed")
        await pick("C", f"+{DISPATCHERS}=taker,+{HOOKS}=watcher")
        await pick("A", f"-{DISPATCHERS}")
        for topic in "ABC":
            await send(topic, f"again to {topic}".encode())
        await until(lambda: len(installed.bodies) == 2, "what it is handed then")
    assert installed.bodies == [b"to A", b"again to C"]
    assert installed.seen == ["send B", "pulled B", "send B", "send C"]


@pytest.mark.parametrize(
    ("key", "noun", "known"),
    [(DISPATCHERS, "dispatcher", "no installed package adds one"), (HOOKS, "broker hook", "use one of requestLog")],
)
async def test_a_stored_topic_that_names_an_unknown_one_stops_the_start(
    tmp_path: Path, key: str, noun: str, known: str
) -> None:
    node = BrokerNode(options(tmp_path))
    await node.start()
    node.parts.topics.put(TopicConfig("Flights", 1, 1, attributes={key: "search"}), 1)
    await node.stop()
    with pytest.raises(ConfigError, match=f"topic Flights: the {noun} 'search' is unknown: {known}") as error:
        await BrokerNode(options(tmp_path)).start()
    assert "config/topics.json" in str(error.value)


async def test_a_broker_without_dispatchers_writes_no_progress(tmp_path: Path) -> None:
    node = BrokerNode(options(tmp_path))
    await node.start()
    await node.stop()
    assert (tmp_path / "config" / "topics.json").exists()
    assert not (tmp_path / "config" / "dispatcherProgress.json").exists()
