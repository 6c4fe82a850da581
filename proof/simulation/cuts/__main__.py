"""`python -m proof.simulation.cuts --cuts N --seed S`: power cuts at random calls, and what was wrong after them."""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from proof.simulation.cuts.every_call import cases, problems_of
from proof.simulation.cuts.life import Life, Result

PROGRESS_S = 10.0


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 when nothing was wrong, 1 with the life that was."""
    parser = argparse.ArgumentParser(prog="python -m proof.simulation.cuts", description=__doc__)
    parser.add_argument("--cuts", type=int, default=1_000, help="power cuts in all (default 1000)")
    parser.add_argument("--seed", default="", help="what decides everything (default: a new one)")
    parser.add_argument("--life", type=int, help="live only this life of the seed, and print its trace")
    parser.add_argument("--every-call", type=int, metavar="N", help="a fault at every call instead, or at one of N")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args(arguments)
    seed = chosen.seed or str(time.time_ns() % 1_000_000_007)
    with _silent():
        if chosen.every_call is not None:
            return _every_call(chosen.every_call, seed)
        if chosen.life is not None:
            return _one(seed, chosen.life)
        return _many(seed, chosen.cuts, chosen.json)


@contextmanager
def _silent() -> Iterator[None]:
    """Keep the warnings of brokers that lose their power out of what this prints."""
    log = logging.getLogger("bolide")
    handler, propagates = logging.NullHandler(), log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates


def _one(seed: str, number: int) -> int:
    life = Life(f"{seed}/{number}")
    life.trace()
    result = life.run()
    print("\n".join(result.trace))
    print("\n".join(result.problems) or "nothing is wrong")
    return 1 if result.problems else 0


def _every_call(step: int, seed: str) -> int:
    """Every case of `every_call`, or one of so many."""
    done = failed = 0
    told = time.monotonic()
    try:
        for case in cases(max(step, 1), random.Random(seed)):
            found = problems_of(case)
            if found is None:
                continue
            done += 1
            failed += bool(found)
            for problem in found[:3]:
                print(f"{case}: {problem[:300]}", file=sys.stderr)
            if time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                print(f"{done} cases, {failed} failed, now {case.scenario}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped early")
    print(f"{done} faults, {failed} with a wrong end")
    return 1 if failed else 0


def _many(seed: str, cuts: int, as_json: bool) -> int:
    total = Result()
    began = told = time.monotonic()
    lives = failed = 0
    stopped = False
    try:
        while total.cuts < cuts:
            result = Life(f"{seed}/{lives}").run()
            if result.problems:
                failed += 1
                print(f"life {lives}: {len(result.problems)} problems after {result.cuts} cuts", file=sys.stderr)
                for problem in result.problems[:5]:
                    print(f"    {problem[:300]}", file=sys.stderr)
                print(f"    again: python -m proof.simulation.cuts --seed {seed} --life {lives}", file=sys.stderr)
            lives += 1
            _add(total, result)
            if time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                print(f"{total.cuts} cuts in {told - began:.0f} s, {failed} of {lives} lives failed", file=sys.stderr)
    except KeyboardInterrupt:
        stopped = True
    seconds = time.monotonic() - began
    figures = {
        "seed": seed,
        "cuts": total.cuts,
        "cuts_in_recovery": total.in_recovery,
        "kills": total.kills,
        "stops": total.stops,
        "lives": lives,
        "messages": total.messages,
        "failed_lives": failed,
        "seconds": round(seconds, 1),
    }
    if as_json:
        print(json.dumps(figures))
    else:
        print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items()))
        print("stopped early" if stopped else "FAILED" if failed else "nothing was lost, doubled or made up")
    return 1 if failed else 0


def _add(total: Result, one: Result) -> None:
    total.cuts += one.cuts
    total.in_recovery += one.in_recovery
    total.kills += one.kills
    total.stops += one.stops
    total.messages += one.messages


if __name__ == "__main__":
    raise SystemExit(main())
