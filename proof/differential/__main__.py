"""`make differential`: random requests to Bolide and to RocketMQ 5.5.0 until their answers or effects differ."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from proof.differential.compare import generalised
from proof.differential.generate import sequence
from proof.differential.listed import Entry, load
from proof.differential.run import Found, Outcome, Run, shrunk
from proof.differential.sides import Answer, clusters
from proof.differential.steps import Step, plainer, to_json
from proof.differential.steps import load as load_steps
from proof.kit.command_line import BROKEN, HELD, Pace, Parser, interrupted_once, new_seed, teller

CORPUS: Final = Path(__file__).with_name("corpus")
REPORT_SECONDS: Final = 20.0
_tell = teller(as_json=True)  # progress, on standard error


class Totals:
    """What a run has done so far."""

    def __init__(self, entries: list[Entry]) -> None:
        self.pace = Pace(REPORT_SECONDS)
        self.sequences = self.requests = self.probes = 0
        self.ended: Counter[str] = Counter()
        self.hits: Counter[str] = Counter({entry.name: 0 for entry in entries})
        self.unlisted: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def add(self, outcome: Outcome) -> None:
        """Count a sequence."""
        self.sequences += 1
        self.requests += outcome.asked
        self.probes += outcome.probed
        self.hits.update(outcome.hits)
        if outcome.ended:
            self.ended[outcome.ended] += 1

    def report(self) -> None:
        """A line of progress, now and then."""
        if self.pace.due():
            _tell(f"{self.pace.seconds:6.0f} s  {self}")

    def __str__(self) -> str:
        return (
            f"{self.requests} requests in {self.sequences} sequences, {self.probes} looks at the effects, "
            f"{sum(self.hits.values())} listed differences"
        )


def main() -> int:
    """Run, and say what was found."""
    arguments = _arguments()
    seed = str(new_seed()) if arguments.seed is None else arguments.seed
    entries = load()
    totals = Totals(entries)
    failed = False
    with interrupted_once(), _folder(arguments.folder) as folder:
        try:
            with clusters(folder) as (ours, java):
                on_step = _trace if arguments.trace else None
                run = Run(ours, java, entries, "s", counting=arguments.all, on_step=on_step)
                failed = _sequences(arguments, seed, run, totals)
        except KeyboardInterrupt:
            _tell("interrupted: what follows is what was done so far")
    _say(arguments, seed, totals, failed)
    return BROKEN if failed or totals.unlisted else HELD


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Where the clusters have their stores and logs."""
    if kept is not None:
        kept.mkdir(parents=True)
        yield kept
        return
    with TemporaryDirectory(prefix="bolide-differential-") as folder:
        yield Path(folder)


def _arguments() -> argparse.Namespace:
    parser = Parser("differential", __doc__)
    parser.add_argument("--requests", type=int, default=2000, help="how many requests at least (2000)")
    parser.add_seed("where the sequences come from", str)
    parser.add_argument("--first", type=int, default=0, help="number of the first sequence of the seed (0)")
    parser.add_argument("--replay", type=Path, nargs="*", default=[], help="run the sequences of these files instead")
    parser.add_argument("--corpus", action="store_true", help="run the sequences of the corpus instead")
    parser.add_argument("--all", action="store_true", help="count all unlisted differences; do not stop at the first")
    parser.add_argument("--folder", type=Path, help="keep stores and logs of both clusters in this new folder")
    parser.add_argument("--trace", action="store_true", help="print every request with both answers")
    parser.add_json()
    return parser.parse_args()


def _trace(step: Step, ours: Answer, java: Answer) -> None:
    said = [each if isinstance(each, str) else f"{each.code} {(each.remark or '')[:60]!r}" for each in (ours, java)]
    print(f"{_asked(step)}\n      Bolide {said[0]}, RocketMQ {said[1]}")


def _sequences(arguments: argparse.Namespace, seed: str, run: Run, totals: Totals) -> bool:
    files = sorted(CORPUS.glob("*.json")) if arguments.corpus else arguments.replay
    if files:
        failures = [_one(arguments, load_steps(file), f"--replay {file}", run, totals) for file in files]
        return any(failures)
    number = arguments.first
    while totals.requests < arguments.requests:
        failed = _one(arguments, sequence(f"{seed}/{number}"), f"--seed {seed} --first {number}", run, totals)
        if failed:
            return True
        number += 1
        totals.report()
    return False


