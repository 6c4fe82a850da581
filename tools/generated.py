"""Files that a generator writes, or with --check compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(texts: Mapping[Path, str], generator: str, arguments: list[str]) -> int:
    """Write the texts, or with --check compare them. Returns 1 if a file is out of date."""
    wrong = 0
    for path, text in texts.items():
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is out of date: run python tools/{Path(generator).name}")
            wrong = 1
    return wrong
