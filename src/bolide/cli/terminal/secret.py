"""Reads passwords and secret keys from a prompt without echo, from standard input or from a private file.

Secrets are never read from the command line, which the list of processes shows, and never printed.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Final

import typer

from bolide.errors import ConfigError

LONGEST: Final = 4096
"""Maximum size in bytes of a file or line that contains a secret."""

FromStdin: Final = typer.Option(False, "--password-stdin", help="Read the password from standard input: its one line.")
FromFile: Final = typer.Option(
    None, "--password-file", help="Read the password from this file, which only its owner may read.", dir_okay=False
)


def given_secret(what: str, from_stdin: bool, file: Path | None) -> str:
    """Read a secret from the source that the options specify, else prompt for it twice. Raises `ConfigError` if the
    options, the file or the secret are invalid, or without a terminal."""
    if from_stdin and file is not None:
        raise ConfigError("--password-stdin and --password-file exclude each other: write one")
    if from_stdin:
        return _one_line(sys.stdin.buffer.read(LONGEST + 1), f"the {what} on standard input")
    if file is not None:
        check_private(file)
        with file.open("rb") as opened:
            return _one_line(opened.read(LONGEST + 1), f"the {what} in {file}")
    if not sys.stdin.isatty():
        raise ConfigError(
            f"cannot prompt for the {what} without a terminal: give --password-stdin or --password-file FILE"
        )
    typed: str = typer.prompt(what.capitalize(), hide_input=True, confirmation_prompt=True, err=True)
    return typed


def check_private(file: Path) -> None:
    """Raise `ConfigError` if other users may read the file."""
    mode = stat.S_IMODE(os.stat(file).st_mode)
    if mode & 0o077:
        raise ConfigError(f"{file} has secrets, and others may read it (mode {mode:04o}): run chmod 600 {file}")


def _one_line(data: bytes, what: str) -> str:
    try:
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"{what} is not UTF-8") from None
    if not text or len(data) > LONGEST or len(text.splitlines()) != 1:
        raise ConfigError(f"{what} must be one line, not empty, of at most {LONGEST} bytes")
    return text
