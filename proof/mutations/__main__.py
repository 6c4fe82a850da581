"""`make mutations`: inject listed bugs one at a time into a copy of the sources, and let their judge notice them."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from proof.kit.command_line import BROKEN, HELD, Parser, new_seed
from proof.mutations.bench import Bench, Judge
from proof.mutations.mutation import SOURCES, Mutation, MutationError, mutations, sample


def chosen_from(listed: list[Mutation], wanted: argparse.Namespace) -> list[Mutation]:
    """Return the mutations that the options select. Raises `MutationError` if one does not fit."""
    chosen = [mutation for mutation in listed if bool(mutation.promises) is wanted.known_faults]
    chosen = [mutation for mutation in chosen if wanted.only in mutation.title]
    if not chosen:
        raise MutationError(f"no mutation has {wanted.only!r} in its title")
    if wanted.sample is not None:
        seed = new_seed() if wanted.seed is None else wanted.seed
        count = len(chosen)
        chosen = sample(chosen, wanted.sample, seed)
        print(f"{len(chosen)} of {count} mutations, drawn by --sample {wanted.sample} --seed {seed}", flush=True)
    misfits = []
    for mutation in chosen:
        try:
            mutation.applied_to(SOURCES)
        except MutationError as error:
            misfits.append(str(error))
    if misfits:
        raise MutationError("\n".join(misfits))
    return chosen


def run(chosen: list[Mutation], judge: Judge, workers: int) -> list[Mutation]:
    """Inject the mutations and print the results. Returns the survivors. Raises `MutationError` without a result."""
    survivors: list[Mutation] = []
    with Bench(min(workers, len(chosen)), judge.copied) as bench:
        judge.prepare(bench, chosen)
        for count, done in enumerate(bench.run(map(judge.job, chosen), judge.limit), 1):
            mutation = done.job.mutation
            assert mutation is not None
            try:
                noticed = judge.noticed(done)
            except MutationError as error:
                raise MutationError(f"{mutation.title}: {error}") from None
            if not noticed:
                survivors.append(mutation)
            result = "noticed " if noticed else "SURVIVED"
            place = f"{count:{len(str(len(chosen)))}}/{len(chosen)}"
            print(f"{place}  {result}  {done.seconds:5.1f} s  {mutation.title}{judge.details(done)}", flush=True)
    return survivors


def show(chosen: list[Mutation], survivors: list[Mutation], seconds: float) -> None:
    """Print a table by room, the rate, and the survivors by title."""

    def room(mutation: Mutation) -> str:
        return mutation.title.partition(":")[0].partition("/")[0]

    every, left = Counter(map(room, chosen)), Counter(map(room, survivors))
    width = max(map(len, every))
    print(f"\n{'room':{width}}  mutations  noticed")
    for name, count in every.items():
        print(f"{name:{width}}  {count:9}  {count - left[name]:7}")
    noticed = len(chosen) - len(survivors)
    print(f"{'all':{width}}  {len(chosen):9}  {noticed:7}  {noticed / len(chosen):.1%} in {seconds:.0f} s")
    for mutation in survivors:
        print(f"survived: {mutation.title} ({', '.join(mutation.tests or mutation.promises)})")


def main(arguments: list[str]) -> int:
    """Run the command line. Returns 0 if enough mutations are noticed, otherwise 1; wrong arguments exit with 2.

    The result is also 1 if a mutation does not fit the sources, or if a test fails without any mutation.
    """
    parser = Parser(
        "mutations",
        "Injects known bugs into copies of the sources, one at a time. At least 95 of 100 must make one of their\n"
        "tests fail. With --known-faults the simulation must find every known fault.",
    )
    parser.add_argument("--only", default="", help="only titles (file and name) that contain this text")
    parser.add_argument("--sample", type=int, metavar="COUNT", help="draw this number of mutations")
    parser.add_seed("seed of the sample")
    parser.add_argument("--workers", type=int, default=2, help="number of copies in use at a time (2)")
    parser.add_argument(
        "--known-faults", action="store_true", help="inject the known faults, which simulated seeds must find"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="with --known-faults: minutes per fault (10)")
    parser.add_argument("--corpus", action="store_true", help="with --known-faults: run the corpus's plans instead")
    wanted = parser.parse_args(arguments)
    if wanted.seed is not None and wanted.sample is None:
        parser.error("--seed draws a sample: add --sample COUNT")
    if wanted.corpus and not wanted.known_faults:
        parser.error("--corpus finds known faults: add --known-faults")
    began = time.monotonic()
    judge: Judge
    if wanted.known_faults:
        from proof.mutations.by_seeds import Seeds

        judge = Seeds(None if wanted.corpus else wanted.minutes)
    else:
        from proof.mutations.by_tests import Tests

        judge = Tests()
    try:
        chosen = chosen_from(mutations(), wanted)
        survivors = run(chosen, judge, wanted.workers)
    except MutationError as error:
        print(f"mutations: {error}", file=sys.stderr)
        return BROKEN
    show(chosen, survivors, time.monotonic() - began)
    if judge.broken:
        print(f"{len(judge.broken)} tests fail without a mutation: {', '.join(judge.broken)}")
    return HELD if not judge.broken and len(survivors) <= (1 - judge.enough) * len(chosen) else BROKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
