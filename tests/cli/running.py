"""The command line in the process of a test."""

from __future__ import annotations

from click.testing import Result
from typer.testing import CliRunner

from bolide.cli.main import load


def invoke(*words: object, typed: str | None = None, **variables: str | None) -> Result:
    """Run `bolide` with arguments, standard input and environment variables; None removes a variable."""
    return CliRunner().invoke(load(), [str(word) for word in words], input=typed, env=variables)
