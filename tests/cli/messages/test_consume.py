"""`bolide consume`: an invalid topic, and reading without a group."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from bolide.cli.messages.consume import Printing, Reading, _look, _until_it_is_there, message_fields
from bolide.client import MessageQueue, NoQueue, ReceivedMessage
from bolide.errors import BolideError, ConnectionLost
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.compression import COMPRESSED_FLAG
from bolide.remoting.errors import CompressionError
from bolide.testing.broker import Broker
from tests.cli.running import invoke
from tests.client.scripted_broker import ScriptedBroker
from tests.layout.records import record_of


def test_an_invalid_topic_is_refused_before_anything_is_asked() -> None:
    command = [sys.executable, "-m", "bolide.cli", "consume", "a b", "--namesrv", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bolide: topic 'a b' is invalid, only letters, digits and %|-_ are allowed\n"


def test_reading_without_a_group_creates_no_group() -> None:
    with Broker(auto_create_subscription_group=False) as broker:
        namesrv = ("-n", broker.namesrv_addr)
        assert invoke("produce", "T", "one", *namesrv).exit_code == 0
        done = invoke("consume", "T", "--count", 1, *namesrv)
        assert (done.exit_code, done.stdout) == (0, "one\n"), done.output
        assert json.loads(invoke("group", "list", "--json", *namesrv).stdout) == []


def test_a_body_that_cannot_be_inflated_is_an_error_or_a_field() -> None:
    damaged = ReceivedMessage(record_of("T", b"x", sys_flag=COMPRESSED_FLAG), "b")
    with pytest.raises(CompressionError):
        message_fields(damaged)
    fields = message_fields(damaged, unreadable=True)
    assert (fields["topic"], fields["body"]) == ("T", "") and fields["body_error"]


def reading(namesrv: str = "") -> Reading:
    return Reading("T", namesrv, "", "*", "", "first", False, 0.0)


class Onlooker:
    """A consumer whose checks for queues return or raise these results; it reads nothing."""

    def __init__(self, printing: Printing, *results: list[MessageQueue] | BolideError) -> None:
        self.assigned: list[list[MessageQueue]] = []
        self._printing = printing
        self._results = list(results)

    async def queues(self, topic: str) -> list[MessageQueue]:
        result = self._results.pop(0)
        if not self._results:
            self._printing.done.set()
        if isinstance(result, BolideError):
            raise result
        return result

    async def assign(self, queues: list[MessageQueue], expression: object) -> None:
        self.assigned.append(queues)

    async def poll(self, wait: float) -> list[Any]:
        return []


async def test_reading_continues_while_no_name_server_responds(capsys: pytest.CaptureFixture[str]) -> None:
    lost, printing = ConnectionLost("the name server cannot be reached"), Printing(0, False)
    first, second = [MessageQueue("T", "a", 0)], [MessageQueue("T", "a", 0), MessageQueue("T", "b", 0)]
    consumer: Any = Onlooker(printing, first, lost, NoQueue("broker b is away"), second, lost, second)
    await _look(consumer, reading(), printing, every=0.0)
    assert consumer.assigned == [first, second]
    assert capsys.readouterr().err.splitlines() == [
        "the name server cannot be reached; reading continues, and new queues of T are read later"
    ] * 2, "once for each outage"
    consumer = Onlooker(Printing(0, False), lost)
    with pytest.raises(ConnectionLost):
        await _look(consumer, reading(), Printing(0, False), every=0.0)


async def test_wait_for_a_topic_continues_while_no_name_server_responds(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedBroker() as broker:
        answers = [codes.TOPIC_NOT_EXIST, codes.SYSTEM_BUSY]

        def answer(command: Command) -> Command:
            if answers:
                return make_response(command, answers.pop(0), "scripted")
            return broker.on_get_routeinfo_by_topic(command)

        broker.script[codes.GET_ROUTEINFO_BY_TOPIC] = answer
        async with asyncio.timeout(60):
            await _until_it_is_there(reading(broker.address), Printing(0, False))
        first, second = capsys.readouterr().err.splitlines()
        assert "does not exist yet" in first and second.endswith("; still waiting for topic T")
