"""The two clusters, and one request to both: what each answers, and what it knows of earlier answers."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from proof.differential.connection import Closed, Connection
from proof.differential.steps import BROKER, Step
from proof.interop.java_processes import JavaBroker, JavaNameServer
from proof.kit.children import ended_if_it_fails
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.waiting import wait_until
from proof.reader.frames import AS_JAVA, Frame

ANSWER_SECONDS: Final = 60.0
"""How long one side may take longer than the other."""
SILENT_SECONDS: Final = 1.5
"""After so long without an answer of either side, there is none."""
SETTINGS: Final = {
    "flushDiskType": "ASYNC_FLUSH",
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "transactionCheckInterval": "86400000",
    "timerWheelEnable": "true",
    "fileReservedTime": "100000",
}
SILENT: Final = "no answer"
CLOSED: Final = "the connection is closed"
Answer = Frame | str
"""What came: a frame, `SILENT` or `CLOSED`."""
_RELAYED: Final = {
    221: b'{"messageQueueTable":{}}',
    307: b'{"mqTable":{},"properties":{"PROP_CLIENT_VERSION":"V5_5_0"},"statusTable":{},"subscriptionSet":[]}',
    309: b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":1}',
}
"""What the raw clients answer to a broker that asks them on behalf of an operator."""


@dataclass
class Side:
    """One of the two clusters, as a run sees it: connections of its own, and its answers by step."""

    name: str
    broker: str
    namesrv: str
    answers: dict[int, Frame] = field(default_factory=dict)
    patience: float = ANSWER_SECONDS
    _open: dict[tuple[str, int], Connection] = field(default_factory=dict)

    def send(self, step: Step, names: Names) -> tuple[Connection, int] | None:
        """Send a step; None if the connection is closed."""
        ext, body = step.filled(lambda name, number: names.value(name, number, self))
        connection = self.connection(step.server, step.connection)
        try:
            return connection, connection.send(step.code, ext, body, step.manner)
        except Closed:
            self.drop(connection)
            return None

    def wait(self, sent: tuple[Connection, int], seconds: float) -> Answer:
        """The answer to what was sent; other connections are read, too, as a client may be asked on one of them."""
        connection, opaque = sent
        end = time.monotonic() + seconds
        while True:
            answer = connection.take(opaque)
            if answer is not None:
                return answer
            left = end - time.monotonic()
            if left <= 0:
                return SILENT
            for each in select.select(list(self._open.values()), (), (), left)[0]:
                try:
                    each.read_arrived()
                except Closed:
                    self.drop(each)
                    if each is connection:
                        return connection.take(opaque) or CLOSED
                else:
                    self._relay(each)

    def ask(self, server: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Frame:
        """Ask this side alone, on the first connection. Raises `Closed` or `TimeoutError`."""
        connection = self.connection(server, 0)
        answer = self.wait((connection, connection.send(code, ext, body, AS_JAVA)), ANSWER_SECONDS)
        if isinstance(answer, str):
            raise Closed if answer == CLOSED else TimeoutError(f"{self.name} does not answer request {code}")
        return answer

    def connection(self, server: str, number: int) -> Connection:
        """The connection with a number, opened at its first use."""
        found = self._open.get((server, number))
        if found is None:
            found = self._open[server, number] = Connection(self.broker if server == BROKER else self.namesrv)
        return found

    def drop(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        connection.close()
        self._open = {key: each for key, each in self._open.items() if each is not connection}

    def begin(self) -> None:
        """Close all connections and forget all answers."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        self.answers.clear()

    def clients(self, server: str) -> dict[str, str]:
        """The addresses of our ends of the connections to a server, as it sees them."""
        return {each.own_address: f"<connection {number}>" for (to, number), each in self._open.items() if to == server}

    def _relay(self, connection: Connection) -> None:
        for request in connection.requests:
            body = _RELAYED.get(request.code)
            if body is not None:
                connection.reply(request.opaque, body)
        connection.requests.clear()


@dataclass(frozen=True)
class Names:
    """The names of a run, the same on both sides."""

    run: str
    now: int

    def value(self, name: str, number: int | None, side: Side) -> str:
        """What a placeholder means."""
        if number is not None:
            return _answered(name, side.answers.get(number))
        if name == "now":
            return str(self.now)
        if name == "later":
            return str(self.now + 3_600_000)
        if name.startswith("long"):
            return self.of("T8").ljust(int(name[4:]), "x")
        return self.of(name)

    def of(self, name: str) -> str:
        """A topic, group, client or broker."""
        return f"df{self.run}{name}"


def _answered(name: str, answer: Frame | None) -> str:
    ext = answer.ext if answer is not None else {}
    if name == "physical":
        first = ext.get("msgId", "").split(",")[0]
        return str(int(first[-16:], 16)) if len(first) in (32, 56) else "0"
    return ext.get(name, "0")


def ask_both(step: Step, names: Names, ours: Side, java: Side) -> tuple[Answer, Answer]:
    """Send a step to both sides and wait for both answers."""
    sent = [side.send(step, names) for side in (ours, java)]
    found: list[Answer | None] = [CLOSED if each is None else None for each in sent]
    if step.oneway:
        return SILENT, SILENT
    for seconds in (SILENT_SECONDS, SILENT_SECONDS / 4, ours.patience):
        for place, side in enumerate((ours, java)):
            mine = sent[place]
            if mine is not None and (found[place] is None or found[place] == SILENT):
                found[place] = side.wait(mine, seconds)
        if all(each == SILENT for each in found) or SILENT not in found:
            break  # both are silent, or both have answered; otherwise the slower one gets more time
    for side, answer in zip((ours, java), found, strict=True):
        if isinstance(answer, Frame):
            side.answers[step.number] = answer
    return found[0] or SILENT, found[1] or SILENT


@contextmanager
def clusters(folder: Path) -> Iterator[tuple[Side, Side]]:
    """Bolide's name server and broker, and RocketMQ's, as processes. None outlives this, however it ends."""
    with ended_if_it_fails(), ExitStack() as stack:
        java_namesrv = JavaNameServer(folder / "java-namesrv")
        stack.callback(java_namesrv.kill)
        our_namesrv = OurNameServer(folder / "our-namesrv")
        stack.callback(our_namesrv.kill)
        our_broker = OurBroker(folder / "our-broker", our_namesrv.address, SETTINGS)
        stack.callback(our_broker.kill)
        java_broker = JavaBroker(folder / "java-broker", java_namesrv.address, SETTINGS)
        stack.callback(java_broker.kill)
        ours = Side("Bolide", our_broker.address, our_namesrv.address)
        java = Side("RocketMQ", java_broker.address, java_namesrv.address)
        wait_until(lambda: ours.ask("namesrv", 105, {"topic": "TBW102"}).code == 0, "our broker registers")
        yield ours, java
