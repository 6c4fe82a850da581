"""A request of a sequence, written with placeholders for what differs from run to run and from side to side."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from proof.reader.frames import JSON, ONEWAY, Manner

PLACE: Final = re.compile(r"\$\{([A-Za-z]+[0-9]*)(?::([0-9]+))?\}")
BROKER: Final = "broker"
NAMESRV: Final = "namesrv"
BATCH: Final = 320
"""Its body is written a byte a character."""


@dataclass(frozen=True)
class Step:
    """One request. Texts may contain placeholders:

    ``${T0}``, ``${G1}``, ``${C0}``, ``${B0}``: topic, group, client or broker of this run; ``${now}``: its time, in ms;
    ``${msgId:4}``, ``${physical:4}``, ``${queueOffset:4}``, ``${transactionId:4}``, ``${recallHandle:4}``: what this
    side answered to the step with the number 4, or zero without such an answer.
    """

    number: int
    server: str
    code: int
    ext: dict[str, str] | None = None
    body: str = ""
    connection: int = 0
    form: int = JSON
    language: str = "JAVA"
    version: int = 513
    oneway: bool = False

    @property
    def manner(self) -> Manner:
        """How it is written."""
        return Manner(self.form, self.language, self.version, ONEWAY if self.oneway else 0)

    def filled(self, value_of: Callable[[str, int | None], str]) -> tuple[dict[str, str] | None, bytes]:
        """Fields and body with each placeholder replaced by `value_of(name, step)`."""

        def fill(text: str) -> str:
            return PLACE.sub(lambda found: value_of(found[1], int(found[2]) if found[2] else None), text)

        ext = None if self.ext is None else {name: fill(value) for name, value in self.ext.items()}
        body = fill(self.body)
        return ext, body.encode("latin-1", "replace") if self.code == BATCH else body.encode("utf-8", "surrogateescape")


def to_json(steps: list[Step]) -> str:
    """One step a line, without what is usual."""
    usual = asdict(Step(0, "", 0))
    lines = []
    for step in steps:
        values = {
            name: value
            for name, value in asdict(step).items()
            if value != usual[name] or name in ("number", "server", "code")
        }
        lines.append(json.dumps(values, ensure_ascii=True))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def from_json(text: str) -> list[Step]:
    """The inverse of `to_json`."""
    return [Step(**values) for values in json.loads(text)]


def load(path: Path) -> list[Step]:
    """The steps of a file."""
    return from_json(path.read_text(encoding="utf-8"))


def plainer(step: Step) -> list[Step]:
    """The same step with less that is odd, for shrinking: each changes one thing."""
    usual = [
        replace(step, form=JSON),
        replace(step, language="JAVA"),
        replace(step, version=513),
        replace(step, oneway=False),
        replace(step, connection=0),
    ]
    found = [each for each in usual if each != step]
    if step.ext:
        found += [replace(step, ext={key: v for key, v in step.ext.items() if key != name}) for name in step.ext]
        found += [
            replace(step, ext={**step.ext, name: value[: len(value) // 2]})
            for name, value in step.ext.items()
            if len(value) > 40 and "${" not in value
        ]
    if len(step.body) > 40 and "${" not in step.body:
        found.append(replace(step, body=step.body[: len(step.body) // 2]))
    return found
