"""The committed list of mutations: small wrongs, one for each row of the decision tables that a test must notice.

The list is in the `.toml` files beside this one. Each names a file under src/bolide, a text that occurs in it exactly
once, its replacement, and the tests of which one must fail then.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
SOURCES = ROOT / "src" / "bolide"
KEYS = {"name", "file", "old", "new", "tests"}


class MutationError(Exception):
    """An entry of the list fits the sources no more; the text says which and why."""


@dataclass(frozen=True)
class Mutation:
    """One wrong."""

    subject: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied_to(self, text: str) -> str:
        """The source with this wrong in it. Raises MutationError."""
        count = text.count(self.old)
        if count != 1:
            raise MutationError(f"{self.title}: its old text occurs in {self.file} {count} times, not once")
        if self.old == self.new:
            raise MutationError(f"{self.title}: changes nothing")
        return text.replace(self.old, self.new)

    @property
    def title(self) -> str:
        """Subject and name."""
        return f"{self.subject}: {self.name}"


def mutations() -> list[Mutation]:
    """All of the list, in the order of its files. Raises MutationError for an entry out of shape."""
    found: list[Mutation] = []
    for path in sorted(FOLDER.glob("*.toml")):
        page: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        usual = {"file": page["file"], "tests": page["tests"]}
        for entry in page["mutation"]:
            fields = usual | entry
            if set(fields) != KEYS:
                raise MutationError(f"{path.name}: an entry has {sorted(fields)}, not {sorted(KEYS)}")
            found.append(
                Mutation(
                    path.stem, fields["name"], fields["file"], fields["old"], fields["new"], tuple(fields["tests"])
                )
            )
    return found
