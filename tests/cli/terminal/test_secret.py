"""Secrets come from standard input, a private file or a terminal, and from nowhere else."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.cli.terminal.secret import LONGEST, given_secret
from bolide.errors import ConfigError


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """What standard input has."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_the_line_of_standard_input_is_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"a b!", b"a b!\n", b"a b!\r\n"):
        piped(monkeypatch, data)
        assert given_secret("password", True, None) == "a b!"


@pytest.mark.parametrize("data", [b"", b"\n", b"a\nb\n", b"\xff", b"x" * (LONGEST + 1)])
def test_invalid_secret_is_rejected_without_quoting_it(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, data)
    with pytest.raises(ConfigError, match="the password on standard input") as refused:
        given_secret("password", True, None)
    assert "xxx" not in str(refused.value)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hidden\n")
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="others may read it .mode 0640.: run chmod 600"):
        given_secret("password", False, file)
    file.chmod(0o600)
    assert given_secret("password", False, file) == "hidden"


def test_without_a_terminal_an_option_must_say_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    piped(monkeypatch, b"hidden\n")
    with pytest.raises(ConfigError, match="cannot prompt for the password without a terminal: give --password-stdin"):
        given_secret("password", False, None)
    with pytest.raises(ConfigError, match="exclude each other"):
        given_secret("password", True, tmp_path)


def test_a_terminal_is_asked_twice_and_shows_nothing_of_it() -> None:
    program = "from bolide.cli.terminal.secret import given_secret; print(given_secret('password', False, None))"
    keyboard, terminal = os.openpty()
    words = [sys.executable, "-c", program]
    with subprocess.Popen(
        words, stdin=terminal, stderr=terminal, stdout=subprocess.PIPE, start_new_session=True
    ) as asked:
        os.close(terminal)
        seen = b""
        for prompt in (b"Password: ", b"Repeat for confirmation: "):
            while not seen.endswith(prompt):
                seen += os.read(keyboard, 1)
            os.write(keyboard, b"hidden\n")
        assert asked.communicate()[0] == b"hidden\n"
    os.close(keyboard)
    assert b"hidden" not in seen
