"""The rows of the tables of a page that translates RocketMQ's names."""

from __future__ import annotations

import re
from pathlib import Path

HEADS = ("| RocketMQ |", "| Java |")
"""The beginnings of the first lines of these tables."""


def sections(page: Path) -> dict[str, list[list[str]]]:
    """Return the rows of the tables of a page by heading, without the first lines of the tables. Cells are stripped."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith(HEADS):
            found.setdefault(heading, []).append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found
