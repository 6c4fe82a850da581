"""An etcd inside a simulation: members that answer the JSON gateway, and lose their leader and their majority.

Its consensus is taken for right: whatever the members reach a majority with takes effect at one moment, in one order,
and is never lost. All else goes wrong as in a real one: a question takes effect and its answer is lost, or takes effect
long after its asker has given up; a member that is cut off answers nothing; another leads after an election, and all
leases begin again.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from proof.simulation.etcd_history import History, Json

if TYPE_CHECKING:
    from proof.simulation.cluster import Cluster
    from proof.simulation.process import Process

PORT: Final = 2379
LOOK_EVERY_S: Final = 0.25
ELECTION_S: Final = (1.0, 2.0)
"""How long members wait for their leader before they elect another."""
PATIENCE_S: Final = 7.0
"""How long a member tries to get a question to a majority."""
TIMED_OUT: Final = {"error": "etcdserver: request timed out", "code": 14, "message": "etcdserver: request timed out"}
KEPT_SHARE: Final = 0.5
"""Of the questions: they are in a log at once, and take effect when there is a majority, whatever becomes of their
member.
"""


class Question:
    """What a member was asked, until it has an answer."""

    def __init__(self, member: str, path: str, request: Json, kept: bool) -> None:
        self.member = member
        self.path = path
        self.request = request
        self.kept = kept
        self.answer: tuple[int, Json] | None = None
        self.given_up = False


class SimulatedEtcd:
    """All members."""

    def __init__(self, cluster: Cluster, names: Sequence[str]) -> None:
        self.names = names
        self.history = History()
        self.leader = ""
        self.elections = 0
        self._cluster = cluster
        self._chance: random.Random = cluster.network.scheduler.stream("etcd")
        self._without_s = 0.0
        """Since when there is no leader with a majority; 0 while there is one."""
        self._waiting: list[Question] = []

    @property
    def store(self) -> str:
        """`controllerStore` for it."""
        return "etcd:" + ",".join(f"http://{self._cluster.machine(name).ip}:{PORT}" for name in self.names)

    async def start(self, name: str) -> Process:
        """Start a member and wait until it listens."""
        process = self._cluster.start(name, self._member)
        await self._cluster.until(lambda: self._listens(process) or not process.alive, f"{name} listens")
        return process

    async def watch(self) -> None:
        """Elect, end leases, and do what waits for a majority, as long as the simulation runs."""
        while True:
            self._look()
            await self._cluster.sleep(LOOK_EVERY_S)

    # -- who may decide

    def _listens(self, process: Process) -> bool:
        port = self._cluster.network.ports.get((process.host.ip, PORT))
        return port is not None and port.accepted is not None

    def _works(self, name: str) -> bool:
        process = self._cluster.processes.get(name)
        return process is not None and process.alive and not process.paused

    def _reach(self, one: str, other: str) -> bool:
        if one == other:
            return self._works(one)
        ips = [self._cluster.machine(name).ip for name in (one, other)]
        both = all(self._works(name) for name in (one, other))
        return both and self._cluster.network.reachable(ips[0], ips[1])

    def _has_majority(self, name: str) -> bool:
        return 2 * sum(self._reach(name, other) for other in self.names) > len(self.names)

    def _may(self, member: str) -> bool:
        """Whether a member gets a question to a majority now."""
        return bool(self.leader) and self._reach(member, self.leader) and self._has_majority(self.leader)

    def _look(self) -> None:
        now = self._cluster.now
        if self.leader and self._has_majority(self.leader):
            self._without_s = 0.0
        elif not self._without_s:
            self._without_s = now + self._chance.uniform(*ELECTION_S)
        elif now >= self._without_s:
            self._elect(now)
        if self._without_s:
            return
        self.history.expire(now)
        for question in list(self._waiting):
            if question.given_up or self._may(question.member):
                self._waiting.remove(question)
                self._do(question)

    def _elect(self, now: float) -> None:
        able = [name for name in self.names if self._has_majority(name)]
        if not able:
            return
        self.leader, self._without_s = self._chance.choice(able), 0.0
        self.elections += 1
        self.history.renew_all(now)
        self._cluster.note(f"{self.leader} leads etcd")

    # -- questions

    def _do(self, question: Question) -> None:
        question.answer = self.history.answer(question.path, question.request, self._cluster.now)
        if question.given_up:
            self._cluster.note(f"{question.path} by {question.member} takes effect late")

    async def _asked(self, process: Process, path: str, request: Json) -> tuple[int, Json]:
        """What a member answers, as a coroutine of it."""
        await asyncio.sleep(self._took())
        question = Question(process.name, path, request, self._chance.random() < KEPT_SHARE)
        try:
            if self._may(process.name):
                self._do(question)
            else:
                self._waiting.append(question)
                end = self._cluster.now + PATIENCE_S
                while question.answer is None and self._cluster.now < end:
                    await asyncio.sleep(LOOK_EVERY_S)
            await asyncio.sleep(self._took())
        finally:
            if question.answer is None:
                self._give_up(question)
        return question.answer or (503, TIMED_OUT)

    def _give_up(self, question: Question) -> None:
        question.given_up = True
        if question in self._waiting and not question.kept:
            self._waiting.remove(question)

    def _took(self) -> float:
        """A round to the others, or the way back."""
        return self._chance.choice((0.001, 0.001, 0.003, 0.01, 0.1)) * self._chance.uniform(0.5, 1.5)

    # -- a member

    async def _member(self, process: Process) -> None:
        port = process.world.bind(process.host.ip, PORT)
        await port.serve(lambda: _Gateway(self, process))
        await asyncio.Event().wait()


class _Gateway:
    """The asyncio protocol of one connection, which brings one question by HTTP/1.0."""

    def __init__(self, etcd: SimulatedEtcd, process: Process) -> None:
        self._etcd = etcd
        self._process = process
        self._transport: Any = None
        self._data = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, blank, body = self._data.partition(b"\r\n\r\n")
        if not blank or self._task is not None:
            return
        first, *lines = head.decode().split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if len(body) >= int(fields["content-length"]):
            self._task = asyncio.get_running_loop().create_task(self._answer(first.split(" ")[1], json.loads(body)))

    async def _answer(self, path: str, request: Json) -> None:
        status, answer = await self._etcd._asked(self._process, path, request)
        body = json.dumps(answer).encode()
        head = f"HTTP/1.0 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)
        self._transport.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The question takes effect all the same."""

    def pause_writing(self) -> None:
        """An answer is short."""

    def resume_writing(self) -> None:
        """An answer is short."""