def _one(arguments: argparse.Namespace, steps: list[Step], words: str, run: Run, totals: Totals) -> bool:
    outcome = run.sequence(steps)
    totals.add(outcome)
    found = outcome.found
    if arguments.all:
        for one in [*outcome.others, *([found] if found else [])]:
            for each in one.differences:
                key = f"{one.step.server} {one.step.code} {generalised(each.at)}"
                if each.at == "code":
                    key += f" {each.ours.split()[0]} for {each.java.split()[0]}"
                totals.unlisted[key] += 1
                totals.examples.setdefault(key, f"{words}\n      {_asked(one.step)}\n      {each}")
        return False
    if found is None:
        return False
    print(f'\nunlisted difference: make differential ARGS="--requests 1 {words}"\n{told(found)}')
    fewer = _shrink(steps, found, run)
    last = run.sequence(fewer).found
    path = Path("differential-found.json")
    path.write_text(to_json(fewer), encoding="utf-8")
    print(f"\nThe shortest sequence that shows it has {len(fewer)} requests:")
    for step in fewer:
        print(f"  {_asked(step)}")
    print(told(last or found))
    print(f'\nreplay: make differential ARGS="--replay {path}"')
    return True


def _shrink(steps: list[Step], found: Found, run: Run) -> list[Step]:
    """The steps and fields that the difference needs."""
    wanted = {generalised(each.at) for each in found.differences}, found.step.code

    def fails(fewer: list[Step]) -> bool:
        again = run.sequence(fewer).found
        return (
            again is not None
            and again.step.code == wanted[1]
            and bool(wanted[0] & {generalised(each.at) for each in again.differences})
        )

    if not fails(steps):
        print("It does not show a second time: the sequence is printed as it was.")
        return steps
    fewer = shrunk(steps, fails)
    changed = True
    while changed:
        changed = False
        for place, step in enumerate(fewer):
            for plain in plainer(step):
                tried = [*fewer[:place], plain, *fewer[place + 1 :]]
                if fails(tried):
                    fewer, changed = tried, True
                    break
    return fewer


def _asked(step: Step) -> str:
    ext = "" if step.ext is None else " ".join(f"{name}={value[:60]!r}" for name, value in step.ext.items())
    body = f" body {step.body[:300]!r}" if step.body else ""
    odd = f" form {step.form} {step.language} {step.version} connection {step.connection}"
    return f"{step.number} {step.server} {step.code}: {ext}{body}{odd}{' oneway' if step.oneway else ''}"


def _answered(answer: Answer) -> str:
    if isinstance(answer, str):
        return answer
    return f"code {answer.code} remark {answer.remark!r} {answer.ext} body {answer.body[:400]!r}"


def told(found: Found) -> str:
    """The request, both answers, and what differs."""
    lines = [f"  request   {_asked(found.step)}", f"  Bolide    {_answered(found.ours)}"]
    lines.append(f"  RocketMQ  {_answered(found.java)}")
    return "\n".join([*lines, *(f"  differs   {each}" for each in found.differences[:12])])


def _say(arguments: argparse.Namespace, seed: str, totals: Totals, failed: bool) -> None:
    seconds = totals.pace.seconds
    for key, count in totals.unlisted.most_common():
        print(f"{count:6}  {key}\n      {totals.examples[key]}")
    verdict = "DIFFERENT" if failed or totals.unlisted else "EQUAL"
    if arguments.json:
        figures = {"seed": seed, "verdict": verdict, "seconds": round(seconds), "requests": totals.requests}
        figures |= {"sequences": totals.sequences, "probes": totals.probes, "listed": dict(totals.hits)}
        print(json.dumps({**figures, "ended": dict(totals.ended)}, indent=1))
        return
    print(f"\n{verdict}: {totals}; seed {seed}, {seconds:.0f} s")
    for name, count in totals.hits.most_common():
        print(f"{count:6}  {name}")


if __name__ == "__main__":
    sys.exit(main())
