"""The examples of the pages about the command line: each is a command that there is, with options that it has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from bolide.cli.main import load

DOCS = Path(__file__).parent.parent.parent / "docs"
LINE = re.compile(r"^(?:    )?(bolide [^|<>\n]+)", re.MULTILINE)


def examples() -> list[str]:
    """The lines of indented and fenced blocks that begin with `bolide`."""
    text = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in ("cli.md", "security.md"))
    return LINE.findall(text)


def test_there_are_examples() -> None:
    assert len(examples()) > 5


@pytest.mark.parametrize("example", examples())
def test_an_example_can_be_typed(example: str) -> None:
    words = shlex.split(example, comments=True)[1:]
    words = words[2:] if words[0] == "--context" else words
    context = typer.Context(typer.main.get_group(load()), info_name="bolide")
    command = context.command
    while isinstance(command, TyperGroup):
        name, found, words = command.resolve_command(context, words)
        assert found is not None and name is not None
        command = found
    command.make_context(command.name, words)
