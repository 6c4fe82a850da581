"""Claims of the pages that the source decides: commands, options, defaults of settings, variables, targets of make."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperCommand, TyperGroup

from bolide.broker.options.composed import BrokerOptions
from bolide.cli.main import load
from bolide.controller.options import ControllerOptions
from bolide.declaration import settings_of
from bolide.namesrv.options import NamesrvOptions

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    if "protocol" not in page.parts and page.name != "settings.md"
]
COMMAND = re.compile(r"(?:^ {4}|^|`|\| )bolide ([a-z][^`\n|]*)", re.MULTILINE)
IN_BRACKETS = re.compile(r"`(\w+)`\s+\((?:default:? )?([\d,.]+)\s*(ms|s|h|hours|MiB|GiB|KiB)?\)")
UNITS = {"": 1, "ms": 1, "s": 1000, "h": 1, "hours": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
IN_HOURS = 3_600_000
PROSE = {"is", "has", "and", "the", "for", "in"}
"""Words that follow the name of the project at the start of a line of prose."""


def texts() -> Iterator[tuple[Path, str]]:
    """Every page with its text."""
    for page in PAGES:
        yield page, page.read_text(encoding="utf-8")


def found(root: TyperGroup, words: list[str]) -> tuple[TyperGroup | TyperCommand, list[str]]:
    """The command that the words lead to, and the words after its name."""
    command: TyperGroup | TyperCommand = root
    for at, word in enumerate(words):
        if not isinstance(command, TyperGroup) or word not in command.commands:
            return command, words[at:]
        below = command.commands[word]
        assert isinstance(below, TyperGroup | TyperCommand)
        command = below
    return command, []


def wrong(root: TyperGroup, line: str) -> str:
    """Return what the command line does not have of this line, or ""."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    if words[0] in PROSE:
        return ""
    command, rest = found(root, words)
    if isinstance(command, TyperGroup):
        return f"has no command {rest[0]}" if rest and re.fullmatch(r"[a-z-]+", rest[0]) and rest[0][0] != "-" else ""
    options = {name for option in command.params for name in [*option.opts, *option.secondary_opts]} | {"--help"}
    given = {word.split("=")[0].rstrip(",;.:)") for word in rest if word.startswith("--") and word != "--"}
    return f"has no option {', '.join(sorted(given - options))}" if given - options else ""


def test_every_command_and_option_on_a_page_exists() -> None:
    root = typer.main.get_group(load())
    faults = []
    count = 0
    for page, text in texts():
        for line in COMMAND.findall(text):
            count += 1
            if fault := wrong(root, re.split(r" # | #$| >>? ", line)[0].strip()):
                faults.append(f"{page.name}: bolide {line}: {fault}")
    assert faults == []
    assert count > 200


def test_a_wrong_command_is_noticed() -> None:
    root = typer.main.get_group(load())
    assert wrong(root, "topic creat Orders") == "has no command creat"
    assert wrong(root, "topic create Orders --queue 8") == "has no option --queue"
    assert wrong(root, "topic create Orders --queues 8") == ""


def defaults() -> dict[str, set[object]]:
    """The defaults of every setting of the three daemons, by key."""
    known: dict[str, set[object]] = {}
    for options in (BrokerOptions, NamesrvOptions, ControllerOptions):
        for setting in settings_of(options).values():
            known.setdefault(setting.key, set()).add(setting.default)
    return known


def claimed(value: str, unit: str) -> set[float]:
    """The numbers that a value with its unit can be in a setting, whatever unit the setting has."""
    number = float(value.replace(",", ""))
    if unit in ("h", "hours"):
        return {number, number * IN_HOURS}
    return {number * UNITS[unit], number} if unit == "s" else {number * UNITS[unit]}


def test_every_default_in_brackets_is_the_default() -> None:
    known = defaults()
    faults = []
    count = 0
    for page, text in texts():
        for key, value, unit in IN_BRACKETS.findall(text):
            if key in known:
                count += 1
                if not claimed(value, unit) & {default for default in known[key] if isinstance(default, int | float)}:
                    faults.append(f"{page.name}: `{key}` ({value} {unit}) is {known[key]}")
    assert faults == []
    assert count > 15


def test_every_variable_on_a_page_is_in_the_source() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "build_backend").glob("*.py"), ROOT / "Makefile"]
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    names = {name for _, text in texts() for name in re.findall(r"`(BOLIDE_[A-Z_]+[A-Z])\b", text)}
    keys = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).upper() for key in defaults()}
    of_settings = {f"BOLIDE_{key}" for key in keys}
    missing = {name for name in names if name not in source and name not in of_settings}
    assert missing == set()


def test_every_target_of_make_on_a_page_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {name for _, text in texts() for name in re.findall(r"`make ([a-z-]+)", text)}
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()
    assert {"quick", "wheels"} <= named
