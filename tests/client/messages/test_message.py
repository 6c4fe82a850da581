"""What may be sent, and how properties travel."""

from __future__ import annotations

import pytest

from bolide.client.messages.arguments import check_topic
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.message import Message, check_body, properties_text
from bolide.layout.properties import parse_properties


@pytest.mark.parametrize("topic", ["T", "a-b_C|9%", "x" * 127, "%RETRY%" + "g" * 200])
def test_legal_topics(topic: str) -> None:
    check_topic(topic)


@pytest.mark.parametrize("topic", ["", " ", "a b", "ü", "x" * 128, "a.b"])
def test_illegal_topics(topic: str) -> None:
    with pytest.raises(MessageRefused):
        check_topic(topic)


def test_bodies() -> None:
    check_body(Message("T", b"x"))
    with pytest.raises(MessageRefused, match="empty"):
        check_body(Message("T", b""))
    with pytest.raises(MessageRefused, match="5 bytes, 4"):
        check_body(Message("T", b"12345"), 4)
    with pytest.raises(MessageRefused, match="str"):
        check_body(Message("T", "text"))  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Message("T", b"x", properties={"KEYS": "x"}), "reserved"),
        (Message("T", b"x", properties={"a": ""}), "empty"),
        (Message("T", b"x", properties={"a\x01": "b"}), "0x01"),
        (Message("T", b"x", tags="a\x02b"), "0x01"),
        (Message("T", b"x", delay_level=19), "19"),
        (Message("T", b"x", properties={"a": "é" * 16384}), "32767"),
    ],
)
def test_properties_that_cannot_travel(message: Message, said: str) -> None:
    with pytest.raises(MessageRefused, match=said):
        properties_text(message, "ID")


def test_properties_text_reads_back() -> None:
    text = properties_text(
        Message("T", b"x", tags="t", keys=("a", "b"), properties={"p": "q"}, sharding_key="s", wait_stored=False), "ID"
    )
    assert parse_properties(text) == {
        "UNIQ_KEY": "ID",
        "WAIT": "false",
        "TAGS": "t",
        "KEYS": "a b",
        "__SHARDINGKEY": "s",
        "p": "q",
    }
