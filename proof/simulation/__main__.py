"""`make simulate`: run seeds until enough is simulated, make a failing one small, and say how to repeat it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from proof.kit.command_line import BROKEN, HELD, INTERRUPTED, Parser
from proof.simulation import campaign
from proof.simulation.rare_places import LEAST, LONG
from proof.simulation.swarm import KINDS


def main(arguments: list[str]) -> int:
    """Run; 0 if all went well, 1 if a promise was broken, 2 for a wrong argument, 130 after Ctrl-C."""
    about = "Simulates clusters under faults, each from one seed, and holds them against the ledger."
    parser = Parser("simulate", about)
    parser.add_seed("first seed")
    parser.add_argument("--seeds", type=int, help="how many seeds")
    parser.add_argument("--among", choices=KINDS, help="of these seeds only those with such brokers")
    parser.add_argument("--two-in-sync", action="store_true", help="of these only those with inSyncReplicas = 2")
    parser.add_argument("--hours", type=float, help="simulated hours to reach")
    parser.add_argument("--cuts", type=int, help="losses of power to reach")
    parser.add_argument("--minutes", type=float, help="minutes to take at most")
    parser.add_argument("--seconds", type=float, help="simulated seconds of each seed (default: the seed decides)")
    parser.add_argument("--plan", type=Path, help="run the plan in this file, not seeds")
    parser.add_argument("--story", action="store_true", help="print what happened")
    parser.add_argument("--keep-going", action="store_true", help="after a failure continue with the next seed")
    parser.add_argument("--no-shrink", action="store_true", help="leave a failing plan as it is")
    parser.add_argument("--shrink-runs", type=int, default=300, help="runs to make a failing plan small (300)")
    parser.add_argument(
        "--rare",
        type=int,
        metavar="TIMES",
        help=f"fail if a rare place was reached fewer times (default: {LEAST} after {LONG} seeds that can reach it)",
    )
    parser.add_argument("--corpus", action="store_true", help="run the old failures of corpus.toml")
    parser.add_argument("--only", default="", help="with --corpus: only names that contain this text")
    parser.add_json()
    wanted = parser.parse_args(arguments)
    try:
        outcome = campaign.run(wanted)
    except KeyboardInterrupt:
        print("\nstopped")
        return INTERRUPTED
    if wanted.json:
        print(json.dumps(outcome.figures()))
    return BROKEN if outcome.failed or outcome.missed else HELD


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
