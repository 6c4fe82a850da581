"""`--watch`: answers until the reader is gone or somebody presses Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
import typer

from bolide.cli.main import load
from bolide.testing.broker import Broker
from tests.cli.running import invoke

WATCHED = {
    "topic": ["list", "show", "route"],
    "group": ["list", "lag", "show"],
    "offset": ["show"],
    "cluster": ["list", "replicas", "members", "info"],
    "user": ["list", "show"],
    "policy": ["list", "show"],
}


def watching(*words: str) -> subprocess.Popen[str]:
    """A command that shows something every tenth of a second."""
    program = [sys.executable, "-m", "bolide.cli", *words, "--watch", "0.1"]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_answers_come_until_ctrl_c(bolide_broker: Broker) -> None:
    with watching("cluster", "list", "-n", bolide_broker.namesrv_addr, "--json") as running:
        assert running.stdout is not None
        for _ in range(3):
            text = ""
            while not text.endswith("]\n"):
                text += running.stdout.readline()
            (row,) = json.loads(text)
            assert row["broker"] == "broker-a" and "\x1b" not in text
        running.send_signal(signal.SIGINT)
        running.communicate()
    assert running.returncode == 130


def test_a_server_that_cannot_be_reached_does_not_end_it() -> None:
    with watching("topic", "list", "-n", "127.0.0.1:1") as running:
        assert running.stderr is not None
        for _ in range(2):
            assert "127.0.0.1:1" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        running.communicate()
    assert running.returncode == 130


def test_watch_ends_when_the_pipe_closes(bolide_broker: Broker) -> None:
    with watching("topic", "list", "-n", bolide_broker.namesrv_addr) as running:
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline().startswith("Topics")
        running.stdout.close()
        assert running.wait() == 141
        assert running.stderr.read() == ""


def test_watch_rejects_wrong_usage_and_an_interval_out_of_range() -> None:
    done = invoke("topic", "list", "-n", "nonsense", "--watch", "1")
    assert done.exit_code == 2 and "host:port" in done.output
    for seconds in ("0", "inf", "nan"):
        assert invoke("topic", "list", "-n", "127.0.0.1:1", "--watch", seconds).exit_code == 2


@pytest.mark.parametrize(("noun", "verb"), [(noun, verb) for noun, verbs in WATCHED.items() for verb in verbs])
def test_every_verb_that_shows_a_cluster_can_be_watched(noun: str, verb: str) -> None:
    command = typer.main.get_group(load()).commands[noun].commands[verb]
    assert "watch" in [each.name for each in command.params]
