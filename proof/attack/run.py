"""One attack: starts the cluster and its clients, lets faults happen, ends them, and waits until all is as promised."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from proof.attack import journal, verdict
from proof.attack.clients import Client, Progress
from proof.attack.faults import FAULTS, Cluster
from proof.attack.operations import Operator, address_of
from proof.attack.producing import QUEUES, TOPICS
from proof.attack.servers import Server, broker, name_server
from proof.attack.verdict import Verdict
from proof.kit.journal import Follower
from proof.kit.ports import reserve_port
from proof.kit.waiting import holds_within
from proof.ledger import Promises

SMALL_DISK_BYTES: Final = 1 << 30
START_SECONDS: Final = 120.0
PROGRESS_EVERY: Final = 5.0


@dataclass
class Plan:
    """What to do. The same seed makes the same faults in the same order; the processes have a life of their own."""

    seconds: float
    seed: int
    faults: list[str]
    folder: Path
    bound: float
    """Seconds in which everything must work again once the faults end."""
    brokers: int = 2
    producers: int = 2
    consumers: int = 2
    pause: float = 0.05
    """Mean seconds between two messages of a task."""
    at_once: int = 2
    """Faults that may happen at once."""
    mount: bool = True
    only_brokers: bool = False


class Attack:
    """A run of a plan."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.say = say
        self.begin = time.monotonic()
        self.interrupted = asyncio.Event()
        self.resumed: float | None = None
        self.drained: float | None = None
        self.over = 0.0
        self.small_disk: Path | None = None
        self._make()

    def _make(self) -> None:
        plan, folder = self.plan, self.plan.folder
        folder.mkdir(parents=True, exist_ok=True)
        self.small_disk = self._mount(folder / "broker-1") if "full-disk" in plan.faults and plan.mount else None
        self.name_servers = [
            name_server(f"namesrv-{number}", folder / f"namesrv-{number}" / "files", reserve_port(), plan.seed)
            for number in (1, 2)
        ]
        addresses = ";".join(map(address_of, self.name_servers))
        self.brokers = [
            broker(
                f"broker-{number}",
                folder / f"broker-{number}" / "store",
                (reserve_port(), addresses),
                sync=number % 2 == 1,
                seed=plan.seed + number,
            )
            for number in range(1, plan.brokers + 1)
        ]
        self._make_clients(addresses, [server.name for server in self.brokers])
        self.cluster = Cluster(
            self.brokers,
            self.name_servers,
            [*self.producers, *self.consumers],
            self.operator,
            self._say_fault,
            plan.only_brokers,
            self.small_disk,
        )

    def _make_clients(self, namesrv: str, broker_names: list[str]) -> None:
        """Make producers, consumers and the operator, and follow their journals."""
        plan, folder = self.plan, self.plan.folder
        shared = {"namesrv": namesrv}
        self.producers = [
            Client(
                f"producer-{number}",
                "proof.attack.producing",
                {
                    **shared,
                    "seed": plan.seed + number,
                    "first": number,
                    "stride": plan.producers + 1,
                    "pause": plan.pause,
                    "brokers": broker_names,
                },
                folder,
            )
            for number in range(1, plan.producers + 1)
        ]
        self.consumers = [
            Client(f"consumer-{number}", "proof.attack.consuming", {**shared, "seed": plan.seed + number}, folder)
            for number in range(1, plan.consumers + 1)
        ]
        books = [Path(client.setup["journal"]) for client in (*self.producers, *self.consumers)]
        self.operator = Operator(self.brokers, self.name_servers, folder / "operator.journal", plan.seed)
        self.progress = Progress([Follower(path) for path in (*books, folder / "operator.journal")])

    def _mount(self, where: Path) -> Path | None:
        """A small file system for the first broker, where that is allowed."""
        where.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "bolide-attack", str(where)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return None
        return where if done.returncode == 0 else None

    def _say_fault(self, text: str) -> None:
        self.say(f"{time.monotonic() - self.begin:6.1f} s  {text}")

    @property
    def servers(self) -> list[Server]:
        """Name servers and brokers."""
        return [*self.name_servers, *self.brokers]

    # -- the run

    async def run(self) -> Verdict:
        """Everything; the verdict of what happened, also after an interruption."""
        held = False
        try:
            found = await self._run()
            held = found.held
            return found
        finally:
            await self._end_all()
            self._unmount(keep=not held)

    async def _start(self) -> None:
        await self._begin(self.servers)

    async def _begin(self, servers: list[Server]) -> None:
        for server in servers:
            server.ended = self._note_tables
            server.begin()
        names = ", ".join(server.name for server in servers)
        await self._need(lambda: all(one.ready.is_set() for one in servers), START_SECONDS, f"{names} to start")

    async def _run(self) -> Verdict:
        await self._start()
        async with self.operator:
            for server in self.brokers:
                for topic in TOPICS:
                    await self._insist(self.operator.put_topic(server, topic, QUEUES))
            for client in (*self.producers, *self.consumers):
                client.begin()
            wanted = len(self.producers) + len(self.consumers)
            await self._need(lambda: self.progress.ready >= wanted, START_SECONDS, "the clients to start")
            self.begin = time.monotonic()
            self.say("everything runs, the faults begin")
            await self._faults()
            await self._recovery()
        return await self._judged()

    def _note_tables(self, server: Server) -> None:
        tables = [[list(key), value] for key, value in verdict.tables_of(server).items()]
        self.progress.entries.append([time.monotonic(), journal.TABLES, tables])

    async def _insist(self, change: Coroutine[Any, Any, bool]) -> None:
        if not await change:
            raise RuntimeError("a broker without faults refuses a topic: see its log")

    async def _need(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for what must happen before a run means anything. Raises `RuntimeError`."""

        def seen() -> bool:
            self.progress.read()
            return holds()

        if not await holds_within(seen, seconds):
            raise RuntimeError(f"gave up after {seconds:.0f} s waiting for {what}; the logs are in {self.plan.folder}")

    async def _faults(self) -> None:
        """Lanes of faults, each with random numbers of its own, and lines of progress."""
        lanes = [asyncio.create_task(self._lane(number)) for number in range(self.plan.at_once)]
        end = self.begin + self.plan.seconds
        shown = self.begin
        while time.monotonic() < end and not self.interrupted.is_set():
            await asyncio.sleep(0.2)
            self.progress.read()
            if time.monotonic() - shown >= PROGRESS_EVERY:
                shown = time.monotonic()
                self._say_progress()
            for lane in lanes:
                if lane.done():
                    lane.result()  # a fault that cannot be made is an error of this program
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    async def _lane(self, number: int) -> None:
        chance = random.Random(self.plan.seed * 1000 + number)
        while True:
            await asyncio.sleep(chance.expovariate(1.0))
            name = chance.choice(self.plan.faults)
            self.cluster.counts[name] = self.cluster.counts.get(name, 0) + 1
            await FAULTS[name](self.cluster, random.Random(chance.getrandbits(32)))

    def _say_progress(self) -> None:
        counts = self.progress.counts
        self._say_fault(
            f"-- {sum(self.cluster.counts.values())} faults; {self.progress.sent:,} sent,"
            f" {counts.get('done', 0):,} acknowledged, {counts.get('refused', 0):,} refused,"
            f" {counts.get('consumed', 0):,} consumed"
        )

    async def _recovery(self) -> None:
        """End every fault; wait until all brokers take messages, then until everything has been consumed."""
        over = self.over = time.monotonic()
        for server in self.servers:
            server.calm()
        self._say_fault("the faults are over")

        def resumed() -> bool:
            self.progress.read()
            done = self.progress.last_done
            return all(server.ready.is_set() for server in self.servers) and all(
                done.get((server.name, "orders"), 0.0) > over for server in self.brokers
            )

        if await holds_within(resumed, self.plan.bound):
            self.resumed = time.monotonic() - over
            self._say_fault(f"all brokers take messages again after {self.resumed:.1f} s")
        told = sum(client.quiet() for client in self.producers)

        shown = time.monotonic()

        def drained() -> bool:
            nonlocal shown
            self.progress.read()
            if time.monotonic() - shown >= PROGRESS_EVERY:
                shown = time.monotonic()
                waiting = Counter(f"{group} for {topic}" for group, _, topic in self.progress.waiting())
                self._say_fault("-- waiting: " + ", ".join(f"{who} ({count})" for who, count in waiting.items()))
            return self.progress.quiet >= told and not self.progress.waiting()

        if await holds_within(drained, self.plan.bound):
            self.drained = time.monotonic() - over
            self._say_fault(f"everything acknowledged has been consumed after {self.drained:.1f} s")

    async def _judged(self) -> Verdict:
        """Stop everything cleanly, read what is left, and judge."""
        for client in (*self.producers, *self.consumers):
            await client.stop(60.0)
        self.progress.read()
        statuses = {server.name: await server.stop(60.0) for server in reversed(self.servers)}
        promises = Promises(early_s=0.25, late_s=self.plan.bound, faults_over_at=self.over)
        clients = [*self.producers, *self.consumers]
        found = await asyncio.to_thread(
            verdict.of_run, self.servers, clients, self.progress.entries, promises, time.monotonic()
        )
        self._resumption(found, statuses)
        self._figures(found)
        return found

    def _resumption(self, found: Verdict, statuses: dict[str, int | None]) -> None:
        """What must work again after the faults, and how servers end."""
        if self.resumed is None:
            late = [server.name for server in self.servers if not server.ready.is_set()]
            found.wrong(
                "everything resumes", f"not within {self.plan.bound:.0f} s; not ready: {', '.join(late) or '-'}"
            )
        acknowledged = self.progress.waiting()
        waiting = [one for one in acknowledged if one[:2] not in found.passed_over]
        found.figures["passed_over"] = len(acknowledged) - len(waiting)
        if self.drained is None and waiting:
            text = f"{len(waiting)} messages were not consumed within {self.plan.bound:.0f} s: {waiting[:10]}"
            found.wrong("everything resumes", text)
        for name, status in statuses.items():
            if status != 0:
                found.wrong("servers end when told to", f"{name} ended with status {status} at the end")

    def _figures(self, found: Verdict) -> None:
        found.figures.update(
            seed=self.plan.seed,
            seconds=round(self.over - self.begin, 1),
            faults=dict(sorted(self.cluster.counts.items())),
            operator_changes=self.operator.done,
            resumed_after=self.resumed and round(self.resumed, 1),
            drained_after=self.drained and round(self.drained, 1),
        )

    async def _end_all(self) -> None:
        """Whatever still runs ends now."""
        for client in (*self.producers, *self.consumers):
            await client.end()
        for server in self.servers:
            await server.end()

    def _unmount(self, keep: bool) -> None:
        """Take the small file system away; the store in it is copied first, if it is to be looked at."""
        if self.small_disk is None:
            return
        kept = self.plan.folder / "broker-1-kept"
        if keep:
            shutil.copytree(self.small_disk, kept)
        subprocess.run(["umount", "-l", str(self.small_disk)], check=False)
        if keep:
            self.small_disk.rmdir()
            os.rename(kept, self.small_disk)


def room_for_descriptors() -> None:
    """As many descriptors for ourselves as we may have: the children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
