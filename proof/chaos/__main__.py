"""`make chaos`: sets of brokers behind proxies, faults for some minutes, and a verdict.

Exit status 1 when a promise was broken.
"""

from __future__ import annotations

import sys

from proof.attack import command
from proof.attack.verdict import Verdict
from proof.chaos.controlled import ControlledRun
from proof.chaos.controlled_faults import faults_of
from proof.chaos.faults import FAULTS
from proof.chaos.run import ChaosRun, Plan
from proof.kit.command_line import folder_of, new_seed


def plan_of(arguments: list[str] | None) -> tuple[Plan, bool, bool]:
    """The plan, whether to print JSON, and whether to keep the folder in any case."""
    parser = command.parser_of("chaos", __doc__, bound=120.0, pause=0.1)
    parser.add_argument(
        "--controller",
        choices=("file", "etcd"),
        default="",
        help="sets under one controller with a file, or under two with three members of etcd (default: no controller)",
    )
    parser.add_argument(
        "--faults", help=f"which, separated by commas (default: all: {', '.join(FAULTS)}; others with a controller)"
    )
    parser.add_argument(
        "--sets",
        type=int,
        help="how many, 2 or with a controller 1; without one every other does not wait for its slave",
    )
    parser.add_argument("--slaves", type=int, help="of each master (default: 1, with a controller 2)")
    parser.add_argument("--java", action="store_true", help="Java's client sends and consumes, too (a JDK and Maven)")
    given = parser.parse_args(arguments)
    faults = command.chosen(parser, given.faults, faults_of(given.controller))
    sets, slaves = (1, 2) if given.controller else (2, 1)
    if given.controller and given.slaves == 0:
        parser.error("a set under a controller has a slave or more")
    plan = Plan(
        given.minutes * 60,
        new_seed() if given.seed is None else given.seed,
        faults,
        folder_of("chaos", given.folder),
        given.bound,
        brokers=sets if given.sets is None else given.sets,
        pause=given.pause,
        at_once=given.at_once,
        mount=False,
        only_brokers=given.only_brokers,
        slaves=slaves if given.slaves is None else given.slaves,
        controller=given.controller,
        java=given.java,
    )
    return plan, given.json, given.keep


def options_of(plan: Plan) -> list[str]:
    """The options that repeat a plan, in a folder of its own."""
    options = command.options_of(plan, f"--sets {plan.brokers}", f"--slaves {plan.slaves}")
    if plan.controller:
        options.append(f"--controller {plan.controller}")
    return options + ["--only-brokers"] * plan.only_brokers + ["--java"] * plan.java


def lines(found: Verdict) -> list[str]:
    """Return what chaos adds to the summary."""
    figures = found.figures
    return [f"masters replaced: {figures['promotions']}; emptied as diverged: {figures['refused_and_emptied']}"]


def main(arguments: list[str] | None = None) -> int:
    """Run; the exit status: 0 all held, 1 a promise was broken, 2 the run itself could not be made."""
    plan, as_json, keep = plan_of(arguments)
    kind = ControlledRun if plan.controller else ChaosRun
    run = command.Command("chaos", plan, options_of(plan), lambda say: kind(plan, say), lines)
    return run.carry_out(as_json=as_json, keep=keep)


if __name__ == "__main__":
    sys.exit(main())
