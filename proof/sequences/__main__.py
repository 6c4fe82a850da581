"""`make sequences ARGS="--sequences N --seed S"`: random sequences for the Spark pipeline, each judged."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path

from proof.kit.command_line import BROKEN, HELD, Pace, Parser, folder_of, teller
from proof.sequences.kinds import ASKED, SHARES, kind_named
from proof.sequences.runner import Failure, Play, drawn, kept, play, save, shrunk, story
from proof.sequences.steps import Kind, listen

CORPUS = Path(__file__).with_name("corpus")
TELL_EVERY_S = 10.0
MOST_FAILURES = 20
tell = teller(as_json=True)  # progress, on standard error


class Tally:
    """What a run has done so far."""

    def __init__(self, seed: int, total: int) -> None:
        self.seed = seed
        self.total = total
        self.done: Counter[str] = Counter()
        self.steps = 0
        self.failures: list[Failure] = []
        self.left_over: list[tuple[Kind, int]] = []
        self._pace = Pace(TELL_EVERY_S)

    def take(self, kind: Kind, number: int, made: Play) -> None:
        """Count a sequence."""
        self.done[kind.name] += 1
        self.steps += len(made.said)
        if made.wrong:
            self.left_over.append((kind, number))
            tell(f"{kind.name} sequence {number} went wrong: {made.wrong}")
        if self._pace.due():
            done = self.done.total()
            rate = done / self.seconds
            left = (self.total - done) / rate
            tell(f"{done} of {self.total} sequences, {rate:.1f} a second, {left:.0f} s left, {self.wrong} wrong")

    @property
    def wrong(self) -> int:
        """Sequences that went wrong."""
        return len(self.left_over)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self._pace.seconds

    def verdict(self) -> str:
        """The last line."""
        done = ", ".join(f"{count} {name}" for name, count in sorted(self.done.items()))
        rate = self.done.total() / max(self.seconds, 0.001)
        text = f"{self.done.total()} sequences ({done}), {self.steps} steps, {self.seconds:.0f} s, {rate:.1f} a second"
        return f"{text}: {f'{self.wrong} WRONG' if self.wrong else 'all right'}"

    def as_json(self) -> str:
        """The figures."""
        figures = {
            "seed": self.seed, "sequences": dict(self.done), "steps": self.steps, "seconds": round(self.seconds, 1),
            "wrong": [[kind.name, number] for kind, number in self.left_over],
        }  # fmt: skip
        return json.dumps(figures)


def run(work: Iterator[tuple[Kind, int]], tally: Tally, folder: Path, threads: int) -> None:
    """Play sequences, some at once: much of a sequence is waiting for a broker or for the next poll."""
    waiting: dict[Future[Play], tuple[Kind, int]] = {}
    with ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                for kind, number in islice(work, threads - len(waiting)):
                    steps = list(enumerate(drawn(kind, tally.seed, number)))
                    waiting[pool.submit(play, kind, number, steps, folder)] = kind, number
                if not waiting or len(tally.left_over) >= MOST_FAILURES:
                    return
                for ready in wait(waiting, return_when=FIRST_COMPLETED).done:
                    kind, number = waiting.pop(ready)
                    tally.take(kind, number, ready.result())
        except KeyboardInterrupt:
            tell("interrupted: waiting for the sequences that have begun")
            for future in waiting:
                future.cancel()


def sequences(total: int, only: str) -> Iterator[tuple[Kind, int]]:
    """Kinds by their shares, each with its own numbers."""
    kinds = [kind_named(only)] if only else [kind_named(name) for name in SHARES]
    shares = {kind.name: 1 if only else SHARES[kind.name] for kind in kinds}
    whole = sum(shares.values())
    counts: Counter[str] = Counter()
    for number in range(total):
        # The kind that lacks most of its share.
        kind = max(kinds, key=lambda kind: shares[kind.name] * (number + 1) / whole - counts[kind.name])
        yield kind, counts[kind.name]
        counts[kind.name] += 1


def main(arguments: list[str] | None = None) -> int:
    """The command line; exit status 1 if a sequence went wrong."""
    parser = Parser("sequences", __doc__)
    parser.add_argument("--sequences", type=int, default=500, help="how many (500)")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (1)")
    parser.add_argument("--kind", default="", help=f"one of {', '.join(SHARES)}; all, by their shares")
    parser.add_argument("--only", type=int, help="play this sequence of the kind, and tell each step")
    parser.add_argument("--steps", default="", help="with --only: these of its steps, with commas")
    parser.add_argument("--save", type=Path, help="with --only: write the steps to this file of the corpus")
    parser.add_argument("--corpus", action="store_true", help="play the sequences that have found a fault")
    parser.add_argument("--threads", type=int, default=8, help="sequences at once (8): most of each is waiting")
    parser.add_json()
    given = parser.parse_args(arguments)
    with listen():
        return played(given)


def played(given: argparse.Namespace) -> int:
    """Do what the command line says."""
    folder = folder_of("sequences", None)
    tally = Tally(given.seed, 1 if given.only is not None else given.sequences)
    try:
        if given.corpus:
            return sum(corpus(path, folder) for path in sorted(CORPUS.glob("*.json"))) and 1
        if given.only is not None:
            return one(given, folder)
        run(sequences(given.sequences, given.kind), tally, folder, given.threads)
        for kind, number in tally.left_over:
            failure = shrunk(kind, given.seed, number, folder, tell)
            sys.stdout.write(story(failure, given.seed) + "\n")
            sys.stdout.flush()
    finally:
        for name in (*SHARES, *ASKED):
            kind_named(name).close()
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write((tally.as_json() if given.json else tally.verdict()) + "\n")
    return BROKEN if tally.wrong else HELD


def one(given: argparse.Namespace, folder: Path) -> int:
    """Play one sequence, or some of its steps, and tell everything."""
    kind, number = kind_named(given.kind or "store"), given.only
    steps = list(enumerate(drawn(kind, given.seed, number)))
    wanted = {int(word) for word in given.steps.split(",")} if given.steps else {place for place, _ in steps}
    steps = [(place, step) for place, step in steps if place in wanted]
    made = play(kind, number, steps, folder)
    sys.stdout.write(story(Failure(kind.name, number, sorted(wanted), made), given.seed) + "\n")
    if given.save:
        save(given.save, kind.name, number, [step for _, step in steps])
    return 1 if made.wrong else 0


def corpus(path: Path, folder: Path) -> int:
    """Play a sequence of the corpus; 1 if it goes wrong."""
    name, number, steps = kept(path)
    made = play(kind_named(name), number, list(enumerate(steps)), folder)
    sys.stdout.write(f"{path.stem}: {made.wrong or 'right'}\n")
    return 1 if made.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
