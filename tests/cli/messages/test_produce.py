"""`bolide produce` at a terminal: an answer a line, at once, and an end by a signal while it waits for the next."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from bolide.cli.messages.consume import message_fields
from bolide.cli.messages.produce import message_from_json
from bolide.client import Message, MessageRefused, ReceivedMessage
from bolide.client.messages.encoding import properties_text
from bolide.layout.properties import format_properties
from bolide.testing.broker import Broker
from proof.kit import children
from proof.kit.waiting import PROCESS_PATIENCE
from tests.client.patient_blocking import PullConsumer
from tests.layout.records import record_of


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "kill"])
def test_lines_are_answered_as_they_come_until_a_signal(bolide_broker: Broker, number: int) -> None:
    bolide_broker.create_topic("Typed", queues=1)
    typing = children.start(
        [sys.executable, "-m", "bolide.cli", "produce", "Typed", "--namesrv", bolide_broker.namesrv_addr],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for line in (b"one\n", b"\n", b"no \xff UTF-8\r\n"):
        typing.stdin.write(line)
        typing.stdin.flush()
        if line.strip():
            assert b"SEND_OK" in typing.stdout.readline()
    typing.send_signal(number)
    assert typing.wait(PROCESS_PATIENCE) == 130
    told = typing.stderr.read().decode()
    assert told == "2 sent, 0 failed\n"
    for stream in (typing.stdin, typing.stdout, typing.stderr):
        stream.close()
    with PullConsumer("G", bolide_broker.namesrv_addr, start_from="first") as consumer:
        consumer.subscribe("Typed")
        bodies = [message.body for _, message in zip(range(2), consumer, strict=False)]
    assert bodies == [b"one", b"no \xff UTF-8"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is not a message: '{' is not JSON"),
        ('"text"', 'line 2 is not a message: \'"text"\' must be an object with a "body"'),
        ('{"body": "x", "tags": ["a", "b"]}', "line 2 is not a message: tags is ['a', 'b']: give one text"),
        ('{"body": "x", "keys": 7}', "line 2 is not a message: keys is 7: give a text or a list of texts"),
        ('{"body": "x", "properties": "y"}', "line 2 is not a message: properties is 'y': give an object"),
        ('{"body": "x", "delay_level": 1e999}', "line 2 is not a message: delay_level and delay must be numbers"),
        ('{"body": "\\ud800"}', "line 2 is not a message: the body has half a surrogate pair"),
        ("[" * 100_000, "is not JSON"),
        ('{"body": "x", "delay": "soon"}', "line 2 is not a message: delay_level and delay must be numbers"),
    ],
)
def test_a_line_that_is_no_message_is_named_by_its_number(bolide_broker: Broker, line: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bolide.cli", "produce", "Lines", "--from-json", "-n", bolide_broker.namesrv_addr],
        input=f'{{"body": "good"}}\n{line}\n', capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "SEND_OK" in done.stdout


def test_an_empty_argument_is_refused_and_not_passed_over(bolide_broker: Broker) -> None:
    command = [sys.executable, "-m", "bolide.cli", "produce", "Empty", "", "-n", bolide_broker.namesrv_addr]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "bolide: message 1: the body for topic Empty is empty, RocketMQ stores no empty messages\n0 sent, 1 failed\n"
    )


def test_line_that_consume_printed_becomes_the_same_message_in_another_topic() -> None:
    properties = {"UNIQ_KEY": "7F", "KEYS": "k1 k2", "TAGS": "A", "__SHARDINGKEY": "s", "shop": "1", "WAIT": "true"}
    record = record_of("From", b"\xff\x00body", format_properties(properties).encode())
    line = json.dumps(message_fields(ReceivedMessage(record, "b")))
    made = message_from_json(line, Message("Copy"))
    assert (made.topic, made.body, made.tags, made.keys) == ("Copy", b"\xff\x00body", "A", ["k1", "k2"])
    assert (made.sharding_key, made.properties) == ("s", {"shop": "1"})
    properties_text(made, "ID")


def test_reserved_property_of_a_written_line_stays_an_error() -> None:
    made = message_from_json('{"body": "x", "topic": "T", "properties": {"UNIQ_KEY": "7F"}}', Message("Copy"))
    assert made.topic == "T"
    with pytest.raises(MessageRefused, match="reserved"):
        properties_text(made, "ID")
