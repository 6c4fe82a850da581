"""Runs the examples of docs/reference/examples.txt against a broker of their own and writes down what they print.

    python -m tools.record_examples      # after adding an example, or changing what a command prints

An example with a comment after it is not run, because it runs on or differs from machine to machine: only its words
are checked, and what stands below it is written by hand.
`tests/test_examples.py` compares what is printed now with what is written down, but for numbers, names of this
machine and ids. A command that names an id of an earlier output gets the id of the present run.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from bolide.cli.main import load
from bolide.testing import Broker

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "examples.txt"
STORE = "data"
SMALL_FILES = {
    "mappedFileSizeCommitLog": 16 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 10_000,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 100_000,
}
"""The settings of a broker for tests that the commands for store folders have to be told."""
LONGEST = 12
"""Lines of an output that are written down; then `...` says that there are more."""
ID = re.compile(r"[0-9A-Za-z+/=_-]{32,}")
WIDTH = 110


@dataclass
class Example:
    """A command, and what it printed when it was written down."""

    command: str
    output: str

    @property
    def words(self) -> list[str]:
        """The command as a shell reads it, without its comment."""
        return shlex.split(self.command, comments=True)

    @property
    def runs(self) -> bool:
        """Whether it is run: it has no comment."""
        return self.words == shlex.split(self.command)


def read_examples(text: str) -> list[Example]:
    """The examples of the file."""
    found = []
    for block in re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]:
        command, _, output = block.partition("\n")
        found.append(Example(command.removeprefix("$ "), output.rstrip()))
    return found


def run_examples(examples: list[Example], folder: Path, ids: dict[str, str]) -> Iterator[tuple[Example, str]]:
    """Run them in a folder of their own; those of a stopped store once its broker has stopped.

    `ids` learns which id of this run takes the place of which one in the file.
    """
    wanted = [example for example in examples if example.runs]
    live = ("scrub", "snapshot")  # of a running broker
    offline = [example for example in wanted if example.words[1] == "store" and example.words[2] not in live]
    (folder / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in SMALL_FILES.items()))
    with chdir(folder):
        with Broker(store=STORE, enable_property_filter=True, recall_message_enable=True) as broker:
            for example in wanted:
                if example not in offline:
                    yield example, printed(example, ids, broker.namesrv_addr)
        for example in offline:
            yield example, printed(example, ids, "")


def printed(example: Example, ids: dict[str, str], namesrv: str) -> str:
    """What an example prints now."""
    words = [ids.get(word, word) for word in example.words[1:]]
    environment = {"COLUMNS": str(WIDTH), "BOLIDE_NAMESRV_ADDR": namesrv, "NO_COLOR": "1", "TERM": "dumb"}
    done = CliRunner().invoke(load(), words, env=environment)
    if done.exit_code:
        raise SystemExit(f"`{example.command}` ended with {done.exit_code}: {done.output}")
    output = done.output.replace(os.getcwd(), "/var/lib/bolide").replace(namesrv or "\0", "127.0.0.1:9876").rstrip()
    ids.update(zip(ID.findall(example.output), ID.findall(output), strict=False))
    lines = [line.rstrip() for line in output.splitlines()] or ["(nothing)"]
    return "\n".join([*lines[:LONGEST], "..."] if len(lines) > LONGEST + 1 else lines)


def alike(output: str) -> str:
    """An output without what differs from run to run and from machine to machine."""
    text = re.sub(r"[─━-]{2,}", "─", ID.sub("ID", output))
    text = re.sub(r"\d[\d,.:+TZ-]*( [KMGT]iB| bytes)?", "0", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def main() -> int:
    """Run from anywhere; see the top of the file."""
    examples = read_examples(FILE.read_text(encoding="utf-8"))
    head = FILE.read_text(encoding="utf-8").partition("$ ")[0]
    ids: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        now = {example.command: output for example, output in run_examples(examples, Path(folder), ids)}
    for example in examples:
        example.output = now.get(example.command, example.output)
        example.command = ID.sub(lambda found: ids.get(found[0], found[0]), example.command)
    blocks = [f"$ {each.command}\n" + (f"{each.output}\n" if each.output else "") for each in examples]
    FILE.write_text(head + "".join(blocks), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
