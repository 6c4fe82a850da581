"""Sequences over topics of running brokers: what operators do to topics and brokers, under every reader of them."""

from __future__ import annotations

import random
import threading
import zlib
from collections import Counter
from pathlib import Path

from proof.reader.records import COMPRESSED
from proof.sequences.brokers import Brokers, Sent, Server
from proof.sequences.java import java_brokers
from proof.sequences.sessions import SESSION
from proof.sequences.spark_runs import SPARK_JOBS, SparkRuns
from proof.sequences.steps import Step, weighted
from proof.sequences.topic_runs import JOBS, TopicRuns

OF_TOPICS = {"send": 8, "poison": 1, "delete": 2, "recreate": 2, "grow": 2, "shrink": 2}
OF_BROKERS = {"down": 2, "up": 3, "replace": 1, "copy": 1, "restore": 2, "expire": 1}
READS = {"batch": 3, "now": 4, "poll": 3, "mirror": 2, "read_back": 1}
DESTRUCTIVE = ("delete", "recreate", "shrink", "down", "replace", "copy", "restore", "expire")
IN_SPARK = {"read": 2, "archive": 5, "interrupted": 2, "twice": 1, "mirror": 2, "replay": 1, "redrive": 1}
NAMES = ("broker-a", "broker-b")
_START = [Step("create", (0, 1, 0, 0, 0, 0)), Step("send", (9, 0, 0, 0, 0, 0))]


class TopicKind:
    """Topics come, go, grow and shrink on two brokers that many sequences share."""

    name = "topic"

    def __init__(self) -> None:
        self._brokers: Brokers | None = None
        self._plays: Counter[int] = Counter()
        """Played again, a sequence has another topic: the brokers still have the first."""
        self._lock = threading.Lock()

    def draw(self, chance: random.Random) -> list[Step]:
        """A topic with messages, then a mix."""
        return _START + weighted(chance, OF_TOPICS | READS, chance.randrange(4, 14))

    def world(self, folder: Path, number: int) -> TopicWorld:
        """A topic of its own."""
        with self._lock:
            if self._brokers is None:
                self._brokers = self.begun(folder.parent / "shared")
            self._plays[number] += 1
            name = f"T{number}" + (f"_{self._plays[number]}" if self._plays[number] > 1 else "")
        return self.over(self._brokers, name, folder, number)

    def begun(self, home: Path) -> Brokers:
        """The brokers, running."""
        brokers = Brokers.of(home, NAMES, 1 << 20)
        for server in brokers.servers:
            server.start()
        return brokers

    def over(self, brokers: Brokers, topic: str, folder: Path, number: int) -> TopicWorld:
        """The world of a topic."""
        return TopicWorld(brokers, topic, TopicRuns(brokers, topic, folder, number))

    def close(self) -> None:
        """Stop the brokers."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None


class JavaKind(TopicKind):
    """The same topics on RocketMQ's own broker 5.5.0."""

    name = "java"

    def begun(self, home: Path) -> Brokers:
        """One Java broker."""
        return java_brokers(home)


class SparkKind(TopicKind):
    """The jobs of topics in real Spark: a tenth of the sequences have a run in a process that is killed."""

    name = "spark"

    def draw(self, chance: random.Random) -> list[Step]:
        """Fewer steps: a job takes a second or two."""
        weights = OF_TOPICS | IN_SPARK | ({"killed": 3} if chance.random() < 0.1 else {})
        return _START + weighted(chance, weights, chance.randrange(4, 9))

    def over(self, brokers: Brokers, topic: str, folder: Path, number: int) -> TopicWorld:
        """The same, with runs in the session."""
        return TopicWorld(brokers, topic, SparkRuns(brokers, topic, folder, number, SESSION))

    def close(self) -> None:
        """Stop the brokers and the session."""
        super().close()
        SESSION.close()


class BrokerKind:
    """Brokers are added, removed, replaced and restored from older copies; each sequence has its own two."""

    name = "broker"

    def draw(self, chance: random.Random) -> list[Step]:
        """The same, with brokers."""
        return _START + weighted(chance, OF_TOPICS | READS | OF_BROKERS, chance.randrange(4, 12))

    def world(self, folder: Path, number: int) -> TopicWorld:
        """One broker runs; the other can be added."""
        brokers = Brokers.of(folder / "brokers", NAMES)
        brokers.servers[0].start()
        return TopicWorld(brokers, f"T{number}", TopicRuns(brokers, f"T{number}", folder, number), brokers)

    def close(self) -> None:
        """Its worlds share nothing."""


