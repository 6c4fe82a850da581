"""What a producer of the attack notes of a send that failed."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from bolide.client import Producer, ResponseError, TransactionProducer
from bolide.node.replication.switching import REPLACED
from bolide.remoting import codes
from proof.attack import journal
from proof.attack.producing import Decider, Setup, Traffic
from proof.kit.waiting import until
from tests.client.scripted_broker import ScriptedBroker


@pytest.mark.parametrize(
    ("code", "remark", "noted"),
    [
        (codes.SYSTEM_BUSY, "[REJECTREQUEST]system busy", journal.REFUSED),
        (codes.SERVICE_NOT_AVAILABLE, "this broker is a slave", journal.REFUSED),
        (codes.SERVICE_NOT_AVAILABLE, "the log could not be synced: EIO", journal.UNKNOWN),
        (codes.SERVICE_NOT_AVAILABLE, REPLACED, journal.UNKNOWN),
        (codes.SYSTEM_ERROR, "", journal.UNKNOWN),
    ],
)
def test_a_refusal_that_leaves_it_open_is_noted_as_unknown(tmp_path: Path, code: int, remark: str, noted: str) -> None:
    book = tmp_path / "journal"
    producer = Producer("g", "127.0.0.1:1")
    sender = TransactionProducer("g", "127.0.0.1:1", Decider())
    traffic = Traffic(Setup("p", "127.0.0.1:1", str(book), 1, 1, 1, 1.0), producer, sender)
    with closing(traffic.journal):
        traffic.failed([7], ResponseError("refused", code, remark))
    assert [json.loads(line)[1:3] for line in book.read_text().splitlines()] == [[noted, [7]]]


async def test_messages_of_a_burst_share_requests_and_keep_their_order(tmp_path: Path) -> None:
    book = tmp_path / "journal"
    with ScriptedBroker(queues=4) as broker:
        broker.topics.add("orders")
        async with Producer("g", broker.address) as producer:
            sender = TransactionProducer("g", broker.address, Decider())
            traffic = Traffic(Setup("p", broker.address, str(book), 1, 1, 1, 0.001), producer, sender)
            with closing(traffic.journal):
                lane = asyncio.ensure_future(traffic.lane("broker-a", 1))
                await until(lambda: len(broker.requests(codes.SEND_BATCH_MESSAGE)) >= 3, "requests with a burst")
                traffic.quiet.set()
                await lane
    notes = [json.loads(line)[1:] for line in book.read_text().splitlines()]
    sent = [note[1] for note in notes if note[0] == journal.SEND]
    placed = {note[1][0]: (note[4], note[5]) for note in notes if note[0] == journal.DONE}
    assert [placed[number] for number in sent] == [(1, offset) for offset in range(len(sent))]
