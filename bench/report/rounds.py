"""Alternating rounds: all servers of a group stand, and all but the one that is measured are stopped (SIGSTOP).

A round that does not count comes first, so that the Java broker's code is compiled for what is measured. The order of
the servers changes from round to round.
"""

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.loads.client_rows import client_subjects
from bench.loads.generator import Shape, generate, run_load
from bench.loads.loads import Loaded
from bench.loads.rows import Figures, Group, Row, groups
from bench.loads.subject import Scale, Subject
from bench.report.results import Result, number, processor_time
from bench.report.shown import say
from bench.servers.machine import counted_calls
from bench.servers.servers import BolideBroker, NullServer, Server, java_broker
from bench.servers.stopping import Failed

JAVA = "java"
_WARM_SHAPE = Shape(8, 32)
_WARM_AGREE = 0.05
_WARM_WINDOWS = 6
_CALLS_SECONDS = 1.0
_EVENT_SECONDS = 20.0
_CEILING_TRIES = 2
_FIRST_SHARE = 0.1
_TELLING_SHARE = 0.1
"""Before so much is done, how long the rest takes is not known."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and how. `pythons` are the environments of the servers that are a Bolide."""

    rows: Sequence[Row]
    servers: Sequence[str]
    rounds: int
    scale: Scale
    warm_seconds: float = 5.0
    calls: bool = True
    pythons: Mapping[str, str] = field(default_factory=dict)

    def of(self, group: Group) -> list[Row]:
        """The rows of a group."""
        return [row for row in self.rows if row.group == group]

    def weight(self, row: Row) -> float:
        """About how many seconds one measurement takes."""
        return self.scale.seconds + self.scale.skip + 0.3 if row.load else _EVENT_SECONDS * self.scale.count / 200_000


class Progress:
    """A line for each measurement: how much is done, and about how long the rest takes."""

    def __init__(self, plan: Plan) -> None:
        each = sum(plan.weight(row) for row in plan.rows) * len(plan.servers)
        self._whole = each * (plan.rounds + 1)
        self._done = 0.0
        self._began = time.monotonic()

    def step(self, weight: float, text: str) -> None:
        """One measurement is done."""
        self._done = min(self._done + weight, self._whole)
        share = self._done / self._whole
        left = (time.monotonic() - self._began) * (1 - share) / share
        rest = f", {left / 60:4.1f} min left" if share >= _TELLING_SHARE else ""
        say(f"{share:4.0%}{rest}  {text}")


def measure(plan: Plan, work: Path) -> list[Result]:
    """Measure every row of the plan; what fails is told in its result, and the others are measured all the same."""
    progress = Progress(plan)
    results = {row.name: Result(row) for row in plan.rows}
    for group in groups(plan.rows):
        rows = plan.of(group)
        _measure_ceilings([results[row.name] for row in rows], work, plan.scale)
        with ExitStack() as running:
            subjects = _started(group, plan, work, running)
            for number_of_round in range(group.clients, plan.rounds + 1):
                for row in rows:
                    _measure_row(plan, number_of_round, results[row.name], subjects, progress)
            if plan.calls:
                for row in rows:
                    _count_calls(results[row.name], subjects, work)
    return list(results.values())


def _started(group: Group, plan: Plan, work: Path, running: ExitStack) -> list[Subject]:
    if group.clients:
        home = work / "clients"
        running.callback(shutil.rmtree, home, ignore_errors=True)
        return client_subjects(plan.servers, plan.pythons, home, plan.scale, running)
    subjects: list[Subject] = []
    for name in plan.servers:
        home = work / f"{name}-{group.name.replace(' ', '-').replace(',', '')}"
        running.callback(shutil.rmtree, home, ignore_errors=True)
        say(f"{group.name}: {name} starts")
        try:
            server = start(name, home, group, plan.pythons)
        except AssertionError as error:
            raise Failed(f"{name} did not start: {' '.join(str(error).split())[-300:]}") from None
        running.callback(server.kill)
        if group.sends:
            _warm(name, server, plan.warm_seconds if name == JAVA else min(plan.warm_seconds, 2.0))
        server.pause()
        subjects.append(Subject(name, server, plan.scale, java=name == JAVA))
    return subjects


