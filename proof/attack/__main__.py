"""`make attack`: faults at real processes for some minutes, and a verdict. Exit status 1 when a promise was broken."""

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

from proof.attack.fault_shim import NoCompiler, library
from proof.attack.faults import FAULTS
from proof.attack.run import Attack, Plan, room_for_descriptors
from proof.attack.verdict import Verdict


def plan_of(arguments: list[str]) -> tuple[Plan, bool, bool]:
    """The plan, whether to print JSON, and whether to keep the folder in any case."""
    parser = argparse.ArgumentParser("python -m proof.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long faults happen (default: 2)")
    parser.add_argument("--seed", type=int, help="repeat the faults of an earlier run (default: a new one)")
    parser.add_argument(
        "--faults", default=",".join(FAULTS), help=f"which, separated by commas (default: all: {', '.join(FAULTS)})"
    )
    parser.add_argument("--bound", type=float, default=90.0, help="seconds to resume in at the end (default: 90)")
    parser.add_argument("--brokers", type=int, default=2, help="how many; every other one flushes asynchronously")
    parser.add_argument("--pause", type=float, default=0.05, help="mean seconds between messages of a task")
    parser.add_argument("--at-once", type=int, default=2, help="faults that may happen at once (default: 2)")
    parser.add_argument("--only-brokers", action="store_true", help="leave name servers and clients alone")
    parser.add_argument("--no-mount", action="store_true", help="do not mount a small file system, even if allowed")
    parser.add_argument("--folder", help="where stores and logs are (default: a new temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep that folder also when all is well")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON on standard output")
    given = parser.parse_args(arguments)
    faults = [name.strip() for name in given.faults.split(",") if name.strip()]
    unknown = sorted(set(faults) - set(FAULTS))
    if unknown or not faults:
        parser.error(f"no fault is called {', '.join(unknown) or 'nothing'}: choose from {', '.join(FAULTS)}")
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    folder = Path(given.folder) if given.folder else Path(tempfile.mkdtemp(prefix="bolide-attack-"))
    plan = Plan(
        given.minutes * 60,
        seed,
        faults,
        folder.resolve(),
        given.bound,
        brokers=given.brokers,
        pause=given.pause,
        at_once=given.at_once,
        mount=not given.no_mount,
        only_brokers=given.only_brokers,
    )
    return plan, given.json, given.keep


def options_of(plan: Plan) -> list[str]:
    """The options that repeat a plan, in a folder of its own."""
    options = [
        f"--seed {plan.seed}",
        f"--minutes {plan.seconds / 60:g}",
        f"--faults {','.join(plan.faults)}",
        f"--bound {plan.bound:g}",
        f"--brokers {plan.brokers}",
        f"--pause {plan.pause:g}",
        f"--at-once {plan.at_once}",
    ]
    return options + ["--only-brokers"] * plan.only_brokers + ["--no-mount"] * (not plan.mount)


async def attack(plan: Plan, quiet: bool) -> tuple[Verdict, bool]:
    """Run the plan; Ctrl-C ends the faults early. The verdict, and whether it was interrupted."""

    def say(text: str) -> None:
        print(text, file=sys.stderr if quiet else sys.stdout, flush=True)

    run = Attack(plan, say)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, run.interrupted.set)
    disk = f"a file system of its own at {run.small_disk}" if run.small_disk else "the shim's errors"
    say(f"attack: {plan.seconds / 60:g} min, seed {plan.seed}, {len(plan.faults)} kinds of faults, in {plan.folder}")
    if "full-disk" in plan.faults:
        say(f"a full disk is {disk}")
    found = await run.run()
    return found, run.interrupted.is_set()


def main(arguments: list[str] | None = None) -> int:
    """Run; the exit status: 0 all held, 1 a promise was broken, 2 the attack itself could not be run."""
    plan, as_json, keep = plan_of(sys.argv[1:] if arguments is None else arguments)
    room_for_descriptors()
    try:
        library()
        found, interrupted = asyncio.run(attack(plan, as_json))
    except (NoCompiler, RuntimeError) as error:
        print(f"attack: {error}", file=sys.stderr)
        return 2
    if as_json:
        findings = [{"promise": one.promise, "detail": one.detail} for one in found.findings]
        print(json.dumps({**found.figures, "held": found.held, "interrupted": interrupted, "findings": findings}))
    else:
        for line in (*found.lines(), *summary(found, interrupted)):
            print(line)
    if found.held and not keep:
        shutil.rmtree(plan.folder)
    elif not found.held:
        again = f"make attack ARGS='{' '.join(options_of(plan))}'"
        print(f"stores and logs are in {plan.folder}; again: {again}", file=sys.stderr if as_json else sys.stdout)
    return 0 if found.held else 1


def summary(found: Verdict, interrupted: bool) -> list[str]:
    """Figures and verdict, for a person."""
    figures = found.figures
    drained = figures["drained_after"]
    consumed = f"all consumed after {drained} s"
    if drained is None:
        consumed = f"not all consumed; groups were carried past {figures['passed_over']} messages"
    faults = ", ".join(f"{name} {count}" for name, count in figures["faults"].items())
    return [
        f"faults: {faults or 'none'}; {figures['struck_calls']:,} calls struck",
        f"messages: {figures['messages']:,} sent, {figures['acknowledged']:,} acknowledged, {figures['refused']:,}"
        f" refused, {figures['unknown']:,} unanswered; {figures['consumed']:,} deliveries;"
        f" {figures['operator_changes']} changes by the operator",
        f"resumed after {figures['resumed_after']} s, {consumed}",
        f"{'HELD' if found.held else 'BROKEN'}{' (interrupted)' if interrupted else ''}: seed {figures['seed']},"
        f" {figures['seconds']} s of faults, {len(found.findings)} findings",
    ]


if __name__ == "__main__":
    sys.exit(main())
