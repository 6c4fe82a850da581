"""`bolide produce` at a terminal: an answer a line, at once, and an end by a signal while it waits for the next."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from bolide.client.blocking import PullConsumer
from bolide.testing.broker import Broker
from tests import children


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
    assert typing.wait(60) == 130
    told = typing.stderr.read().decode()
    assert told == "2 sent, 0 failed\n"
    for stream in (typing.stdin, typing.stdout, typing.stderr):
        stream.close()
    with PullConsumer("G", bolide_broker.namesrv_addr, start_from="first") as consumer:
        consumer.subscribe("Typed")
        bodies = [message.body for _, message in zip(range(2), consumer, strict=False)]
    assert bodies == [b"one", b"no \xff UTF-8"]
