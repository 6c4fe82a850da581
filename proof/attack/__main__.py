"""`make attack`: faults at real processes for some minutes, and a verdict. Exit status 1 when a promise was broken."""

from __future__ import annotations

import sys

from proof.attack import command
from proof.attack.faults import FAULTS
from proof.attack.run import Attack, Plan
from proof.kit.command_line import folder_of, new_seed


def plan_of(arguments: list[str] | None) -> tuple[Plan, bool, bool]:
    """The plan, whether to print JSON, and whether to keep the folder in any case."""
    parser = command.parser_of("attack", __doc__, bound=90.0, pause=0.05)
    parser.add_argument("--faults", help=f"which, separated by commas (default: all: {', '.join(FAULTS)})")
    parser.add_argument("--brokers", type=int, default=2, help="how many; every other one flushes asynchronously")
    parser.add_argument("--no-mount", action="store_true", help="do not mount a small file system, even if allowed")
    given = parser.parse_args(arguments)
    plan = Plan(
        given.minutes * 60,
        new_seed() if given.seed is None else given.seed,
        command.chosen(parser, given.faults, FAULTS),
        folder_of("attack", given.folder),
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
    options = command.options_of(plan, f"--brokers {plan.brokers}")
    return options + ["--only-brokers"] * plan.only_brokers + ["--no-mount"] * (not plan.mount)


def main(arguments: list[str] | None = None) -> int:
    """Run; the exit status: 0 all held, 1 a promise was broken, 2 the attack itself could not be run."""
    plan, as_json, keep = plan_of(arguments)
    run = command.Command("attack", plan, options_of(plan), lambda say: Attack(plan, say))
    return run.carry_out(as_json=as_json, keep=keep)


if __name__ == "__main__":
    sys.exit(main())
