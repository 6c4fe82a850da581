"""The examples of docs/reference/examples.txt: commands that exist, and print what is written below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.generate_commands import PAGE, paths
from tools.record_examples import FILE, Example, alike, read_examples, run_examples
from typer.core import TyperCommand, TyperGroup

from bolide.cli.main import command

EXAMPLES = read_examples(FILE.read_text(encoding="utf-8"))


def leaf(words: list[str]) -> tuple[TyperCommand | TyperGroup, list[str]]:
    """The command that words name, and what is left of them."""
    at: TyperCommand | TyperGroup = command()
    while isinstance(at, TyperGroup) and not (at.invoke_without_command and words[0] not in at.commands):
        at, words = at.commands[words[0]], words[1:]
    return at, words


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.command[:60])
def test_a_command_knows_the_words_of_its_example(example: Example) -> None:
    words = example.words
    assert words[0] == "bolide"
    one, rest = leaf(words[1:])
    one.make_context(one.name, rest)


def test_every_command_has_its_place_and_an_example() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^### (bolide .+)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(paths(command()))
    bare = [name for name in headings if f"\n$ {name}" not in page]
    assert bare == [], "add an example to docs/reference/examples.txt and run python -m tools.record_examples"


def test_the_examples_print_what_is_written_below_them(tmp_path: Path) -> None:
    for example, output in run_examples(EXAMPLES, tmp_path, {}):
        assert alike(output) == alike(example.output), example.command
