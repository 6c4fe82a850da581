"""The list of differences that are meant: which answers they concern, why they are there, and what shows them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proof.differential.compare import Difference, generalised
from proof.differential.steps import Step

LIST: Final = Path(__file__).with_name("differences.toml")


@dataclass(frozen=True)
class Entry:
    """A difference that is meant. The fields are those of differences.toml, which explains them."""

    name: str
    reason: str
    docs: str
    codes: tuple[int, ...]
    at: re.Pattern[str]
    ours: re.Pattern[str]
    java: re.Pattern[str]
    when: tuple[tuple[str, re.Pattern[str]], ...]
    after: frozenset[int]
    said: re.Pattern[str] | None
    ends: bool
    unseen: str

    def covers(self, step: Step, difference: Difference, before: Sequence[Step]) -> bool:
        """Whether this difference of this step is the one that is meant; `before`: the steps until then."""
        if (self.codes and step.code not in self.codes) or not self._follows(before):
            return False
        values = {**(step.ext or {}), "body": step.body, "server": step.server, "form": str(step.form)}
        return (
            self.at.fullmatch(generalised(difference.at)) is not None
            and self.ours.fullmatch(difference.ours) is not None
            and self.java.fullmatch(difference.java) is not None
            and all(self._holds(name, pattern, values) for name, pattern in self.when)
        )

    def _follows(self, before: Sequence[Step]) -> bool:
        codes = {step.code for step in before}
        texts = (text for step in before for text in (step.body, *(step.ext or {}).values()))
        return (not self.after or bool(self.after & codes)) and (
            self.said is None or any(self.said.search(text) for text in texts)
        )

    @staticmethod
    def _holds(name: str, pattern: re.Pattern[str], values: dict[str, str]) -> bool:
        found = values.values() if name == "any" else (values.get(name, "absent"),)
        return any(pattern.fullmatch(value) for value in found)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


def load() -> list[Entry]:
    """The entries of differences.toml."""
    data = tomllib.loads(LIST.read_text(encoding="utf-8"))
    entries = []
    for values in data.get("difference", []):
        when = tuple((name, _pattern(text)) for name, text in values.pop("when", {}).items())
        entries.append(
            Entry(
                name=values.pop("name"),
                reason=values.pop("reason"),
                docs=values.pop("docs"),
                codes=tuple(values.pop("codes", ())),
                at=_pattern(values.pop("at")),
                ours=_pattern(values.pop("ours", ".*")),
                java=_pattern(values.pop("java", ".*")),
                when=when,
                after=frozenset(values.pop("after", ())),
                said=_pattern(values.pop("said")) if "said" in values else None,
                ends=values.pop("ends", False),
                unseen=values.pop("unseen", ""),
            )
        )
        if values:
            raise ValueError(f"{LIST}: the entry {entries[-1].name!r} has unknown fields {sorted(values)}")
    return entries
