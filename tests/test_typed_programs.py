"""The programs of README, docs and demo pass a strict type checker, and so do listeners of every shape it must take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_programs_and_demo_pass_strict_mypy() -> None:
    checked = [sys.executable, "-m", "mypy", "--strict", "docs/programs", "demo"]
    outcome = subprocess.run(checked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


WRONG = """
from bolide.client import Message, MessageQueue, Producer, PushConsumer, ReceivedMessage, TransactionListener

async def text(message: str) -> None: ...

async def main(consumer: PushConsumer, producer: Producer) -> None:
    consumer.subscribe("T", "*", text)
    Message("T", "text")
    Producer("P", grop="P")
    producer.send(Message("T", b"x"))
    PushConsumer("G", start_from="frist")

class OnlyExecutes:
    def execute(self, message: Message, argument: object) -> None: ...

listener: TransactionListener = OnlyExecutes()
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_mistakes_are_seen_by_the_type_checker(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(WRONG, encoding="utf-8")
    checked = [sys.executable, "-m", "mypy", "--strict", "--enable-error-code", "unused-awaitable", str(program)]
    outcome = subprocess.run(checked, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = {int(line.split(":")[1]) for line in outcome.stdout.splitlines() if ": error:" in line}
    assert lines == {
        number
        for number, line in enumerate(WRONG.splitlines(), 1)
        if line.startswith("    ")
        and ("text)" in line or '"text"' in line or "grop" in line or "send(" in line or "frist" in line)
    } | {len(WRONG.splitlines())}, outcome.stdout
