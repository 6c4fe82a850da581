"""Lines on their way out: who does not read them holds up a thread and nobody else."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from bolide.world import lines as module
from bolide.world.lines import Lines, LinesHandler, TextOut, lines_to
from proof.kit.waiting import wait_until

PIPE = """
import os, sys
number = {number}
reading, writing = os.pipe()
os.set_blocking(writing, False)
try:
    while True:
        os.write(writing, b"x" * 4096)
except BlockingIOError:
    os.set_blocking(writing, True)
os.dup2(writing, number)
"""
"""A program's beginning that makes its standard output or error a pipe that is full and that nobody reads."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as stream:
        yield reading, stream
        os.close(reading)


def test_excess_lines_are_dropped_and_counted_in_the_output() -> None:
    may, taken = threading.Event(), list[str]()

    def take(line: str) -> None:
        may.wait()
        taken.append(line)

    lines = Lines("test", take, "{} missing".format)
    for number in range(module.WAITING + 7):
        lines.put(str(number))
    assert lines.dropped == 7
    may.set()
    wait_until(lambda: taken[-1:] == ["7 missing"], "the note, although no line follows")
    lines.put("last")
    assert lines.close()
    assert taken == [*map(str, range(module.WAITING)), "7 missing", "last"] and lines.dropped == 7


def test_the_note_precedes_the_first_line_after_the_gap() -> None:
    first, rest, taken = threading.Event(), threading.Event(), list[str]()

    def take(line: str) -> None:
        (rest if taken else first).wait()
        taken.append(line)

    lines = Lines("test", take, "{} missing".format)
    for number in range(module.WAITING + 1):
        lines.put(str(number))
    first.set()
    wait_until(lambda: bool(taken), "room for one line")
    wait_until(lambda: lines._waiting < module.WAITING, "room for one line")
    lines.put("after")
    rest.set()
    assert lines.close()
    assert taken[-2:] == ["1 missing", "after"]


def test_a_line_that_nobody_can_read_is_dropped() -> None:
    taken = list[str]()

    def take(line: str) -> None:
        if line == "bad":
            raise BrokenPipeError
        taken.append(line)

    lines = Lines("test", take, "{} missing".format)
    lines.put("bad")
    lines.put("good")
    assert lines.close() and taken == ["good"] and lines.dropped == 1


def test_the_end_waits_so_long_and_no_longer() -> None:
    may = threading.Event()
    lines = Lines("test", lambda line: may.wait(), str)
    lines.put("stuck")
    assert not lines.close(0.01)
    may.set()
    wait_until(lambda: lines.close(0.01), "its thread to end")


def test_a_descriptor_that_never_waits_gets_all(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    os.set_blocking(stream.fileno(), False)
    text = "é" * 100_000
    writer = threading.Thread(target=TextOut(stream).write, args=(text,))
    writer.start()
    found = b""
    while not found.endswith(b"\n"):
        found += os.read(reading, 1 << 16)
    writer.join()
    assert found.decode() == text + "\n"


def test_unencodable_text_is_escaped() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    TextOut(stream).write("Grüße")
    assert stream.buffer.getvalue() == b"Gr\\xfc\\xdfe\n"  # type: ignore[attr-defined] # it is the BytesIO above


def test_a_wrong_call_of_the_log_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    handler = LinesHandler(stream)
    handler.handle(logging.LogRecord("bolide.node", logging.INFO, "", 1, "%d of them", ("x",), None))
    handler.close()
    assert stream.getvalue().startswith("a line of bolide.node cannot be made of '%d of them': ")
    assert capsys.readouterr().err == ""


def test_no_stream_takes_no_lines() -> None:
    with lines_to(None) as say:
        say("to nobody")


@pytest.mark.parametrize(
    "program",
    [
        "from bolide.node.logs.logs import start_logging\nstart_logging()\nimport logging\n"
        "for each in range(20_000): logging.getLogger('bolide.node').info('line %d', each)",
        "from bolide.world.lines import lines_to\nwith lines_to(sys.stdout) as say:\n    say('ready')",
    ],
    ids=["standard error", "standard output"],
)
def test_a_process_whose_lines_nobody_reads_goes_on_and_ends(program: str) -> None:
    number = 1 if "stdout" in program else 2
    left = ({1: "sys.stderr", 2: "sys.stdout"})[number]
    program = PIPE.format(number=number) + program + f"\nprint('went on', file={left}, flush=True)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "went on" in done.stdout + done.stderr
