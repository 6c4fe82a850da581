"""The common part of the command lines of proof tools."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from proof.kit.command_line import Pace, Parser, folder_of, interrupted_once, teller


def test_shared_options_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser("attack", "About it.\n\n    as it is")
    parser.add_seed("repeat a run")
    parser.add_json()
    assert (parser.parse_args([]).seed, parser.parse_args(["--seed", "7", "--json"]).seed) == (None, 7)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--help"])
    told = capsys.readouterr().out
    assert ended.value.code == 0
    assert told.startswith("usage: make attack ARGS=… ") and "\n    as it is\n" in told
    assert "repeat a run (default: a new one)" in " ".join(told.split())


@pytest.mark.parametrize("as_json", [False, True])
def test_progress_and_figures_use_different_streams(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    teller(as_json)("half of it")
    out, errors = capsys.readouterr()
    assert (out, errors) == (("", "half of it\n") if as_json else ("half of it\n", ""))


def test_a_line_is_due_after_its_interval() -> None:
    assert not Pace(3600).due()
    assert Pace(0).due()


def test_a_run_uses_the_given_folder_or_a_temporary_one(tmp_path: Path) -> None:
    assert folder_of("soak", tmp_path / "a" / ".." / "b") == tmp_path / "b"
    made = folder_of("soak", None)
    assert made.is_dir() and made.name.startswith("bolide-soak-")
    made.rmdir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_does_not_interrupt_the_cleanup(number: signal.Signals) -> None:
    before, ended = signal.getsignal(number), False
    with interrupted_once():
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            os.kill(os.getpid(), number)
            ended = True
    assert ended and signal.getsignal(number) is before
