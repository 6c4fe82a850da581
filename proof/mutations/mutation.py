"""The list of mutations: small bugs, and the tests or promises that must notice each.

The folder `list` mirrors src/bolide: the mutations of broker/append/log_writer.py are in
list/broker/append/log_writer.toml. The page of a source that is not Python keeps its suffix, as in
list/console/templates/group.html.toml.

A mutation replaces a text that occurs exactly once in the source. `also` lists further changes; `file` of a change is
needed only if it differs from the first. One of the `tests` must fail. A known fault has `promises` instead: a
simulated run must break one of them. `among` limits the search to the seeds of one kind (`KINDS` of
proof/simulation/swarm.py).
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src" / "bolide"
LIST: Final = Path(__file__).with_name("list")
KEYS: Final = frozenset({"name", "old", "new"})
OPTIONAL: Final = frozenset({"also", "tests", "promises", "among"})


class MutationError(Exception):
    """A mutation is malformed, does not fit the sources or cannot be judged; the text says which and why."""


@dataclass(frozen=True)
class Change:
    """One replacement in a source file, whose path is below src/bolide."""

    file: str
    old: str
    new: str

    def applied_to(self, text: str) -> str:
        """Return the source with the change. Raises `MutationError` if it does not fit."""
        count = text.count(self.old)
        if count != 1:
            raise MutationError(f"the old text occurs {count} times, not once, in {self.file}: {self.old!r}")
        if self.old == self.new:
            raise MutationError(f"the new text is the old one in {self.file}: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutation:
    """One bug. It has either tests or promises."""

    name: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...] = ()
    promises: tuple[str, ...] = ()
    among: str = ""
    """Kind of the seeds that can find a known fault, or empty for seeds of all kinds."""

    @property
    def title(self) -> str:
        """First file without its suffix, and name."""
        return f"{self.changes[0].file.removesuffix('.py')}: {self.name}"

    def applied_to(self, sources: Path) -> dict[Path, str]:
        """Return the new text of each file that changes. Raises `MutationError` if a change does not fit."""
        texts: dict[Path, str] = {}
        for change in self.changes:
            path = sources / change.file
            try:
                text = texts[path] if path in texts else path.read_text(encoding="utf-8")
                texts[path] = change.applied_to(text)
            except (MutationError, OSError) as error:
                raise MutationError(f"{self.title}: {error}") from None
        return texts


def mutations(folder: Path = LIST, sources: Path = SOURCES) -> list[Mutation]:
    """Return the whole list, sorted by file. Raises `MutationError` if a file or an entry is malformed."""
    return [mutation for path in sorted(folder.rglob("*.toml")) for mutation in _entries(path, folder, sources)]


def known_faults() -> list[Mutation]:
    """Return the mutations that the simulation must find."""
    return [mutation for mutation in mutations() if mutation.promises]


def sample(listed: Iterable[Mutation], count: int, seed: int) -> list[Mutation]:
    """Draw `count` mutations by their names, so that other changes of the list hardly change the sample."""

    def place(mutation: Mutation) -> bytes:
        return hashlib.sha256(f"{seed} {mutation.name}".encode()).digest()

    listed = list(listed)
    drawn = set(sorted(listed, key=place)[:count])
    return [mutation for mutation in listed if mutation in drawn]


def _entries(path: Path, folder: Path, sources: Path) -> Iterator[Mutation]:
    page: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    place = path.relative_to(folder)
    named = place.with_suffix("")
    file = (named if named.suffix else named.with_suffix(".py")).as_posix()
    if not (sources / file).is_file():
        raise MutationError(f"list/{place}: src/bolide/{file} does not exist: move the entries to their source's file")
    if set(page) - {"tests"} != {"mutation"}:
        raise MutationError(f"list/{place}: the file has {sorted(page)}, not `tests` and `mutation`")
    for entry in page["mutation"]:
        if not KEYS <= set(entry) <= KEYS | OPTIONAL:
            raise MutationError(
                f"list/{place}: an entry has {sorted(entry)}, not name, old, new and {sorted(OPTIONAL)}"
            )
        name, promises = entry["name"], tuple(entry.get("promises", ()))
        tests = tuple(entry.get("tests", () if promises else page.get("tests", ())))
        if bool(tests) == bool(promises) or ("among" in entry and not promises):
            raise MutationError(f"list/{place}: {name!r} needs either `tests`, or `promises` and perhaps `among`")
        changes = [Change(file, entry["old"], entry["new"])]
        for change in entry.get("also", []):
            if not {"old", "new"} <= set(change) <= {"file", "old", "new"}:
                raise MutationError(f"list/{place}: a change of {name!r} has {sorted(change)}, not old, new and file")
            changes.append(Change(change.get("file", file), change["old"], change["new"]))
        yield Mutation(name, tuple(changes), tests, promises, entry.get("among", ""))
