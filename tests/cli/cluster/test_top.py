"""`bolide top` against a broker: in a terminal of 80 x 24, and where there is none."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bolide.cli.cluster.top import _print
from bolide.cli.cluster.top_figures import Round, Rounds
from bolide.cli.cluster.top_screen import View
from bolide.client import Message, ResponseError
from bolide.errors import BolideError, ConnectionLost
from bolide.remoting import codes
from bolide.testing.broker import Broker
from proof.kit.waiting import PROCESS_PATIENCE
from tests.cli.running import invoke
from tests.client.patient_blocking import Admin, Producer


class Terminal:
    """`bolide top` in a pseudo terminal, and all that it wrote."""

    def __init__(self, *words: str) -> None:
        self.keyboard, self.screen = pty.openpty()
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.screen)
        program = [sys.executable, "-m", "bolide.cli", "top", *words]
        surroundings = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            program, stdin=self.screen, stdout=self.screen, stderr=self.screen, env=surroundings | {"TERM": "xterm"}
        )
        self.written = ""

    def press(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def until(self, text: str) -> None:
        """Read until `text` has come since the last call."""
        end = time.monotonic() + PROCESS_PATIENCE
        while text not in self.written:
            readable, _, _ = select.select([self.keyboard], [], [], max(end - time.monotonic(), 0))
            assert readable, f"{text!r} did not come; the end of what came: {self.written[-2000:]!r}"
            self.written += os.read(self.keyboard, 65536).decode(errors="replace")
        self.written = self.written[self.written.index(text) + len(text) :]

    def ended(self) -> int:
        self.until("\x1b[?1049l")  # back from the second screen
        return self.process.wait(PROCESS_PATIENCE)

    def as_before(self) -> bool:
        return termios.tcgetattr(self.screen)[:4] == self.before[:4]


@contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    made = Terminal(*words)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        os.close(made.keyboard)
        os.close(made.screen)


@contextmanager
def cluster() -> Iterator[Broker]:
    with Broker() as broker:
        with Admin(broker.namesrv_addr) as admin, Producer("P", broker.namesrv_addr) as producer:
            admin.create_topic("Lagging", queues=1)
            for group in ("ahead", "behind"):
                admin.create_group(group)
            for _ in range(3):
                producer.send(Message("Lagging", b"x"))
            admin.reset_offset("ahead", "Lagging", "last")
            admin.reset_offset("behind", "Lagging", "first")
        yield broker


def test_keys_work_and_the_terminal_is_left_as_it_was() -> None:
    with cluster() as broker, terminal("-n", broker.namesrv_addr, "--interval", "0.2") as one:
        one.until("\x1b[?1049h")
        one.until("behind")
        assert not one.as_before()
        with Producer("P", broker.namesrv_addr) as producer:
            producer.send(Message("Lagging", b"x"))
        one.until("lag 5")  # both groups lack it
        one.press("s")
        one.until("by growth")
        one.press("/head")  # and q would be a letter of the filter
        one.until("filter: head_")
        one.press("\x7f\r")
        one.until("filter: hea ")
        one.press("p")
        one.until("PAUSED")
        one.press("\x1b[A")  # an arrow is no Escape: the filter stays
        one.until("filter: hea ")
        one.press("q")
        assert one.ended() == 0 and one.as_before()


def test_ctrl_c_ends_it_cleanly() -> None:
    with cluster() as broker, terminal("-n", broker.namesrv_addr) as one:
        one.until("behind")
        one.process.send_signal(signal.SIGINT)
        assert one.ended() == 130 and one.as_before()
        assert "Traceback" not in one.written


def test_a_cluster_that_cannot_be_reached_is_said_on_the_screen() -> None:
    with terminal("-n", "127.0.0.1:1") as one:
        one.until("127.0.0.1:1")
        one.press("q")
        assert one.ended() == 0 and one.as_before()


def test_without_a_terminal_it_prints_one_round() -> None:
    with cluster() as broker:
        done = invoke("top", "-n", broker.namesrv_addr)
        assert done.exit_code == 0, done.output
        assert done.stdout.index("broker-a") < done.stdout.index("behind") < done.stdout.index("ahead")
        assert "Groups: lag 3" in done.stdout and "\x1b" not in done.stdout

        words = ["top", "-n", broker.namesrv_addr, "--json", "--count", "2", "--interval", "0.1", "--filter", "BEHIND"]
        first, second = map(json.loads, invoke(*words).stdout.splitlines())
        assert first["groups"] == [{"group": "behind", "lag": 3, "growth_per_second": None}]
        assert second["groups"] == [{"group": "behind", "lag": 3, "growth_per_second": 0.0}]
        assert [each["broker"] for each in second["brokers"]] == ["broker-a"] and second["time"].endswith("+00:00")
        nothing = invoke("top", "-n", broker.namesrv_addr, "--json", "--cluster", "None")
        assert nothing.exit_code == 1 and "cluster None" in nothing.output


@pytest.mark.parametrize("words", [["--sort", "speed"], ["--interval", "0"], ["--count", "0"]])
def test_wrong_usage_is_refused(words: list[str]) -> None:
    assert invoke("top", *words).exit_code == 2


def test_a_cluster_that_does_not_answer_is_a_failure() -> None:
    done = invoke("top", "-n", "127.0.0.1:1")
    assert done.exit_code == 3 and "127.0.0.1:1" in done.output


class FailingRounds(Rounds):
    """Rounds without brokers; those of an error fail with it."""

    def __init__(self, *errors: BolideError | None) -> None:
        self.errors = list(errors)

    async def ask(self) -> Round:
        error = self.errors.pop(0)
        if isinstance(error, ConnectionLost):
            raise error
        return Round(0.0, [], [], error)


def test_rounds_that_fail_do_not_end_those_after_them(capsys: pytest.CaptureFixture[str]) -> None:
    lost, busy = ConnectionLost("no name server"), ResponseError("busy", codes.SYSTEM_BUSY)

    def printed(*errors: BolideError | None) -> int:
        asyncio.run(_print(FailingRounds(*errors), View(), 0.0, len(errors), True))
        return len(capsys.readouterr().out.splitlines())

    assert printed(None, lost, busy, None) == 3
    for last in (lost, busy):
        with pytest.raises(type(last)):
            printed(None, last)
    with pytest.raises(ConnectionLost):
        printed(lost, None)
