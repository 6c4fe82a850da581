"""A sequence on both sides: its answers, and then what both sides hold of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from proof.differential.compare import Comparison, Difference
from proof.differential.connection import Closed
from proof.differential.listed import Entry
from proof.differential.sides import Answer, Names, Side, ask_both
from proof.differential.steps import BROKER, NAMESRV, Step
from proof.differential.values import SYSTEM_TOPICS
from proof.reader.frames import Frame
from proof.reader.tables import Value, read_json

SETTLE_SECONDS: Final = 8.0
"""A broker answers a send before its queues, its index or its name server know of it: reads are asked again so long."""
PAUSES: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
READS: Final = frozenset({
    11, 12, 14, 21, 26, 28, 29, 30, 31, 32, 33, 38, 43, 45, 46, 60, 61, 101, 105, 106, 201, 202, 203, 204, 206, 208,
    219, 224, 300, 303, 304, 305, 308, 311, 312, 313, 315, 317, 319, 321, 328, 343, 345, 351, 361, 402, 901, 907,
})  # fmt: skip
"""What may be asked again without a further effect."""
CHANGE_FIRST: Final = frozenset({10, 11, 18, 34, 36, 103, 225, 310, 320, 324, 325, 361})
"""One side may change a table before the request fails: a topic that a send makes, the group of a pull."""
PULLS: Final = frozenset({11, 361})
LISTS: Final = frozenset({18, 225})
PARTIAL: Final = "a list of which Java made a part"
STORES: Final = frozenset({10, 36, 37, 310, 320, 323, 324, 325, 370})
COUNTING_SECONDS: Final = 3.0
MOST_QUEUES: Final = 8
PROBE: Final = "DF_PROBE"


@dataclass
class Found:
    """The first difference of a sequence that is not listed."""

    step: Step
    differences: list[Difference]
    ours: Answer
    java: Answer


@dataclass
class Outcome:
    """What came of a sequence."""

    asked: int = 0
    probed: int = 0
    steps: list[Step] = field(default_factory=list)
    """What was asked, up to the step that is compared."""
    found: Found | None = None
    others: list[Found] = field(default_factory=list)
    """What a run that is `counting` has found before."""
    ended: str = ""
    """The listed difference that ended it, as both sides hold different things from there on."""
    hits: Counter[str] = field(default_factory=Counter)


class Run:
    """Runs sequences, each with names of its own, so that none sees what another left.

    `counting`: continue after a difference of two answers with the same code, to find more in less time.
    """

    def __init__(
        self,
        ours: Side,
        java: Side,
        entries: list[Entry],
        mark: str,
        *,
        counting: bool = False,
        on_step: Callable[[Step, Answer, Answer], None] | None = None,
    ) -> None:
        self._ours = ours
        self._java = java
        self._entries = entries
        self._mark = mark
        self._counting = counting
        if counting:
            ours.patience = java.patience = COUNTING_SECONDS
        self._on_step = on_step
        self._count = 0

    def sequence(self, steps: list[Step]) -> Outcome:
        """Run a sequence up to its first difference that is not listed. What it made is deleted again."""
        self._count += 1
        names = Names(f"{self._mark}x{self._count}z", int(time.time() * 1000))
        self._ours.begin()
        self._java.begin()
        outcome = Outcome()
        try:
            self._steps(steps, names, outcome)
        finally:
            self._clear(names)
        return outcome

    def _steps(self, steps: list[Step], names: Names, outcome: Outcome) -> None:
        for step in steps:
            outcome.asked += 1
            outcome.steps.append(step)
            if not self._step(step, names, outcome):
                return
        for step in self._probes(names):
            outcome.probed += 1
            if not self._step(step, names, outcome):
                return

    def _step(self, step: Step, names: Names, outcome: Outcome) -> bool:
        """Whether the sequence may continue."""
        ours, java, differences, left = self._asked(step, names, outcome)
        if self._on_step is not None:
            self._on_step(step, ours, java)
        if left:
            found = Found(step, left, ours, java)
            if not self._counting or left[0].at in ("code", "answer"):
                outcome.found = found
                return False
            outcome.others.append(found)
        for difference in differences:
            entry = self._entry(step, difference, outcome)
            if entry is not None:
                outcome.hits[entry.name] += 1
                if entry.ends and (step.code not in READS or step.code in PULLS) and _may_differ(step, ours, java):
                    outcome.ended = entry.name
        if step.code in LISTS and isinstance(java, Frame) and java.code != 0:
            outcome.ended = PARTIAL
        if step.oneway or (step.code in STORES and isinstance(java, Frame) and java.code == 0):
            self._settle()
        return not outcome.ended and not _scattered(step, ours)

    def _asked(
        self, step: Step, names: Names, outcome: Outcome
    ) -> tuple[Answer, Answer, list[Difference], list[Difference]]:
        """Both answers, what differs, and what of it is not listed. Reads are asked again while that is something."""
        pauses = iter(PAUSES[:8] if self._counting else PAUSES)
        while True:
            ours, java = ask_both(step, names, self._ours, self._java)
            differences = Comparison(step, names, self._ours, self._java).differences(ours, java)
            left = [each for each in differences if self._entry(step, each, outcome) is None]
            pause = next(pauses, None)
            if not left or step.code not in READS or step.oneway or pause is None:
                return ours, java, differences, left
            time.sleep(pause)

    def _entry(self, step: Step, difference: Difference, outcome: Outcome) -> Entry | None:
        covering = (entry for entry in self._entries if entry.covers(step, difference, outcome.steps))
        return next(covering, None)

    def _settle(self) -> None:
        """Wait until both brokers can serve what they stored."""
        for side in (self._ours, self._java):
            end = time.monotonic() + SETTLE_SECONDS
            refusal = ""
            while time.monotonic() < end:
                try:
                    answer = side.ask(BROKER, 28)
                except Closed:
                    continue
                refusal = f"{answer.code} {answer.remark}" if answer.code else ""
                table = None if refusal else read_json(answer.body)
                values = table.get("table") if isinstance(table, dict) else None
                if isinstance(values, dict) and values.get("dispatchBehindBytes") == "0":
                    break
            if refusal:
                raise AssertionError(f"{side.name} does not tell its state: {refusal}")

    # -- effects

    def _probes(self, names: Names) -> Iterator[Step]:
        """Requests that show what both sides hold of this run."""
        yield Step(9001, BROKER, 21)
        yield Step(9002, BROKER, 201)
        yield Step(9003, BROKER, 43)
        for topic, queues in self._own_topics(names):
            yield Step(9004, NAMESRV, 105, {"topic": topic})
            for queue in range(min(queues, MOST_QUEUES)):
                ext = {"topic": topic, "queueId": str(queue)}
                yield Step(9005, BROKER, 30, ext)
                yield Step(9006, BROKER, 31, ext)
                pull = {**ext, "consumerGroup": PROBE, "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4"}
                pull |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0"}
                yield Step(9007, BROKER, 11, pull)

    def _own_topics(self, names: Names) -> list[tuple[str, int]]:
        """The topics of this run that our broker has, with the number of queues; those of Java are the same by then."""
        table = read_json(self._ours.ask(BROKER, 21).body)
        topics = table.get("topicConfigTable") if isinstance(table, dict) else None
        return [
            (name, max(_number(config, "readQueueNums"), _number(config, "writeQueueNums")))
            for name, config in sorted(topics.items() if isinstance(topics, dict) else ())
            if names.of("") in name
        ]

    def _clear(self, names: Names) -> None:
        """Delete the topics and groups of a run on both sides, so that tables stay small."""
        for side in (self._ours, self._java):
            side.begin()
            topics = read_json(side.ask(BROKER, 21).body)
            groups = read_json(side.ask(BROKER, 201).body)
            for name in _keys(topics, "topicConfigTable"):
                if name not in SYSTEM_TOPICS and names.of("") in name:
                    side.ask(BROKER, 215, {"topic": name})
                    side.ask(NAMESRV, 216, {"topic": name})
            for name in _keys(groups, "subscriptionGroupTable"):
                if names.of("") in name:
                    side.ask(BROKER, 207, {"groupName": name, "cleanOffset": "true"})
            side.begin()


def _keys(value: Value, name: str) -> list[str]:
    table = value.get(name) if isinstance(value, dict) else None
    return sorted(table) if isinstance(table, dict) else []


def _number(value: Value, name: str) -> int:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, int) else 0


def _may_differ(step: Step, ours: Answer, java: Answer) -> bool:
    """Whether a side may have done what the other refused: it answered success, or nothing, or halfway an error."""
    refused = [isinstance(each, Frame) and each.code != 0 for each in (ours, java)]
    return not all(refused) or step.code in CHANGE_FIRST


def _scattered(step: Step, answer: Answer) -> bool:
    """Whether each broker chose a queue of its own for a message, so that the queues differ from here on."""
    ext = step.ext or {}
    stored = isinstance(answer, Frame) and answer.code == 0 and step.code in STORES
    return stored and (ext.get("e") or ext.get("queueId") or "0").startswith("-")


def shrunk(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """Fewer steps that still fail: halves, then single ones are left out."""
    size = max(len(steps) // 2, 1)
    while True:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fewer and fails(fewer):
                steps = fewer
            else:
                at += size
        if size == 1:
            return steps
        size //= 2
