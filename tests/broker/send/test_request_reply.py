"""Request-reply at the broker: who gets the answer, what is told to whom, what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Ask, Outcome, Parked
from bolide.broker.send.request_reply import ReplyService
from bolide.broker.tables.clients import Client
from bolide.layout.properties import parse_properties
from bolide.node.loop.services import Services
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.reply import ReplyMessageRequestHeader
from tests.broker.parts import NOW, PEER, Parts, properties_of, reply_of, send_request, text

TOPIC = "DefaultCluster_REPLY_TOPIC"
SENT = {"CORRELATION_ID": "42", "REPLY_TO_CLIENT": "asker", "MSG_TYPE": "reply", "TTL": "3000"}


class Replying(Parts):
    """The parts with an asker connected as a producer."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.asker = Channel(7, PEER, "10.1.2.3:7777", 10911)
        self.clients.register_producer("pg", Client(self.asker, "asker", 0, 513, NOW))
        self.service = ReplyService(self.options, self.writer, self.topics, self.clients)

    def reply(self, topic: str = TOPIC, properties: str = text(**SENT), **fields: str) -> Outcome:
        command = send_request(topic, b"answer", properties, code=codes.SEND_REPLY_MESSAGE_V2, **fields)  # type: ignore[arg-type] # the fields of a header are texts
        return self.service.handlers()[command.code](self.channel, command, NOW)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Replying]:
    made = Replying(tmp_path)
    yield made
    made.close()


def answered(ask: Outcome, code: int | None) -> Command:
    """What the one who answers is told when the asker says this (None: nothing)."""
    assert isinstance(ask, Ask)
    response = None if code is None else make_response(ask.command, code)
    return reply_of(ask.then(response, NOW + 5))


def test_the_answer_is_pushed_to_the_asker_then_stored(parts: Replying) -> None:
    ask = parts.reply()
    assert isinstance(ask, Ask) and ask.channel is parts.asker
    assert (ask.command.code, ask.command.body) == (codes.PUSH_REPLY_MESSAGE_TO_CLIENT, b"answer")
    header = decode_header(ask.command, ReplyMessageRequestHeader)
    assert (header.topic, header.producer_group, header.born_timestamp, header.flag) == (TOPIC, "pg", 7, 5)
    assert (header.born_host, header.store_host) == ("10.1.2.3:4567", "127.0.0.1:10911")
    assert header.store_timestamp == NOW
    assert parse_properties(header.properties or "") == {**SENT, "PUSH_REPLY_TIME": str(NOW)}
    assert parts.records(TOPIC) == []
    outcome = ask.then(make_response(ask.command, codes.SUCCESS), NOW + 5)
    assert isinstance(outcome, Parked)
    told = reply_of(outcome)
    parts.settle()
    (stored,) = parts.records(TOPIC)
    added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert (stored.body, properties_of(stored)) == (b"answer", {**SENT, **added})
    assert told.code == 0
    assert told.ext()["msgId"] == parts.writer.message_id(stored.physical_offset)
    assert (told.ext()["queueId"], told.ext()["queueOffset"]) == ("0", "0")


def test_while_too_few_replicas_are_in_sync_the_asker_is_told_and_nothing_is_stored(parts: Replying) -> None:
    parts.writer.role.short = True
    services = Services([parts.service])
    services.serve_as(parts.writer.role)
    assert services.refused == {}, "the answer would reach nobody"
    told = answered(parts.reply(), codes.SUCCESS)
    assert (told.code, told.ext()["msgId"]) == (codes.SUCCESS, "0")
    assert answered(parts.reply(), None).code == codes.SYSTEM_ERROR
    parts.settle()
    assert parts.records(TOPIC) == []


def test_reply_has_times_of_the_wall_clock(parts: Replying) -> None:
    parts.store.clock_set(-3_600_000)
    ask = parts.reply()
    assert isinstance(ask, Ask)
    header = decode_header(ask.command, ReplyMessageRequestHeader)
    assert header.store_timestamp == NOW - 3_600_000
    assert parse_properties(header.properties or "")["PUSH_REPLY_TIME"] == str(NOW - 3_600_000)


@pytest.mark.parametrize("code", [None, codes.SYSTEM_ERROR])
def test_an_asker_that_does_not_take_it(parts: Replying, code: int | None) -> None:
    told = answered(parts.reply(), code)
    parts.settle()
    assert told.code == codes.SYSTEM_ERROR and "push reply message to asker" in str(told.remark)
    assert len(parts.records(TOPIC)) == 1


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        (text(CORRELATION_ID="42"), "is null"),
        (text(**{**SENT, "REPLY_TO_CLIENT": "gone"}), "channel of <gone> not found"),
    ],
)
def test_reply_fails_without_a_reachable_requester(parts: Replying, properties: str, says: str) -> None:
    told = reply_of(parts.reply(properties=properties))
    parts.settle()
    assert told.code == codes.SYSTEM_ERROR and says in str(told.remark)
    assert len(parts.records(TOPIC)) == 1


def test_unstored_reply_has_id_0(tmp_path: Path) -> None:
    parts = Replying(tmp_path, store_reply_message_enable=False)
    told = answered(parts.reply(), codes.SUCCESS)
    assert (told.code, told.ext()["msgId"]) == (0, "0")
    assert parts.store.end_offset == 0
    parts.close()


def test_a_store_that_takes_nothing_does_not_keep_the_answer(parts: Replying) -> None:
    ask = parts.reply()
    parts.store.stop_writing("broken disk")
    told = answered(ask, codes.SUCCESS)
    assert (told.code, told.ext()["msgId"]) == (0, "0")


@pytest.mark.parametrize(
    ("topic", "fields", "code"),
    [
        ("a b", {}, codes.INVALID_PARAMETER),
        ("SCHEDULE_TOPIC_XXXX", {}, codes.NO_PERMISSION),
        ("New", {"c": "NoTemplate"}, codes.TOPIC_NOT_EXIST),
        (TOPIC, {"e": "1"}, codes.INVALID_PARAMETER),
    ],
)
def test_refusals(parts: Replying, topic: str, fields: dict[str, str], code: int) -> None:
    assert reply_of(parts.reply(topic, **fields)).code == code


def test_not_before_its_time(tmp_path: Path) -> None:
    parts = Replying(tmp_path, start_accept_send_request_time_stamp=NOW + 1)
    assert reply_of(parts.reply()).code == codes.SYSTEM_ERROR
    parts.store.clock_set(1)
    assert isinstance(parts.reply(), Ask)
    parts.close()


def test_a_stored_answer_has_no_flags_of_the_request(parts: Replying) -> None:
    answered(parts.reply(f="3"), codes.SUCCESS)
    parts.settle()
    (record,) = parts.records(TOPIC)
    assert record.sys_flag == 0, "as Java, which hands them to the asker only"
