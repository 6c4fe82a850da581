"""`make explore`: visits every state of a small replica set, or every order of steps of its elections."""

from __future__ import annotations

import argparse
import json
import sys
import time

from proof.exploration import elections
from proof.exploration.replicas import search
from proof.exploration.replicas.bounds import Bounds
from proof.kit.command_line import BROKEN, HELD, INTERRUPTED, Parser

SET = "set"
ELECTIONS = "elections"
ELECTIONS_DEPTH = 8


def main(arguments: list[str]) -> int:
    """Run; 0 if every promise holds, 1 if one is broken, 2 for a wrong argument, 130 after Ctrl-C."""
    parser = Parser("explore", "Visits every state of three replicas and their controllers within bounds.")
    limits = Bounds()
    parser.add_argument(
        "what",
        nargs="?",
        choices=(SET, ELECTIONS),
        default=SET,
        help="the replicas with the bytes that they exchange (default), or elections over a model of the logs",
    )
    parser.add_argument(
        "--depth", type=int, help=f"moves from the first state ({limits.depth}; {ELECTIONS_DEPTH} of elections)"
    )
    parser.add_argument("--sends", type=int, help=f"of a set: records that clients send ({limits.sends})")
    parser.add_argument("--faults", type=int, help=f"of a set: kills and changes of the controller ({limits.faults})")
    parser.add_argument("--losses", type=int, help=f"of a set: machines that return with less ({limits.losses})")
    parser.add_argument("--late", type=int, help=f"of a set: late questions for another set ({limits.late})")
    parser.add_argument(
        "--returning", action="store_true", help="of a set: start with a replica that is about to rejoin the set"
    )
    parser.add_json()
    wanted = parser.parse_args(arguments)
    given = {name: value for name in Bounds.__struct_fields__ if (value := getattr(wanted, name)) is not None}
    if wanted.what == ELECTIONS and (wanted.returning or given.keys() - {"depth"}):
        parser.error("elections have only --depth and --json")
    try:
        return _elections(wanted) if wanted.what == ELECTIONS else _set(Bounds(**given), wanted)
    except KeyboardInterrupt:
        print("\nstopped")
        return INTERRUPTED


def _set(bounds: Bounds, wanted: argparse.Namespace) -> int:
    began = time.monotonic()

    def progress(seen: search.Visited, width: int) -> None:
        if not wanted.json:
            took = time.monotonic() - began
            print(f"depth {seen.depth}: {seen.states:,} states, {width:,} new, {took:.0f} s", flush=True)

    seen = search.explore(bounds, progress, returning=wanted.returning)
    if wanted.json:
        figures = {"states": seen.states, "moves": seen.moves, "depth": seen.depth, "broken": bool(seen.finding)}
        print(json.dumps(figures))
    else:
        print(
            f"{seen.states:,} states by {seen.moves:,} moves to depth {seen.depth};"
            f" all machines stopped in {seen.full_stops:,}, two masters in {seen.masters:,}"
        )
        if seen.finding is not None:
            _tell(seen.finding.promise, seen.finding.trace)
    return HELD if seen.finding is None else BROKEN


def _elections(wanted: argparse.Namespace) -> int:
    """Explore with each of the rules: one line per rule with how often each rare step was taken."""
    status = HELD
    for name, rules in (
        ("waits for all members", elections.Rules(True)),
        ("knows what is confirmed", elections.Rules(False)),
    ):
        began = time.monotonic()
        seen = elections.explore(ELECTIONS_DEPTH if wanted.depth is None else wanted.depth, rules)
        if wanted.json:
            figures = {"rule": name, "states": seen.states, "depth": seen.depth, "broken": bool(seen.broken)}
            print(json.dumps(figures), flush=True)
        else:
            rare = ", ".join(f"{what} {count:,}" for what, count in sorted(seen.counts.items()))
            took = time.monotonic() - began
            print(f"{name}: {seen.states:,} states to a depth of {seen.depth}; {rare}; {took:.0f} s", flush=True)
            if seen.broken:
                _tell(seen.broken, seen.trace)
        status = BROKEN if seen.broken else status
    return status


def _tell(broken: str, trace: tuple[str, ...]) -> None:
    print(f"FAILED: {broken}")
    for number, text in enumerate(trace, 1):
        print(f"{number:4} {text}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
