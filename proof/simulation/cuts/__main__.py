"""`make cuts ARGS="--cuts N --seed S"`: power cuts at random calls, and what was wrong after them."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager

from proof.kit.command_line import BROKEN, HELD, Pace, Parser, new_seed, teller
from proof.simulation.cuts.every_call import cases, problems_of
from proof.simulation.cuts.life import Life, Result

PROGRESS_S = 10.0
_tell = teller(as_json=True)  # progress, on standard error


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 when nothing was wrong, 1 with the life that was."""
    parser = Parser("cuts", __doc__)
    parser.add_argument("--cuts", type=int, default=1_000, help="power cuts in all (default 1000)")
    parser.add_seed("what decides everything", str)
    parser.add_argument("--life", type=int, help="live only this life of the seed, and print its trace")
    parser.add_argument("--every-call", type=int, metavar="N", help="a fault at every call instead, or at one of N")
    parser.add_json()
    chosen = parser.parse_args(arguments)
    seed = chosen.seed or str(new_seed())
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
    return BROKEN if result.problems else HELD


def _every_call(step: int, seed: str) -> int:
    """Every case of `every_call`, or one of so many."""
    done = failed = 0
    pace = Pace(PROGRESS_S)
    try:
        for case in cases(max(step, 1), random.Random(seed)):
            found = problems_of(case)
            if found is None:
                continue
            done += 1
            failed += bool(found)
            for problem in found[:3]:
                _tell(f"{case}: {problem[:300]}")
            if pace.due():
                _tell(f"{done} cases, {failed} failed, now {case.scenario}")
    except KeyboardInterrupt:
        print("stopped early")
    print(f"{done} faults, {failed} with a wrong end")
    return BROKEN if failed else HELD


def _many(seed: str, cuts: int, as_json: bool) -> int:
    total = Result()
    pace = Pace(PROGRESS_S)
    lives = failed = 0
    stopped = False
    try:
        while total.cuts < cuts:
            result = Life(f"{seed}/{lives}").run()
            if result.problems:
                failed += 1
                _tell(f"life {lives}: {len(result.problems)} problems after {result.cuts} cuts")
                for problem in result.problems[:5]:
                    _tell(f"    {problem[:300]}")
                _tell(f"    again: make cuts ARGS='--seed {seed} --life {lives}'")
            lives += 1
            _add(total, result)
            if pace.due():
                _tell(f"{total.cuts} cuts in {pace.seconds:.0f} s, {failed} of {lives} lives failed")
    except KeyboardInterrupt:
        stopped = True
    figures = {
        "seed": seed,
        "cuts": total.cuts,
        "cuts_in_recovery": total.in_recovery,
        "kills": total.kills,
        "stops": total.stops,
        "lives": lives,
        "messages": total.messages,
        "failed_lives": failed,
        "seconds": round(pace.seconds, 1),
    }
    if as_json:
        print(json.dumps(figures))
    else:
        print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items()))
        print("stopped early" if stopped else "FAILED" if failed else "nothing was lost, doubled or made up")
    return BROKEN if failed else HELD


def _add(total: Result, one: Result) -> None:
    total.cuts += one.cuts
    total.in_recovery += one.in_recovery
    total.kills += one.kills
    total.stops += one.stops
    total.messages += one.messages


if __name__ == "__main__":
    raise SystemExit(main())
