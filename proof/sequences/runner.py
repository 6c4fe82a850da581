"""Draws sequences from a seed, plays them, and shrinks the one that fails until no step can be left out."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proof.sequences.steps import Kind, Step, Wrong, listed

MOST_TRIES = 300
"""Plays that shrinking may cost."""
_SORTS = (
    "no error", "came twice", "came as another", "crashed with", "without a reason", "names no place", "finds nothing",
)  # fmt: skip
"""What tells one sort of failure from another: a shorter sequence must fail in the same way."""


@dataclass
class Play:
    """How a sequence went."""

    said: list[str] = field(default_factory=list)
    """A line for each step that did something, and `number` of the step."""
    wrong: str = ""
    numbers: list[int] = field(default_factory=list)


@dataclass
class Failure:
    """A sequence that went wrong, as short as it could be made."""

    kind: str
    number: int
    steps: list[int]
    play: Play


def drawn(kind: Kind, seed: int, number: int) -> list[Step]:
    """The steps of a sequence: the same for the same seed and number, on every machine."""
    return kind.draw(random.Random(f"{seed}:{kind.name}:{number}"))


def kept(path: Path) -> tuple[str, int, list[Step]]:
    """A sequence that was saved: its kind, its number, its steps."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["kind"], found["number"], [Step(name, tuple(pick)) for name, pick in found["steps"]]


def save(path: Path, kind: str, number: int, steps: Sequence[Step]) -> None:
    """Keep a sequence: it does not change when sequences are drawn in another way."""
    values = {"kind": kind, "number": number, "steps": [[step.name, list(step.pick)] for step in steps]}
    path.write_text(json.dumps(values) + "\n", encoding="utf-8")


def play(kind: Kind, number: int, steps: Sequence[tuple[int, Step]], folder: Path) -> Play:
    """Play some steps of a sequence in a fresh world."""
    made = Play()
    home = Path(tempfile.mkdtemp(prefix="sequence-", dir=folder))
    world = None
    try:
        world = kind.world(home, number)
        for place, step in steps:
            made.numbers.append(place)
            made.said.append(f"{step.name}: (it ended here)")
            made.said[-1] = world.do(step)
        made.numbers.append(-1)
        made.said.append("(it ended here)")
        made.said[-1] = world.finish()
    except Wrong as wrong:
        made.wrong = str(wrong)
        if wrong.__cause__ is not None:
            made.wrong += "\n" + "".join(traceback.format_exception(wrong.__cause__)[-6:])
    except (AssertionError, OSError) as error:
        made.wrong = f"the world crashed with {type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"
    finally:
        if world is not None:
            world.close()
        shutil.rmtree(home, ignore_errors=True)
    return made


def sort_of(wrong: str) -> str:
    """Its sort."""
    return next((sort for sort in _SORTS if sort in wrong), "")


def shrunk(kind: Kind, seed: int, number: int, folder: Path, tell: Callable[[str], None]) -> Failure:
    """The shortest part of a sequence that still fails, by delta debugging over its steps."""
    whole = list(enumerate(drawn(kind, seed, number)))
    best = play(kind, number, whole, folder)
    kept = whole
    tries, pieces = 0, 2
    while len(kept) > 1 and tries < MOST_TRIES:
        size = -(-len(kept) // pieces)
        shorter = False
        for begin in range(0, len(kept), size):
            fewer = kept[:begin] + kept[begin + size :]
            tries += 1
            again = play(kind, number, fewer, folder)
            if again.wrong and sort_of(again.wrong) == sort_of(best.wrong):
                kept, best, shorter = fewer, again, True
                pieces = max(pieces - 1, 2)
                break
        if not shorter:
            if size == 1:
                break
            pieces = min(pieces * 2, len(kept))
    tell(f"shrunk from {len(whole)} steps to {len(kept)} in {tries} plays")
    return Failure(kind.name, number, [place for place, _ in kept], best)


def story(failure: Failure, seed: int) -> str:
    """What happened, as a person reads it, and the command that plays it again."""
    lines = [said for said in failure.play.said if said]
    steps = ",".join(map(str, failure.steps))
    command = f'make sequences ARGS="--seed {seed} --kind {failure.kind} --only {failure.number} --steps {steps}"'
    title = f"{failure.kind} sequence {failure.number} of seed {seed}:"
    return f"{title}\n{listed(lines)}\n  wrong: {failure.play.wrong or 'nothing'}\n  again: {command}"
