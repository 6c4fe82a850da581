"""What a sequence is made of: steps that mean something in any state, so that any part of a sequence is one, too."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Step:
    """One step. `pick` are numbers that choose among what there is when the step is done."""

    name: str
    pick: tuple[int, ...]

    def one(self, number: int, of: int) -> int:
        """A number below `of`, chosen by `pick[number]`."""
        return self.pick[number] % max(of, 1)


class Wrong(Exception):
    """A run ended without an error and without all rows, or in a way that no reader may end."""


class World(Protocol):
    """What a sequence is played in."""

    def do(self, step: Step) -> str:
        """Do a step; returns what was done in a line, empty if nothing was. Raises Wrong."""

    def finish(self) -> str:
        """Look at everything once more at the end. Raises Wrong."""

    def close(self) -> None:
        """Leave nothing."""


class Kind(Protocol):
    """A kind of sequence: how its steps are drawn, and its world."""

    name: str

    def draw(self, chance: random.Random) -> list[Step]:
        """The steps of a sequence."""

    def world(self, folder: Path, number: int) -> World:
        """A fresh world in an empty folder."""

    def close(self) -> None:
        """End what its worlds share."""


def weighted(chance: random.Random, weights: dict[str, int], count: int) -> list[Step]:
    """Steps by the weights of their names."""
    names = chance.choices(list(weights), list(weights.values()), k=count)
    return [Step(name, tuple(chance.randrange(1 << 16) for _ in range(6))) for name in names]


@dataclass
class Heard:
    """What the pipeline logged in this thread."""

    lines: list[str] = field(default_factory=list)

    def says(self, text: str) -> bool:
        """Whether a line has this text."""
        return any(text in line for line in self.lines)


class _ByThread(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: dict[int, list[Heard]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        for heard in self.heard.get(threading.get_ident(), ()):
            heard.lines.append(record.getMessage())


_HANDLER = _ByThread()
_LOGGER = logging.getLogger("bolide.spark")


@contextmanager
def listen() -> Iterator[None]:
    """Keep what the pipeline logs in the block, for `hearing`, and do not show it."""
    before = _LOGGER.propagate
    _LOGGER.addHandler(_HANDLER)
    _LOGGER.propagate = False
    try:
        yield
    finally:
        _LOGGER.removeHandler(_HANDLER)
        _LOGGER.propagate = before


@contextmanager
def hearing() -> Iterator[Heard]:
    """The warnings of the block, in this thread."""
    heard = Heard()
    stack = _HANDLER.heard.setdefault(threading.get_ident(), [])
    stack.append(heard)
    try:
        yield heard
    finally:
        stack.remove(heard)


def listed(lines: Sequence[str]) -> str:
    """A numbered list."""
    return "\n".join(f"  {number:3} {line}" for number, line in enumerate(lines))
