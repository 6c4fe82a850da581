"""What a target is: a plain function of bytes that returns for every input, and the limits it is held to.

A target calls the code under test, lets the errors pass that its docstrings declare, and raises `Broken` where
something holds that must not. Whatever else leaves it is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB


class Broken(Exception):
    """A property does not hold: the text says which, and for what."""


def nothing() -> None:
    """The end of a target that keeps nothing open."""


@dataclass(frozen=True)
class Limits:
    """What one call may take. The defaults fit a decoder that reads its input a few times."""

    seconds: float = 20.0
    """An alarm for what hangs; so generous that a busy machine does not set it off."""
    memory: int = 4 * MIB
    memory_per_byte: int = 400
    """Peak of what Python allocates in a call: `memory` plus so much for each byte of the input."""
    steps: int = 40_000
    steps_per_byte: int = 120
    """Lines of Python run in a call, counted, so that the limit is the same on every machine. 0 steps: not counted."""


@dataclass(frozen=True)
class Target:
    """One target by name. `seeds` are good inputs to begin with, from vectors, golden stores and small examples."""

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    limits: Limits = field(default_factory=Limits)
    largest: int = 4096
    """Bytes of the longest input that is made up; a stored one may be longer."""
    words: tuple[bytes, ...] = ()
    """Pieces of the input's language, put in whole."""
    cost: float = 1.0
    """How many times longer than a decoder one call takes: the short run makes so many fewer of them."""
    close: Callable[[], None] = nothing
    """Ends what the target keeps open between calls."""
