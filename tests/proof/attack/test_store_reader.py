from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bolide.client import Message, MessageQueue, Producer
from bolide.testing import Broker
from proof.attack.store_reader import read_store, read_topics
from proof.ledger import Queue

COUNT = 20
QUEUE = Queue("broker-a", "Orders", 0)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with messages in one queue, some of them compressed."""
    folder = tmp_path_factory.mktemp("store")

    async def send(addresses: str) -> None:
        async with Producer("group", addresses, compress_above=100) as producer:
            for number in range(COUNT):
                body = b"#%d#" % number + b"-" * 20 * number
                message = Message("Orders", body, tags="t", keys=f"k{number}", properties={"n": str(number)})
                await producer.send(message, queue=MessageQueue("Orders", "broker-a", 0))

    with Broker(str(folder)) as broker:
        broker.create_topic("Orders", queues=2)
        asyncio.run(send(broker.namesrv_addr))
    return folder


def test_reader_finds_the_sent_messages(stored: Path) -> None:
    found = read_store(stored, "broker-a", set())
    assert found.wrong == []
    view = found.queues[QUEUE]
    assert (view.first, view.end) == (0, COUNT)
    assert [served.number for served in view.messages] == list(range(COUNT))
    last = view.messages[-1].content
    assert (last.topic, last.tags, last.keys, last.properties) == ("Orders", "t", "k19", (("n", "19"),))
    assert last.body == b"#19#" + b"-" * 380
    assert read_topics(stored)["Orders"] == (2, 2, 6)


def test_a_unit_that_is_wrong_or_missing_is_found(stored: Path, tmp_path: Path) -> None:
    log = next((stored / "commitlog").glob("0*"))
    queue = next((stored / "consumequeue" / "Orders" / "0").glob("0*"))
    copy = tmp_path / "store"
    for source in (log, queue):
        (copy / source.relative_to(stored)).parent.mkdir(parents=True)
        (copy / source.relative_to(stored)).write_bytes(source.read_bytes())
    units = bytearray(queue.read_bytes())
    units[0:20], units[20:40] = units[20:40], units[0:20]
    units[20 * (COUNT - 1) : 20 * COUNT] = bytes(20)
    (copy / queue.relative_to(stored)).write_bytes(units)
    wrong = read_store(copy, "broker-a", set()).wrong
    assert len([text for text in wrong if "where its record is not" in text]) == 2
    assert len([text for text in wrong if "is in no queue" in text]) == 3
    assert read_store(copy, "broker-a", {"Orders"}).wrong == wrong[:2]


def test_a_flipped_bit_of_the_log_is_found(stored: Path, tmp_path: Path) -> None:
    log = next((stored / "commitlog").glob("0*"))
    data = bytearray(log.read_bytes())
    data[data.index(b"#3#")] ^= 1
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / log.name).write_bytes(data)
    wrong = read_store(tmp_path, "broker-a", set()).wrong[0]
    assert wrong.startswith("broker-a: no record at ") and wrong.endswith("its body has another checksum")
