"""`make chaos`: sets of brokers behind proxies, faults for some minutes, and a verdict.

Exit status 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from proof.attack.__main__ import summary
from proof.attack.fault_shim import NoCompiler, library
from proof.attack.run import room_for_descriptors
from proof.attack.verdict import Verdict
from proof.chaos.controlled import ControlledRun
from proof.chaos.controlled_faults import faults_of
from proof.chaos.faults import FAULTS
from proof.chaos.run import ChaosRun, Plan


def plan_of(arguments: list[str]) -> tuple[Plan, bool, bool]:
    """The plan, whether to print JSON, and whether to keep the folder in any case."""
    parser = argparse.ArgumentParser("python -m proof.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long faults happen (default: 2)")
    parser.add_argument("--seed", type=int, help="repeat the faults of an earlier run (default: a new one)")
    parser.add_argument(
        "--controller",
        choices=("file", "etcd"),
        default="",
        help="sets under one controller with a file, or under two with three members of etcd (default: no controller)",
    )
    parser.add_argument(
        "--faults", help=f"which, separated by commas (default: all: {', '.join(FAULTS)}; others with a controller)"
    )
    parser.add_argument("--bound", type=float, default=120.0, help="seconds to resume in at the end (default: 120)")
    parser.add_argument(
        "--sets",
        type=int,
        help="how many, 2 or with a controller 1; without one every other does not wait for its slave",
    )
    parser.add_argument("--slaves", type=int, help="of each master (default: 1, with a controller 2)")
    parser.add_argument("--pause", type=float, default=0.1, help="mean seconds between messages of a task")
    parser.add_argument("--at-once", type=int, default=2, help="faults that may happen at once (default: 2)")
    parser.add_argument("--only-brokers", action="store_true", help="leave name servers and clients alone")
    parser.add_argument("--folder", help="where stores and logs are (default: a new temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep that folder also when all is well")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON on standard output")
    given = parser.parse_args(arguments)
    known = faults_of(given.controller)
    faults = list(known) if given.faults is None else [name.strip() for name in given.faults.split(",") if name.strip()]
    unknown = sorted(set(faults) - set(known))
    if unknown or not faults:
        parser.error(f"no fault is called {', '.join(unknown) or 'nothing'}: choose from {', '.join(known)}")
    sets, slaves = (1, 2) if given.controller else (2, 1)
    if given.controller and given.slaves == 0:
        parser.error("a set under a controller has a slave or more")
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    folder = Path(given.folder) if given.folder else Path(tempfile.mkdtemp(prefix="bolide-chaos-"))
    plan = Plan(
        given.minutes * 60,
        seed,
        faults,
        folder.resolve(),
        given.bound,
        brokers=sets if given.sets is None else given.sets,
        pause=given.pause,
        at_once=given.at_once,
        mount=False,
        only_brokers=given.only_brokers,
        slaves=slaves if given.slaves is None else given.slaves,
        controller=given.controller,
    )
    return plan, given.json, given.keep


def options_of(plan: Plan) -> list[str]:
    """The options that repeat a plan, in a folder of its own."""
    options = [
        f"--seed {plan.seed}",
        f"--minutes {plan.seconds / 60:g}",
        f"--faults {','.join(plan.faults)}",
        f"--bound {plan.bound:g}",
        f"--sets {plan.brokers}",
        f"--slaves {plan.slaves}",
        f"--pause {plan.pause:g}",
        f"--at-once {plan.at_once}",
    ]
    if plan.controller:
        options.append(f"--controller {plan.controller}")
    return options + ["--only-brokers"] * plan.only_brokers


async def chaos(plan: Plan, quiet: bool) -> tuple[Verdict, bool]:
    """Run the plan; Ctrl-C ends the faults early. The verdict, and whether it was interrupted."""

    def say(text: str) -> None:
        print(text, file=sys.stderr if quiet else sys.stdout, flush=True)

    run = ControlledRun(plan, say) if plan.controller else ChaosRun(plan, say)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, run.interrupted.set)
    say(f"chaos: {plan.seconds / 60:g} min, seed {plan.seed}, {len(plan.faults)} kinds of faults, in {plan.folder}")
    found = await run.run()
    return found, run.interrupted.is_set()


def main(arguments: list[str] | None = None) -> int:
    """Run; the exit status: 0 all held, 1 a promise was broken, 2 the run itself could not be made."""
    plan, as_json, keep = plan_of(sys.argv[1:] if arguments is None else arguments)
    room_for_descriptors()
    try:
        library()
        found, interrupted = asyncio.run(chaos(plan, as_json))
    except (NoCompiler, RuntimeError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2
    figures = found.figures
    if as_json:
        findings = [{"promise": one.promise, "detail": one.detail} for one in found.findings]
        print(json.dumps({**figures, "held": found.held, "interrupted": interrupted, "findings": findings}))
    else:
        replaced = f"masters replaced: {figures['promotions']}; emptied as diverged: {figures['refused_and_emptied']}"
        for line in (*found.lines(), replaced, *summary(found, interrupted)):
            print(line)
    if found.held and not keep:
        shutil.rmtree(plan.folder)
    elif not found.held:
        again = f"make chaos ARGS='{' '.join(options_of(plan))}'"
        print(f"stores and logs are in {plan.folder}; again: {again}", file=sys.stderr if as_json else sys.stdout)
    return 0 if found.held else 1


if __name__ == "__main__":
    sys.exit(main())
