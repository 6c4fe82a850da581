"""The tutorial's programs print what it says, and its commands run."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.testing.broker import Broker
from proof.kit.waiting import PROCESS_PATIENCE
from tests.page_programs import PROGRAMS, program, run

PAGE = (PROGRAMS.parent / "tutorial" / "order-service.md").read_text(encoding="utf-8")
OUTPUT = re.compile(r"<!-- output of (\w+)\.py -->\n```text\n(.*?)```\n", re.DOTALL)
COMMAND = re.compile(r"^    (\w.*)$", re.MULTILINE)


def commands() -> list[str]:
    """The lines that a reader types."""
    return COMMAND.findall(re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE))


def looks() -> list[str]:
    """The commands that show what the first program left."""
    return [line for line in commands() if line.startswith("bolide ") and "standalone" not in line]


@pytest.mark.parametrize(("name", "printed"), OUTPUT.findall(PAGE), ids=lambda part: part.split("\n")[0])
def test_a_program_prints_what_the_page_says(
    name: str, printed: str, bolide_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    run(name, bolide_broker)
    assert capsys.readouterr().out == printed


def test_every_command_is_one_that_a_test_runs() -> None:
    shown = [f"python {name}.py" for name, _ in OUTPUT.findall(PAGE)]
    known = {"pip install bolide", "pip install pytest", "bolide standalone --store ./data", "pytest tutorial_test.py"}
    assert looks(), "the page has no command that looks at the store"
    assert set(commands()) == known | {*looks(), *shown}


def test_the_commands_that_look_answer_after_the_first_program(bolide_broker: Broker) -> None:
    asyncio.run(asyncio.wait_for(program("tutorial_orders").main(bolide_broker.namesrv_addr), PROCESS_PATIENCE))
    there = {**os.environ, "BOLIDE_NAMESRV_ADDR": bolide_broker.namesrv_addr}
    for line in looks():
        command = [sys.executable, "-m", "bolide", *line.split()[1:]]
        ended = subprocess.run(
            command, env=there, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False
        )
        assert ended.returncode == 0, ended.stderr
        assert "Drinks" in ended.stdout, line


def test_the_test_of_the_tutorial_passes(tmp_path: Path) -> None:
    for name in ("tutorial_orders.py", "tutorial_test.py"):
        (tmp_path / name).write_text((PROGRAMS / name).read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tutorial_test.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False)
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr
