"""Sequences over a store folder: a broker that writes, an operator, a disk, and every reader and job of stores."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from proof.sequences.damage import KINDS, damage
from proof.sequences.steps import Step, weighted
from proof.sequences.store_model import BODIES, TOPICS, Store, committed
from proof.sequences.store_runs import JOBS, Runs

DAMAGES = {"damage_log": 5, "damage_queue": 3, "damage_checkpoint": 1, "damage_marks": 1}
OPERATORS = {"stop": 2, "start": 2, "torn": 1, "expire": 1, "delete_topic": 1, "copy": 2, "restore": 2, "replace": 1}


class StoreKind:
    """Store folders: batch reads, streams with AvailableNow and continuous, verify, dispatch and its follower."""

    name = "store"

    def draw(self, chance: random.Random) -> list[Step]:
        """Some records, then a mix; a third of the sequences without any damage, so that errors must have a reason."""
        weights: dict[str, int] = {"append": 8, "poison": 1, "flush": 1, "batch": 3, "now": 4, "poll": 3}
        weights |= {"verify": 1, "dispatch": 1, "follow": 2}
        if chance.random() < 0.8:
            weights |= OPERATORS
        if chance.random() < 0.65:
            weights |= DAMAGES
        begin = weighted(chance, {"append": 1}, chance.randrange(1, 4))
        return begin + weighted(chance, weights, chance.randrange(4, 14))

    def world(self, folder: Path, number: int) -> StoreWorld:
        """A store of random file sizes and of either version."""
        return StoreWorld(folder, number)

    def close(self) -> None:
        """Its worlds share nothing."""


class StoreWorld:
    """One store folder, the queries that read it, and what they may not lose."""

    def __init__(self, folder: Path, number: int) -> None:
        segment = (1024, 2048, 4096, 8192)[number % 4]
        version = ("5.5", "4.9")[number // 4 % 2]
        self.store = Store(folder / "store", f"m{number}.", segment, version)
        self._runs = Runs(self.store, folder, number)

    def do(self, step: Step) -> str:
        """Do one step."""
        if step.name in JOBS:
            if not self.store.facts.truth:
                return ""
            return self._runs.do(step)
        made: Any = getattr(self, f"_{step.name}")(step)
        return str(made)

    def finish(self) -> str:
        """A batch read of everything, and the end of the query."""
        if not self.store.facts.truth:
            return ""
        said = [self._runs.do(Step(name, (0, 0, 0, 0, 0, 0))) for name in ("batch", "now")]
        return "; ".join(said)

    def close(self) -> None:
        """Nothing is open but readers."""
        self._runs.close()

    # -- the broker

    def _append(self, step: Step) -> str:
        count = 1 + step.one(0, 14)
        for number in range(count):
            topic = TOPICS[(step.pick[1] + number * step.pick[2]) % len(TOPICS)]
            size = (step.pick[3] * (number + 1)) % 160
            if (step.pick[4] + number) % 9 == 0:
                committed(self.store, TOPICS[0], number % 2, size)
            else:
                kind = BODIES[(step.pick[4] + number) % (len(BODIES) - 2)]
                self.store.append(topic, number % 2, kind, size, step.pick[5] + number)
        return f"append {count} messages, the log ends at {self.store.facts.at}"

    def _poison(self, step: Step) -> str:
        kind = BODIES[-2 + step.one(0, 2)]
        row = self.store.append(TOPICS[step.one(1, 2)], step.one(2, 2), kind, 20 + step.one(3, 50), step.pick[4])
        return f"append a message of {row.topic} at {row.at} that no decoder likes ({kind})"

    def _flush(self, step: Step) -> str:
        self.store.flush()
        return "the broker writes its checkpoint"

    def _start(self, step: Step) -> str:
        self.store.start()
        return "a broker starts: abort exists"

    def _stop(self, step: Step) -> str:
        self.store.stop()
        return "it stops cleanly"

    def _torn(self, step: Step) -> str:
        self.store.torn(step.pick[0])
        return "it is killed within a write"

    def _expire(self, step: Step) -> str:
        return "the oldest file of the log expires" if self.store.expire() else ""

    def _delete_topic(self, step: Step) -> str:
        topic = TOPICS[step.one(0, 2)]
        self.store.delete_topic(topic)
        return f"topic {topic} is deleted"

    # -- the operator

    def _copy(self, step: Step) -> str:
        return f"copy {self.store.copy()} of the folder is taken"

    def _restore(self, step: Step) -> str:
        if not self.store.restore(step.pick[0]):
            return ""
        self._runs.replaced()
        return f"the folder is restored from a copy, its log ends at {self.store.facts.at}"

    def _replace(self, step: Step) -> str:
        self.store.replace()
        for number in range(1 + step.one(0, 20)):
            self.store.append(TOPICS[0], number % 2, "plain", step.one(1, 120), number)
        self._runs.replaced()
        return f"an other store takes its place, its log ends at {self.store.facts.at}"

    # -- the disk

    def _damage_log(self, step: Step) -> str:
        files = self.store.files()
        if not files or not self.store.facts.truth:
            return ""
        row = self.store.facts.truth[step.one(0, len(self.store.facts.truth))]
        # Near a record, rather than in the zeros after the log: its head, its ends, its body.
        place = (row.at, row.at + 4, row.at + 28 + step.one(1, 8), row.at + step.one(1, row.size), row.at + row.size)
        at = place[step.one(2, len(place))]
        base = at // self.store.segment * self.store.segment
        path = next((path for path in files if int(path.name) == base), files[0])
        self.store.facts.hurt.add("log")
        return "commitlog: " + damage(path, KINDS[step.one(3, len(KINDS))], at - base, step.pick[4])

    def _damage_queue(self, step: Step) -> str:
        files = sorted(self.store.root.glob("consumequeue/*/*/*"))
        if not files:
            return ""
        path = files[step.one(0, len(files))]
        topic = path.parent.parent.name
        self.store.facts.hurt.add(f"queue {topic}")
        at = step.one(1, 16) * 20 + step.one(2, 20)
        return f"queue {topic}:{path.parent.name}: " + damage(path, KINDS[step.one(3, len(KINDS))], at, step.pick[4])

    def _damage_checkpoint(self, step: Step) -> str:
        path = self.store.root / "checkpoint"
        if not path.exists():
            return ""
        self.store.facts.hurt.add("checkpoint")
        return damage(path, KINDS[step.one(3, len(KINDS))], step.one(1, 48), step.pick[4])

    def _damage_marks(self, step: Step) -> str:
        path = self.store.root / "deleted-topics"
        if not path.exists():
            return ""
        self.store.facts.hurt.add("marks")
        return damage(path, KINDS[step.one(3, len(KINDS))], step.one(1, 60), step.pick[4])