def start(name: str, home: Path, group: Group, pythons: Mapping[str, str]) -> Server:
    """A server by the name it has in the tables."""
    if name == JAVA:
        return java_broker(home, group.flush, settings=group.settings)
    python = pythons.get(name, sys.executable)
    return BolideBroker(home, group.flush, python=python, settings=group.settings)


def _warm(name: str, server: Server, window: float) -> None:
    """Send until three windows in a row agree, or there were six."""
    rates: list[float] = []
    while len(rates) < _WARM_WINDOWS:
        rates.append(generate(server.port, _WARM_SHAPE, 128, window).rate)
        last = rates[-3:]
        if len(last) == 3 and max(last) - min(last) <= _WARM_AGREE * max(last):
            break
    say(f"  {name} is warm at {', '.join(f'{rate:,.0f}/s' for rate in rates)}")


def _measure_ceilings(results: Sequence[Result], work: Path, scale: Scale) -> None:
    for result in results:
        load = result.row.load
        if load is None:
            continue
        null = NullServer(work / "null", load.record)
        try:
            tries = [load.ceiling(null.port, min(scale.seconds, 0.7)) for _ in range(_CEILING_TRIES)]
            result.ceiling = max(tries, key=lambda figures: figures["rate"])
        finally:
            null.kill()


def _measure_row(
    plan: Plan, number_of_round: int, result: Result, subjects: Sequence[Subject], progress: Progress
) -> None:
    """One round of a row on every server; round 0 does not count and is a short one."""
    order = subjects if number_of_round % 2 else list(reversed(subjects))
    scale = plan.scale
    if number_of_round == 0:
        scale = replace(scale, count=int(scale.count * _FIRST_SHARE), crowd=int(scale.crowd * _FIRST_SHARE))
    found: dict[str, Figures] = {}
    for subject in order:
        try:
            found[subject.name] = _measured(result.row, subject, scale)
        except Failed as error:
            if number_of_round:  # a broker that is not warm yet may be too slow for a row
                result.failures.append(f"{result.row.name}: {error}")
            say(f"  {result.row.name}: {error}")
            return
        heading = f"round {number_of_round}" if number_of_round else "not counted"
        told = told_of(result.row, found[subject.name])
        progress.step(plan.weight(result.row), f"{heading}  {result.row.name}  {subject.name}  {told}")
    if number_of_round:
        for name, figures in found.items():
            result.rounds.setdefault(name, []).append(figures)


def _measured(row: Row, subject: Subject, scale: Scale) -> Figures:
    if row.group.sends:
        os.sync()  # what the last one left to write must not be written while this one is measured
    subject.scale = scale
    subject.server.resume()
    try:
        return row.measure(subject)
    finally:
        subject.server.pause()


def told_of(row: Row, figures: Figures) -> str:
    """The figures of one measurement in a line."""
    parts = [f"{number(figures[one.figure])} {one.unit}" for one in row.compared]
    parts.append(f"{processor_time(figures)} µs a {row.each}")
    if figures.get("refused"):
        parts.append(f"{figures['refused']:.0f} refused")
    return ", ".join(parts)


def _count_calls(result: Result, subjects: Sequence[Subject], work: Path) -> None:
    """System calls of a message, in a run of their own, because counting slows the broker down."""
    loaded = result.row.load
    if loaded is None or result.failures:
        return
    for subject in subjects:
        try:
            result.calls[subject.name] = _calls(loaded, subject, work)
        except Failed as error:
            result.failures.append(f"{result.row.name}: {error}")


def _calls(loaded: Loaded, subject: Subject, work: Path) -> float:
    subject.server.resume()
    try:
        with counted_calls(subject.server.pid, work) as calls:
            seen = run_load(subject.server.port, loaded.load, _CALLS_SECONDS)
        return calls.total / max(seen.all_count, 1)
    finally:
        subject.server.pause()
