"""A fault at every call, as SQLite does it: fixed scenarios, in which the n-th call of the disk fails, for each n.

Each call fails once, and in another run it and all after it do. Afterwards the disk is well again, and then: requests
were answered, with an error or with the truth; the broker takes messages again by itself, or has stopped and says why;
after a restart (a kill, a power cut or a clean stop) nothing that was acknowledged is lost, doubled or made up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bolide.errors import BolideError
from proof.simulation.cuts.book import DONE
from proof.simulation.cuts.history import GONE
from proof.simulation.cuts.life import HOUR_MS, Life
from proof.simulation.cuts.machine import Machine
from proof.simulation.disk import Fault

ERRORS: Final = ("EIO", "ENOSPC", "EMFILE", "EROFS")
RESTARTS: Final = ("kill", "power cut", "stop")
RESUMES_MS: Final = 30_000
"""A broker takes messages again within this time once its disk is well."""


class Scene(Life):
    """One run of a scenario, on a store with a past."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(f"{name}/{seed}")
        self.machine = Machine(self.disk, self.options, self.now)

    def begin(self) -> None:
        """A boot, and a few messages of every kind."""
        self.machine.boot()
        self.clients.connect(self.machine)
        self.clients.create_topic(GONE[0])
        for kind in ("plain", "level", "half"):
            self.clients.send(kind)
        self.clients.send("timer", 4_000)
        self.settle()

    def again(self) -> None:
        """The next boot."""
        self.machine = Machine(self.disk, self.options, self.now)
        self.machine.boot()
        self.clients.connect(self.machine)

    def stopped(self) -> bool:
        """The broker ended by itself, and said why."""
        return bool(self.machine.failure)

    def settle(self, milliseconds: int = 0) -> None:
        """Everything happens that is due within this time."""
        self.machine.settle()
        if milliseconds:
            self.machine.pass_time(milliseconds)
        self.now = self.machine.now


def sends(scene: Scene) -> None:
    """Messages over several log files."""
    for _ in range(4):
        for _ in range(3):
            scene.clients.send("plain")
        scene.clients.send_batch()
        scene.settle()
    scene.settle(2_000)


def tables(scene: Scene) -> None:
    """Operators and consumers change tables."""
    for name in GONE:
        scene.clients.create_topic(name)
    scene.clients.change_group("group0")
    scene.clients.commit_offset()
    scene.settle(6_000)


def deletions(scene: Scene) -> None:
    """A topic is deleted, made again by a send, and deleted again."""
    for _ in range(2):
        scene.clients.send_to(GONE[0])
        scene.settle()
        scene.clients.delete_topic(GONE[0])
        scene.settle()
    scene.clients.send_to(GONE[0])
    scene.settle(1_000)


def deliveries(scene: Scene) -> None:
    """Delayed messages of both kinds become due."""
    for _ in range(2):
        scene.clients.send("level")
        scene.clients.send("timer", 1_500)
    scene.settle(6_000)


def transactions(scene: Scene) -> None:
    """Half messages are ended, or asked about."""
    scene.clients.send("half")
    scene.clients.send("half")
    scene.settle()
    scene.clients.end_one()
    scene.settle(9_000)


def stop_and_start(scene: Scene) -> None:
    """A clean stop, and the start after it."""
    scene.machine.stop()
    scene.disk.process_crash()
    scene.again()
    scene.clients.send("plain")
    scene.settle()


def recovery(scene: Scene) -> None:
    """The start after a power cut in the middle of a write."""
    scene.clients.send("plain")
    scene.machine.turn()
    scene.disk.power_cut(77)
    scene.again()
    scene.clients.send("plain")
    scene.settle()


def expiry(scene: Scene) -> None:
    """Old log files go."""
    for _ in range(12):
        scene.clients.send("plain")
        scene.settle()
    scene.settle(20_000)
    scene.book.hours_passed = True
    scene.machine.tick(2 * HOUR_MS)
    scene.clients.expire()
    scene.settle(61_000)


SCENARIOS: Final[dict[str, Callable[[Scene], None]]] = {
    each.__name__: each
    for each in (sends, tables, deletions, deliveries, transactions, stop_and_start, recovery, expiry)
}


@dataclass(frozen=True)
class Case:
    """One run: the call that fails, counted from the begin of the scenario, and how."""

    scenario: str
    error: str
    call: int
    lasting: bool
    restart: str
    seed: int = 0

    def __str__(self) -> str:
        how = "and all after it " if self.lasting else ""
        return f"{self.scenario}: {self.error} at call {self.call} {how}then a {self.restart}"


def cases(step: int, choice: random.Random) -> Iterator[Case]:
    """Every case, or one of `step` of them."""
    for name, act in SCENARIOS.items():
        scene = Scene(name, 0)
        scene.begin()
        before = scene.disk.syscalls
        act(scene)
        for call in range(scene.disk.syscalls - before):
            for error in ERRORS:
                for lasting in (False, True):
                    for restart in RESTARTS:
                        if step == 1 or choice.randrange(step) == 0:
                            yield Case(name, error, call, lasting, restart)


def problems_of(case: Case) -> list[str] | None:
    """What is wrong in this case; None when the call cannot give this error."""
    scene = Scene(case.scenario, case.seed)
    scene.begin()
    fault = Fault(case.error, after=case.call, times=-1 if case.lasting else 1, counts_all=True)
    scene.disk.faults.append(fault)
    refused = ""
    try:
        SCENARIOS[case.scenario](scene)
    except BolideError as error:
        refused = str(error)
    scene.disk.faults_over()
    if not fault.hits:
        return None
    problems = _resumes(scene) if not refused else _restarted_by_hand(scene)
    try:
        problems += _restart(scene, case.restart)
    except BolideError as error:
        problems.append(f"the start after it is refused: {error}")
    return problems + scene.clients.problems


def _resumes(scene: Scene) -> list[str]:
    """The broker serves again by itself, or has stopped and said why."""
    machine = scene.machine
    scene.settle(RESUMES_MS)
    if scene.stopped():
        return []
    problems = []
    probe = scene.clients.send("plain")
    scene.settle(1_000)
    if scene.stopped():
        return []
    if probe.state != DONE:
        problems.append(f"{RESUMES_MS} ms after the fault a send is {probe.state}: {machine.store.flags.describe()}")
    if scene.clients.unanswered:
        problems.append(f"{scene.clients.unanswered} requests were not answered")
    return problems


def _restarted_by_hand(scene: Scene) -> list[str]:
    """A start or a stop ended with an error, which is an answer, too. The process is gone."""
    scene.disk.process_crash()
    try:
        scene.again()
    except BolideError as error:
        return [f"the next start is refused: {error}"]
    return []


def _restart(scene: Scene, how: str) -> list[str]:
    if how == "stop" and not scene.machine.failure:
        scene.machine.stop()
    scene.now = scene.machine.now
    if how == "power cut":
        scene.disk.power_cut(0)
    else:
        scene.disk.process_crash()
    scene.again()
    problems = scene.checks.after_recovery()
    scene.settle(40_000)
    scene.machine.stop()
    scene.disk.process_crash()
    return problems + scene.checks.after_stop() + scene.checks.at_the_end()
