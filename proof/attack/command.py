"""The common part of the command lines of attack and chaos."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from proof.attack.fault_shim import NoCompiler, library
from proof.attack.run import Attack, Plan, room_for_descriptors
from proof.attack.verdict import Verdict
from proof.kit.command_line import BROKEN, HELD, WRONG_USE, Parser, Say, on_interrupt, teller


def parser_of(tool: str, about: str | None, *, bound: float, pause: float) -> Parser:
    """Return a parser with the options of both."""
    parser = Parser(tool, about)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long faults happen (default: 2)")
    parser.add_seed("repeat the faults of an earlier run")
    parser.add_argument(
        "--bound", type=float, default=bound, help=f"seconds to resume in at the end (default: {bound:g})"
    )
    parser.add_argument("--pause", type=float, default=pause, help="mean seconds between messages of a task")
    parser.add_argument("--at-once", type=int, default=2, help="faults that may happen at the same time (default: 2)")
    parser.add_argument("--only-brokers", action="store_true", help="leave name servers and clients alone")
    parser.add_argument("--folder", type=Path, help="where stores and logs are (default: a new temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep that folder also when all is well")
    parser.add_json()
    return parser


def chosen(parser: argparse.ArgumentParser, given: str | None, known: Collection[str]) -> list[str]:
    """Return the names of the given faults, or of all. Exits if a name is unknown."""
    faults = list(known) if given is None else [name.strip() for name in given.split(",") if name.strip()]
    unknown = sorted(set(faults) - set(known))
    if unknown or not faults:
        parser.error(f"no fault is called {', '.join(unknown) or 'nothing'}: choose from {', '.join(known)}")
    return faults


def options_of(plan: Plan, *more: str) -> list[str]:
    """Return the options that repeat a plan in another folder. `more` are options of one tool."""
    return [
        f"--seed {plan.seed}",
        f"--minutes {plan.seconds / 60:g}",
        f"--faults {','.join(plan.faults)}",
        f"--bound {plan.bound:g}",
        *more,
        f"--pause {plan.pause:g}",
        f"--at-once {plan.at_once}",
    ]


@dataclass(frozen=True)
class Command:
    """A run of `tool`. `make` creates the run, `lines` returns what the tool adds to the summary."""

    tool: str
    plan: Plan
    options: list[str]
    make: Callable[[Say], Attack]
    lines: Callable[[Verdict], list[str]] = lambda found: []

    def carry_out(self, *, as_json: bool, keep: bool) -> int:
        """Run until the end or an interruption, print the findings, and return the exit status."""
        say = teller(as_json)
        room_for_descriptors()
        try:
            library()
            found, interrupted = asyncio.run(self._run(say))
        except (NoCompiler, RuntimeError) as error:
            print(f"{self.tool}: {error}", file=sys.stderr)
            return WRONG_USE
        if as_json:
            findings = [{"promise": one.promise, "detail": one.detail} for one in found.findings]
            print(json.dumps({**found.figures, "held": found.held, "interrupted": interrupted, "findings": findings}))
        else:
            for line in (*found.lines(), *self.lines(found), *summary(found, interrupted)):
                print(line)
        if found.held and not keep:
            shutil.rmtree(self.plan.folder)
        elif not found.held:
            again = f"make {self.tool} ARGS='{' '.join(self.options)}'"
            say(f"stores and logs are in {self.plan.folder}; again: {again}")
        return HELD if found.held else BROKEN

    async def _run(self, say: Say) -> tuple[Verdict, bool]:
        plan = self.plan
        run = self.make(say)
        on_interrupt(run.interrupted.set)
        kinds = f"{len(plan.faults)} kinds of faults"
        say(f"{self.tool}: {plan.seconds / 60:g} min, seed {plan.seed}, {kinds}, in {plan.folder}")
        if "full-disk" in plan.faults:
            disk = f"a file system of its own at {run.small_disk}" if run.small_disk else "the shim's errors"
            say(f"a full disk is {disk}")
        return await run.run(), run.interrupted.is_set()


def summary(found: Verdict, interrupted: bool) -> list[str]:
    """Return the figures and the findings as lines of text."""
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
