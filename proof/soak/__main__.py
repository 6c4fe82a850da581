"""`make soak`: steady mixed traffic with everything switched on, and whether anything grows.

A name server, a broker and three processes of clients run for some hours at a steady rate. Memory, descriptors,
threads, objects, loop times, disk use, lateness and lag are sampled; the run is good if each series is flat and each
acknowledged message was consumed. Ctrl-C ends the traffic early and writes the page with what was measured.

    make soak ARGS="--hours 8 --rate 100"
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from proof.kit.command_line import BROKEN, HELD, Parser, teller
from proof.soak.run import Plan, Result, Soak, linux

HOURS, RATE = 1.0, 25.0
EVERY_S = 10.0
LONGEST_WARM_UP_S = 900.0
KEEP_S = 240.0
TERMINAL_S, PIPE_S = 10.0, 60.0
QUICK_S = 300.0
"""A quick run ends when everything has flowed; this is when it gives up."""
QUICK_RATE = 40.0


def plan_of(arguments: list[str]) -> Plan:
    """The plan that the command line asks for."""
    parser = Parser("soak", __doc__)
    parser.add_argument("--hours", type=float, default=HOURS, help="how long (1)")
    parser.add_argument("--rate", type=float, default=RATE, help="messages a second, of all kinds (25)")
    parser.add_argument("--every", type=float, default=EVERY_S, help="seconds between samples (10)")
    parser.add_argument("--warm-up", type=float, help="minutes that are not judged (a quarter, at most 15)")
    parser.add_argument("--keep", type=float, default=KEEP_S, help="seconds that log files are kept for (240)")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"), help="where everything goes (build/soak)")
    parser.add_argument("--quick", action="store_true", help="end as soon as each kind of traffic has flowed")
    given = parser.parse_args(arguments)
    if not (given.hours > 0 and given.rate > 0 and given.every > 0):
        parser.error("--hours, --rate and --every have to be above 0")
    folder = given.folder.resolve()
    command = " ".join(["python -m proof.soak", *arguments])
    if given.quick:
        rate = given.rate if given.rate != RATE else QUICK_RATE
        return Plan(folder, QUICK_S, rate, 1.0, QUICK_S, 4.0, True, command)
    seconds = given.hours * 3600
    warm_up = given.warm_up * 60 if given.warm_up is not None else min(seconds / 4, LONGEST_WARM_UP_S)
    return Plan(folder, seconds, given.rate, given.every, warm_up, given.keep, False, command)


def soak(plan: Plan) -> Result:
    """Run a plan in a fresh folder, with progress on standard output."""
    shutil.rmtree(plan.folder, ignore_errors=True)
    plan.folder.mkdir(parents=True)
    said_every = TERMINAL_S if sys.stdout.isatty() else PIPE_S

    async def run() -> Result:
        return await Soak(plan, teller(as_json=False), said_every).run()

    return asyncio.run(run())


def main(arguments: list[str]) -> int:
    """Run a soak; the exit status."""
    linux()
    plan = plan_of(arguments)
    result = soak(plan)
    print(f"{'good' if result.good else 'BAD'}: {result.verdict}")
    print(f"page: {result.page}")
    return HELD if result.good else BROKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