class TopicWorld:
    """One topic, the brokers that have it, and the queries that read it."""

    def __init__(self, brokers: Brokers, topic: str, runs: TopicRuns, own: Brokers | None = None) -> None:
        self.brokers = brokers
        self.topic = topic
        self._own = own
        self._sent = 0
        self._queues: dict[str, int] = {}
        self._runs = runs

    def do(self, step: Step) -> str:
        """Do one step."""
        if step.name in JOBS or step.name in SPARK_JOBS:
            return self._runs.do(step) if self.brokers.route(self.topic) or step.name in ("now", "poll") else ""
        said: str = getattr(self, f"_{step.name}")(step)
        self._runs.disturbed = self._runs.disturbed or step.name in DESTRUCTIVE
        return said

    def finish(self) -> str:
        """Read everything once more."""
        names = self._runs.last if self.brokers.route(self.topic) else self._runs.last[1:]
        return "; ".join(self._runs.do(Step(name, (0, 0, 0, 0, 0, 0))) for name in names)

    def close(self) -> None:
        """Stop what is its own."""
        self._runs.close()
        if self._own is not None:
            self._own.close()

    def _server(self, step: Step, place: int) -> Server | None:
        up = self.brokers.up
        return up[step.one(place, len(up))] if up else None

    # -- topics

    def _create(self, step: Step) -> str:
        """On one broker, or on all that run."""
        up = self.brokers.up
        chosen = up if step.pick[1] % 2 else up[: 1 + step.one(0, len(up))]
        queues = 1 + step.one(2, 3)
        for server in chosen:
            self._set(server, queues)
        return f"{self.topic} has {queues} queues on {' and '.join(server.name for server in chosen)}" if chosen else ""

    def _set(self, server: Server, queues: int) -> None:
        self.brokers.set_topic(server, self.topic, queues)
        self._queues[server.name] = queues

    def _delete(self, step: Step) -> str:
        if not self.brokers.route(self.topic):
            return ""
        self._runs.owes()
        self.brokers.delete_topic(self.topic)
        self._queues.clear()
        return f"{self.topic} is deleted"

    def _recreate(self, step: Step) -> str:
        deleted = self._delete(step)
        said = self._create(step)
        return f"{deleted or 'there is no topic'}, then {said}; {self._send(step)}" if said else ""

    def _grow(self, step: Step) -> str:
        return self._resize(step, 1 + step.one(1, 3))

    def _shrink(self, step: Step) -> str:
        return self._resize(step, -1 - step.one(1, 2))

    def _resize(self, step: Step, more: int) -> str:
        server = self._server(step, 0)
        if server is None or server.name not in self.brokers.route(self.topic):
            return ""
        before = self._queues.get(server.name, 1)
        queues = max(before + more, 1)
        self._set(server, queues)
        return f"{self.topic} has {queues} queues on {server.name}, not {before}"

    def _send(self, step: Step) -> str:
        count = 1 + step.one(0, 25)
        return self._put(step, [self._message(step.pick[3] + number, "") for number in range(count)])

    def _poison(self, step: Step) -> str:
        kind = ("poison", "unknown", "packed")[step.one(1, 3)]
        return self._put(step, [self._message(step.pick[3], kind)]) + f" ({kind})"

    def _put(self, step: Step, messages: list[Sent]) -> str:
        route = self.brokers.route(self.topic)
        servers = [server for server in self.brokers.up if server.name in route]
        if not servers:
            return "nothing can be sent"
        said = []
        for place, server in enumerate(servers):
            few = messages[place :: len(servers)]
            queues = route[server.name]
            sent = [Sent(one.queue_id % queues, one.body, one.properties, one.sys_flag) for one in few]
            self.brokers.send(server, self.topic, sent)
            said.append(f"{len(few)} to {server.name}")
        return f"send {' and '.join(said)}"

    def _message(self, chosen: int, kind: str) -> Sent:
        self._sent += 1
        body = f"{self.topic}-{self._sent} ".encode() + b"." * (chosen * 37 % (3000 if self._own else 120))
        flags = {"": 0, "poison": COMPRESSED, "unknown": COMPRESSED | 0x700, "packed": COMPRESSED | 0x300}[kind]
        properties = f"UNIQ_KEY\1{self.topic}-{self._sent}\2TAGS\1{'ABC'[chosen % 3]}\2"
        return Sent(chosen, zlib.compress(body) if kind == "packed" else body, properties, flags)

    # -- brokers

    def _down(self, step: Step) -> str:
        server = self._server(step, 0)
        if server is None:
            return ""
        server.stop()
        return f"{server.name} is removed"

    def _up(self, step: Step) -> str:
        down = [server for server in self.brokers.servers if not server.up]
        if not down:
            return ""
        server = down[step.one(0, len(down))]
        server.start()
        if step.pick[1] % 2 or server.name not in self.brokers.route(self.topic):
            self._set(server, self._queues.get(server.name, 1 + step.one(2, 3)))
        return f"{server.name} is added, {self.topic} has {self.brokers.route(self.topic)[server.name]} queues on it"

    def _replace(self, step: Step) -> str:
        server = self._server(step, 0)
        if server is None:
            return ""
        self._runs.owes()
        server.replace()
        if step.pick[1] % 3:
            self._set(server, self._queues.get(server.name, 1))
        return f"{server.name} is replaced by an empty one" + ("" if step.pick[1] % 3 else f" without {self.topic}")

    def _copy(self, step: Step) -> str:
        server = self._server(step, 0)
        return "" if server is None else f"copy {server.copy()} of {server.name} is taken"

    def _restore(self, step: Step) -> str:
        server = self._server(step, 0)
        if server is None or not server.restore(step.pick[1]):
            return ""
        route = self.brokers.route(self.topic)
        if server.name in route:
            self._queues[server.name] = route[server.name]
        return f"{server.name} is restored from an older copy"

    def _expire(self, step: Step) -> str:
        server = self._server(step, 0)
        return f"the oldest log file of {server.name} expires" if server is not None and server.expire() else ""
