"""What may be sent, and how properties travel."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from bolide.client import ArgumentError
from bolide.client.messages.arguments import check_count, check_seconds, check_topic
from bolide.client.messages.encoding import check_body, properties_text
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.message import Message
from bolide.client.messages.subscription import subscription
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
        (Message("T", b"x", tags="A || B"), r"tag 'A \|\| B' .*contains \|\|.*one tag"),
        (Message("T", b"x", tags=" A"), "tag ' A' .*begins or ends with a blank"),
        (Message("T", b"x", tags="*"), "tag '\\*' .*is the subscription to all messages"),
        (Message("T", b"x", keys=["order 17", "x"]), "contains a space"),
        (Message("T", b"x", delay_level=19), "19"),
        (Message("T", b"x", properties={"a": "é" * 16384}), "32767"),
        (Message("T", b"x", properties={"a": "b" * 32768}), "32767"),
        (Message("T", b"x", tags="\udcff"), r"contain '\\udcff', half of a surrogate pair, give Unicode text"),
        (Message("T", b"x", wait_stored=cast("bool", "no")), r"^wait_stored of a message to T is 'no' .*give True"),
    ],
)
def test_properties_that_cannot_travel(message: Message, said: str) -> None:
    with pytest.raises(MessageRefused, match=said):
        properties_text(message, "ID")


@pytest.mark.parametrize(
    "tag", ["a", "a b", "a|b", "a||b", "||", " a", "a ", "\ta", "a\x00", " ", "*", "**", "* a", "\u00a0a", "a\x85"]
)
def test_exactly_the_tags_that_a_subscription_selects_can_be_sent(tag: str) -> None:
    try:
        selected = subscription("T", tag, 0).exact_tags == {tag}
    except ArgumentError:
        selected = False
    try:
        sent = parse_properties(properties_text(Message("T", b"x", tags=tag), "ID"))["TAGS"] == tag
    except MessageRefused:
        sent = False
    assert sent == selected


@pytest.mark.parametrize(
    "given",
    [
        {"delay_level": np.int64(3)},
        {"flag": np.int32(1)},
        {"delay": np.float32(1.5)},
        {"deliver_at": np.int64(1_795_372_807_548)},
    ],
)
def test_numbers_of_numpy_are_numbers(given: dict[str, Any]) -> None:
    plain = {name: value.item() for name, value in given.items()}
    assert properties_text(Message("T", b"x", **given), "ID") == properties_text(Message("T", b"x", **plain), "ID")


def test_counts_and_seconds_of_numpy_become_plain_numbers() -> None:
    assert type(check_count("n", cast("int", np.uint8(3)), 1)) is int
    assert type(check_seconds("s", cast("float", np.float32(3)))) is float
    with pytest.raises(ArgumentError):
        check_count("n", cast("int", np.bool_(True)), 0)


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


def test_keys_of_a_text_may_be_several() -> None:
    assert parse_properties(properties_text(Message("T", b"x", keys="a b"), "ID"))["KEYS"] == "a b"
