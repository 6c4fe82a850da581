"""A batch: one record an element, together, in order, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.command import Command
from tests.broker.parts import Parts, properties_of, send_request, text


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.close()


def batch(*elements: tuple[bytes, str], topic: str = "T", properties: str = "", **fields: str) -> Command:
    body = encode_batch([BatchMessage(3, element, props.encode()) for element, props in elements])
    return send_request(topic, body, properties, codes.SEND_BATCH_MESSAGE, m="true", **fields)


def test_elements_become_records_with_consecutive_offsets(parts: Parts) -> None:
    parts.answer(send_request())
    answer = parts.answer(batch((b"a", text(TAGS="x", UNIQ_KEY="U1")), (b"b", "k\x01v")))
    ext = answer.ext()
    assert answer.code == 0 and ext["queueOffset"] == "1" and len(ext["msgId"].split(",")) == 2
    _, first, second = parts.records("T")
    assert (first.body, second.body, second.flag) == (b"a", b"b", 3)
    assert properties_of(first) == {"TAGS": "x", "UNIQ_KEY": "U1"}
    assert properties_of(second) == {"k": "v"}
    assert second.queue_offset == 2


@pytest.mark.parametrize(
    "command",
    [
        batch((b"a", ""), topic="%RETRY%g"),
        batch((b"a", ""), f="4"),
        batch((b"a", ""), properties=text(DELAY="1")),
        batch((b"a", text(DELAY="1"))),
        batch(),
    ],
    ids=["retry", "transaction", "delay", "delayed element", "empty"],
)
def test_illegal_batch_is_rejected(parts: Parts, command: Command) -> None:
    assert parts.answer(command).code == codes.MESSAGE_ILLEGAL
    assert parts.store.end_offset == 0


def test_a_torn_body_stores_nothing(parts: Parts) -> None:
    command = batch((b"a", ""), (b"b", ""))
    command.body = command.body[:-1]
    assert parts.answer(command).code == codes.MESSAGE_ILLEGAL
    assert parts.store.end_offset == 0


def test_a_batch_has_a_limit_of_messages(tmp_path: Path) -> None:
    parts = Parts(tmp_path, max_batch_messages=3)
    assert parts.answer(batch(*[(b"a", "")] * 3)).code == 0
    refused = parts.answer(batch(*[(b"a", "")] * 4))
    assert refused.code == codes.MESSAGE_ILLEGAL
    assert refused.remark == "the message is illegal, the batch has more than maxBatchMessages = 3 messages: split it"
    assert len(parts.records("T")) == 3
    parts.close()
