"""`python -m proof.exploration --depth 10`: every order of steps of a replica set, with the controller's own decisions.

One line per rule: states, depth, and how often each rare step was taken. A fault ends the run with exit code 1 and the
steps that lead to it.
"""

from __future__ import annotations

import sys
import time

from proof.exploration.elections import Rules, explore
from proof.kit.command_line import BROKEN, HELD, Parser


def main(arguments: list[str] | None = None) -> int:
    """Explore, and print what was seen."""
    parser = Parser("exploration", __doc__)
    parser.add_argument("--depth", type=int, default=8, help="steps from the first state (default: 8)")
    given = parser.parse_args(arguments)
    status = HELD
    for name, rules in (("waits for all members", Rules(True)), ("knows what is confirmed", Rules(False))):
        begun = time.monotonic()
        seen = explore(given.depth, rules)
        rare = ", ".join(f"{what} {count:,}" for what, count in sorted(seen.counts.items()))
        seconds = time.monotonic() - begun
        print(f"{name}: {seen.states:,} states to a depth of {seen.depth}; {rare}; {seconds:.0f} s", flush=True)
        if seen.broken:
            print(f"  broken: {seen.broken}")
            print("".join(f"    {step}\n" for step in seen.trace), end="")
            status = BROKEN
    return status


if __name__ == "__main__":
    sys.exit(main())
