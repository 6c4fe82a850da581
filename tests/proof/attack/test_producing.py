"""What a producer of the attack notes of a send that failed."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from bolide.client import Producer, ResponseError, TransactionProducer
from bolide.node.replication.switching import REPLACED
from bolide.remoting import codes
from proof.attack import journal
from proof.attack.producing import Decider, Setup, Traffic


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
