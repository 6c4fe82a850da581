"""`make explore`: visits every state of a small replica set and prints what it saw."""

from __future__ import annotations

import json
import sys
import time

from proof.exploration.replicas.bounds import Bounds
from proof.exploration.replicas.search import Visited, explore
from proof.kit.command_line import BROKEN, HELD, INTERRUPTED, Parser


def main(arguments: list[str]) -> int:
    """Run; 0 if every promise holds, 1 if one is broken, 2 for a wrong argument, 130 after Ctrl-C."""
    parser = Parser("explore", "Visits every state of three replicas and their controllers within bounds.")
    limits = Bounds()
    parser.add_argument("--depth", type=int, default=limits.depth, help=f"moves from the first state ({limits.depth})")
    parser.add_argument("--sends", type=int, default=limits.sends, help=f"records that clients send ({limits.sends})")
    parser.add_argument(
        "--faults", type=int, default=limits.faults, help=f"kills and changes of the controller ({limits.faults})"
    )
    parser.add_argument(
        "--losses", type=int, default=limits.losses, help=f"machines that return with less ({limits.losses})"
    )
    parser.add_json()
    wanted = parser.parse_args(arguments)
    began = time.monotonic()

    def progress(seen: Visited, width: int) -> None:
        if not wanted.json:
            took = time.monotonic() - began
            print(f"depth {seen.depth}: {seen.states:,} states, {width:,} new, {took:.0f} s", flush=True)

    try:
        seen = explore(Bounds(wanted.depth, wanted.sends, wanted.faults, wanted.losses), progress)
    except KeyboardInterrupt:
        print("\nstopped")
        return INTERRUPTED
    if wanted.json:
        figures = {"states": seen.states, "moves": seen.moves, "depth": seen.depth, "broken": bool(seen.finding)}
        print(json.dumps(figures))
    else:
        print(
            f"{seen.states:,} states by {seen.moves:,} moves to depth {seen.depth};"
            f" all machines stopped in {seen.full_stops:,}, two masters in {seen.masters:,}"
        )
        if seen.finding is not None:
            print(f"FAILED: {seen.finding.promise}")
            for number, text in enumerate(seen.finding.trace, 1):
                print(f"{number:4} {text}")
    return HELD if seen.finding is None else BROKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
