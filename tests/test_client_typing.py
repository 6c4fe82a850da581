"""What a type checker says to a user's program: right calls pass, each wrong one is an error on its own line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from datetime import UTC, datetime

import bolide.client.blocking
from bolide.client import ConsumeResult, Message, PullConsumer, PushConsumer, ReceivedMessage, TransactionState
from bolide.client import TransactionProducer


async def one(message: ReceivedMessage) -> None: ...
def one_plain(message: ReceivedMessage) -> ConsumeResult: return ConsumeResult.SUCCESS
async def many(messages: list[ReceivedMessage]) -> int: return len(messages)
def many_plain(messages: list[ReceivedMessage]) -> bool: return True
def count(messages: int) -> bool: return True
async def text(message: ReceivedMessage) -> str: return ""


class Payments:
    async def execute(self, message: Message, amount: int) -> TransactionState: return TransactionState.COMMIT
    def check(self, message: ReceivedMessage) -> TransactionState: return TransactionState.UNKNOWN


class Silent:
    async def execute(self, message: Message, amount: int) -> str: return ""
    def check(self, message: ReceivedMessage) -> TransactionState: return TransactionState.UNKNOWN


seen: list[ReceivedMessage] = []
for consumer in (PushConsumer("g"),):
    consumer.subscribe("T", "*", one)
    consumer.subscribe("T", "*", one_plain, batch=0)
    consumer.subscribe("T", "*", seen.append)
    consumer.subscribe("T", "*", many, batch=16)
    consumer.subscribe("T", "*", many_plain, batch=16)
    consumer.subscribe("T", "*", lambda message: print(message.body))
    consumer.subscribe("T", "*", many)
    consumer.subscribe("T", "*", many_plain)
    consumer.subscribe("T", "*", count)  # error
    consumer.subscribe("T", "*", one, batch=16)  # error
    consumer.subscribe("T", "*", text)  # error
blocking = bolide.client.blocking.PushConsumer("g")
blocking.subscribe("T", "*", many_plain, batch=16)
blocking.subscribe("T", "*", many_plain)
blocking.subscribe("T", "*", count)  # error
TransactionProducer("g", "", Payments())
TransactionProducer("g", "", Silent())  # error
Message("T", b"body", tags="a", deliver_at=datetime.now(UTC))
Message("T", b"body", "a")  # error
PullConsumer("g", start_from="first", interceptors=())
PullConsumer("g", start_from="start")  # error
PullConsumer("g", start_form="first")  # error
number: int = seen[0].value_as(int)
words: str = seen[0].value_as(int)  # error
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_type_checker_sees_each_mistake(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", tmp_path, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # within this process it changes it
    assert not done.stderr
    found = {int(number) for number in re.findall(r"^[^:\n]*program\.py:(\d+): error", done.stdout, re.MULTILINE)}
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# error")}
    assert found == wrong, done.stdout
