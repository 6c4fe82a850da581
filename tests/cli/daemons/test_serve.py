"""The command line as a stranger uses it: a standalone process, and verbs against it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from bolide.cli.terminal.output import FAILED, PIPE_CLOSED, UNREACHABLE, USAGE
from bolide.client import Message
from proof.kit.children import start
from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess
from proof.kit.small import PATIENT, SMALL_LOG
from proof.kit.waiting import PROCESS_PATIENCE
from tests.client.patient_blocking import Producer

pytestmark = pytest.mark.slow  # each verb is a process, and each test has a cluster of processes

MANY_BYTES = 50
"""More than one line of these tests."""


class CommandLine:
    """A running `bolide standalone`, and other verbs run against it."""

    def __init__(self, folder: Path) -> None:
        namesrv, broker = str(reserve_port()), str(reserve_port())
        settings = {"flushDiskType": "ASYNC_FLUSH", "recallMessageEnable": "true", **SMALL_LOG, **PATIENT}
        self.process = ChildProcess(
            [sys.executable, "-m", "bolide", "standalone", "--store", folder / "store", "--namesrv-port", namesrv,
             "--broker-port", broker, *(word for key in settings for word in ("--set", f"{key}={settings[key]}"))],
            folder / "standalone.out",
        )  # fmt: skip
        words = self.process.wait_ready("ready namesrv=").split()
        self.namesrv = dict(word.split("=", 1) for word in words[1:])["namesrv"]
        # The first message waits for the log's room: on a busy disk longer than the three seconds a verb gives it.
        with Producer("first", self.namesrv) as producer:
            producer.send(Message("First", b"x"))

    def run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """One verb; its exit code and what it printed."""
        environment = {**os.environ, "NAMESRV_ADDR": self.namesrv, "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, "-m", "bolide", *arguments],
            input=text, capture_output=True, text=True, env=environment, timeout=PROCESS_PATIENCE, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    started = CommandLine(tmp_path_factory.mktemp("cli"))
    yield started
    assert started.process.stop() == 0


def test_lines_go_in_and_come_out(line: CommandLine) -> None:
    assert line.run("topic", "create", "Pipe", "--queues", "1").returncode == 0
    sent = line.run("produce", "Pipe", "--tags", "x", "--keys", "k1", text="one\ntwo\n\nthree\n")
    assert sent.returncode == 0
    assert len(sent.stdout.splitlines()) == 3
    got = line.run("consume", "Pipe", "--count", "3")
    assert (got.returncode, got.stdout) == (0, "one\ntwo\nthree\n")


def test_json_goes_in_and_comes_out(line: CommandLine) -> None:
    assert line.run("topic", "create", "Json", "--queues", "1").returncode == 0
    message = {"body": {"a": 1}, "tags": "t", "keys": ["k", "l"], "properties": {"p": "q"}}
    assert line.run("produce", "Json", "--from-json", text=json.dumps(message) + "\n").returncode == 0
    got = line.run("consume", "Json", "--count", "1", "--json")
    read = json.loads(got.stdout)
    assert json.loads(read["body"]) == {"a": 1}
    assert (read["tags"], read["keys"], read["properties"]["p"]) == ("t", ["k", "l"], "q")


def test_messages_wait_and_are_taken_back(line: CommandLine) -> None:
    assert line.run("topic", "create", "Later", "--queues", "1").returncode == 0
    taken = line.run("produce", "Later", "taken", "--deliver-at", "2999-01-01T00:00Z", "--json")
    assert taken.returncode == FAILED  # further away than a broker keeps messages
    taken = line.run("produce", "Later", "taken", "--delay", "600", "--json")
    handle = json.loads(taken.stdout)["recall_handle"]
    assert line.run("message", "recall", "Later", handle).returncode == 0
    assert line.run("message", "recall", "Later", "nonsense").returncode == USAGE
    late = {"body": "late", "delay": 1.5}
    assert line.run("produce", "Later", "--from-json", text=json.dumps(late) + "\n").returncode == 0
    assert line.run("consume", "Later", "--count", "1").stdout == "late\n"


def test_reading_verbs_print_json(line: CommandLine) -> None:
    assert line.run("topic", "create", "Look", "--queues", "2").returncode == 0
    line.run("produce", "Look", "a body", "--keys", "find-me")
    assert {"topic": "Look"} in json.loads(line.run("topic", "list", "--json").stdout)
    stats = json.loads(line.run("topic", "show", "Look", "--json").stdout)
    assert sum(queue["messages"] for queue in stats) == 1
    found = json.loads(line.run("message", "find", "Look", "find-me", "--json").stdout)["messages"]
    assert [message["body"] for message in found] == ["a body"]
    shown = line.run("message", "get", found[0]["message_id"], "--topic", "Look", "--json")
    assert json.loads(shown.stdout)["body"] == "a body"
    assert json.loads(line.run("cluster", "list", "--json").stdout)[0]["broker"] == "broker-a"
    assert json.loads(line.run("cluster", "info", "broker-a", "--json").stdout)["brokerVersionDesc"] == "V5_5_0"
    assert json.loads(line.run("config", "show", "--json").stdout)
    assert json.loads(line.run("version", "--json").stdout)["rocketmq"] == "5.5.0"


def test_a_group_is_moved_back(line: CommandLine) -> None:
    assert line.run("topic", "create", "Again", "--queues", "1").returncode == 0
    line.run("produce", "Again", "first", "second")
    assert line.run("consume", "Again", "--group", "again", "--count", "2").returncode == 0
    offsets = json.loads(line.run("offset", "show", "again", "Again", "--json").stdout)
    assert [queue["lag"] for queue in offsets] == [0]
    assert line.run("offset", "reset", "again", "Again", "first", "--yes").returncode == 0
    got = line.run("consume", "Again", "--group", "again", "--count", "2")
    assert got.stdout == "first\nsecond\n"


def head(line: CommandLine, lines: int, *arguments: str, text: str = "") -> tuple[int, list[str], str]:
    """A verb whose reader leaves after some lines, as `head` does: status, the lines, what it said."""
    environment = {**os.environ, "NAMESRV_ADDR": line.namesrv}
    process = start(
        [sys.executable, "-m", "bolide", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, bufsize=1, env=environment,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    writer = threading.Thread(target=feed, args=(process.stdin, text))
    writer.start()
    pipe = process.stdout.fileno()
    got = ["".join(iter(lambda: os.read(pipe, 1).decode(), "\n")) for _ in range(lines)]
    # What it prints before it hears of us is not taken by anybody: a line that waits in the pipe, or more of them.
    deadline = time.monotonic() + 1
    while waiting(pipe) < MANY_BYTES and time.monotonic() < deadline:
        time.sleep(0.01)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    status = process.wait(PROCESS_PATIENCE)
    writer.join()
    return status, got, said


def waiting(pipe: int) -> int:
    """Bytes in a pipe that nobody has read."""
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def feed(pipe: IO[str], text: str) -> None:
    with suppress(BrokenPipeError):
        pipe.write(text)
    with suppress(BrokenPipeError):
        pipe.close()


def test_consume_ends_with_its_reader_and_takes_nothing_more(line: CommandLine) -> None:
    assert line.run("topic", "create", "Head", "--queues", "1").returncode == 0
    bodies = [f"m{number}" for number in range(300)]
    assert line.run("produce", "Head", text="\n".join(bodies)).returncode == 0
    status, got, said = head(line, 1, "consume", "Head", "--group", "head")
    assert (status, got) == (PIPE_CLOSED, bodies[:1])
    assert said.strip() == "1 consumed"
    rest = line.run("consume", "Head", "--group", "head", "--count", "299")
    assert rest.stdout.split() == bodies[1:]  # none was sent back, so all come in their order


def test_consume_ends_with_its_reader_although_nothing_comes(line: CommandLine) -> None:
    assert line.run("topic", "create", "Once", "--queues", "1").returncode == 0
    assert line.run("produce", "Once", "only").returncode == 0
    for more in ((), ("--group", "once")):
        status, got, said = head(line, 1, "consume", "Once", *more)
        assert (status, got, said.strip()) == (PIPE_CLOSED, ["only"], "1 consumed")


def test_a_signal_ends_consume_although_its_reader_does_not_read(line: CommandLine) -> None:
    assert line.run("topic", "create", "Still", "--queues", "1").returncode == 0
    assert line.run("produce", "Still", "a", "b").returncode == 0
    process = start(
        [sys.executable, "-m", "bolide", "consume", "Still", "--group", "still", "--namesrv", line.namesrv],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    select.select([process.stdout], [], [], PROCESS_PATIENCE)
    process.send_signal(signal.SIGINT)
    assert process.wait(PROCESS_PATIENCE) == 0
    assert process.communicate()[1].strip() == "0 consumed"
    assert line.run("consume", "Still", "--group", "still", "--count", "2").stdout.split() == ["a", "b"]


def test_produce_ends_with_its_reader_and_says_what_it_sent(line: CommandLine) -> None:
    assert line.run("topic", "create", "Many", "--queues", "1").returncode == 0
    status, got, said = head(line, 2, "produce", "Many", text="\n".join(map(str, range(200_000))))
    assert status == PIPE_CLOSED and len(got) == 2
    (count,) = re.findall(r"^(\d+) sent, 0 failed$", said, re.MULTILINE)
    (queue,) = json.loads(line.run("topic", "show", "Many", "--json").stdout)
    assert queue["messages"] == int(count) < 200_000


def test_without_a_group_nobody_is_disturbed(line: CommandLine) -> None:
    for topic in ("Mine", "Yours"):
        assert line.run("topic", "create", topic, "--queues", "2").returncode == 0
        assert line.run("produce", topic, *(f"{topic}{number}" for number in range(4))).returncode == 0
    for _ in range(2):
        for topic in ("Mine", "Yours"):
            got = line.run("consume", topic, "--count", "4")
            assert sorted(got.stdout.split()) == [f"{topic}{number}" for number in range(4)]


def test_a_change_from_the_command_line_keeps_the_rest(line: CommandLine) -> None:
    assert line.run("topic", "create", "Part", "--queues", "2", "--order").returncode == 0
    done = line.run("topic", "create", "Part", "--perm", "4")
    assert done.stderr.strip() == "topic Part has 2 queues, perm 4, ordered on broker-a"
    assert line.run("group", "create", "part", "--retries", "3", "--orderly").returncode == 0
    assert line.run("group", "create", "part", "--disable").returncode == 0
    (shown,) = [row for row in json.loads(line.run("group", "list", "--json").stdout) if row["group"] == "part"]
    assert (shown["may_consume"], shown["retries"], shown["orderly"]) == (False, 3, True)


@pytest.mark.parametrize("variable", ["BOLIDE_NAMESRV_ADDR", "ROCKETMQ_NAMESRV_ADDR"])
def test_the_nearest_variable_names_the_name_server(line: CommandLine, variable: str) -> None:
    environment = {**os.environ, "NAMESRV_ADDR": "127.0.0.1:1", variable: line.namesrv}
    done = subprocess.run(
        [sys.executable, "-m", "bolide", "topic", "list"], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, "First" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("topic", "delete", "Nope", "--yes"), FAILED, "there is no topic Nope"),
        (("group", "show", "typo"), FAILED, "there is no group typo"),
        (("group", "delete", "typo", "--yes"), FAILED, "there is no group typo"),
        (("produce", "T", "x", "-n", "127.0.0.1:1"), UNREACHABLE, "0 sent, 1 failed"),
        (("consume", "T", "-n", "127.0.0.1:1", "--idle", "1"), UNREACHABLE, "127.0.0.1:1"),
        (("consume", "First", "--broadcast"), USAGE, "--broadcast is for a group"),
        (("consume", "First", "--start", "tomorrow"), USAGE, "first, last, 2026-01-31T12:00+01:00"),
        (("topic", "list", "-n", "nonsense"), USAGE, "host:port"),
        (("broker", "-n", "nonsense", "--store", "/nonexistent/x"), USAGE, "namesrvAddr"),
        (("cluster", "list", "-n", "127.0.0.1:1"), UNREACHABLE, "127.0.0.1:1"),
        (("topic", "show", "Nowhere"), FAILED, "Nowhere"),
        (("topic", "list", "-n", "127.0.0.1:1"), UNREACHABLE, "127.0.0.1:1"),
        (("topic", "create", "bad name"), USAGE, "bad name"),
        (("topic", "create", "Odd", "--attribute", "+a=b"), FAILED, "unsupported key: a; use one of queue.type"),
        (("offset", "reset", "g", "T", "yesterday"), USAGE, "yesterday"),
        (("produce", "T", "x", "--deliver-at", "soon"), USAGE, "soon"),
        (("broker", "--set", "flushDiskType"), USAGE, "key=value"),
        (("broker", "--listen", "nowhere"), USAGE, "HOST:PORT"),
        (("config", "show", "teapot"), USAGE, "teapot"),
        (("store", "inspect", "/nonexistent"), USAGE, "nonexistent"),
    ],
)
def test_an_error_is_one_sentence(line: CommandLine, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    done = line.run(*arguments)
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
