"""The faults of an attack. Each begins at a random moment, lasts a random time, and leaves a cluster able to continue.

A fault is a coroutine function: it takes the cluster and the random numbers of the run, says on one line what it does,
and undoes it before it returns, also when it is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from proof.attack.clients import Client
from proof.attack.fault_shim import CHANGES, GROWS, Action, Call, Rule
from proof.attack.operations import Operator
from proof.attack.servers import Server

PARTS: Final = ("*/commitlog*", "*/consumequeue*", "*/index*", "*/config*", "*/timer*", "*/checkpoint*", "")
"""Where in a store a fault is: each kind of file, or any."""
TABLES: Final = ("*/topics.json*", "*/subscriptionGroup.json*", "*/broker.conf*", "*/kvConfig.json*")
"""What an operator's changes are written to."""
ERRORS: Final = (errno.EIO, errno.EIO, errno.ENOSPC, errno.EMFILE, errno.ENOMEM)


@dataclass
class Cluster:
    """What faults are aimed at."""

    brokers: list[Server]
    name_servers: list[Server]
    clients: list[Client]
    operator: Operator
    say: Callable[[str], None]
    only_brokers: bool = False
    """Leave name servers and clients alone, after whose ends clients wait for half a minute, as RocketMQ's do."""
    small_disk: Path | None = None
    """Where a small file system with the store of the first broker is mounted; None: the shim says that it is full."""
    busy: set[str] = field(default_factory=set)
    """Names of servers that a fault has now: two faults at one server would undo each other."""
    counts: dict[str, int] = field(default_factory=dict)
    operating: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def one_of(self, servers: list[Server], chance: random.Random) -> Iterator[Server | None]:
        """Take a server that no other fault has; None when there is none."""
        free = [server for server in servers if server.name not in self.busy]
        server = chance.choice(free) if free else None
        with self.all_of([server] if server is not None else []):
            yield server

    @contextmanager
    def all_of(self, servers: list[Server]) -> Iterator[None]:
        """Take these servers."""
        names = {server.name for server in servers}
        self.busy |= names
        try:
            yield
        finally:
            self.busy -= names

    @property
    def servers(self) -> list[Server]:
        """Brokers, more often than name servers."""
        if self.only_brokers:
            return self.brokers
        return [*self.brokers, *self.brokers, *self.name_servers]


Fault = Callable[[Cluster, random.Random], Awaitable[None]]


@contextmanager
def struck(server: Server, *rules: Rule) -> Iterator[list[int]]:
    """Rules that are on during the block."""
    numbers = [server.page.strike(rule) for rule in rules]
    try:
        yield numbers
    finally:
        for number in numbers:
            server.page.lift(number)


async def kill(cluster: Cluster, chance: random.Random) -> None:
    """SIGKILL a server or a client; it stays down for a moment."""
    if chance.random() < 0.2 and not cluster.only_brokers:
        client = chance.choice(cluster.clients)
        if client.signal(signal.SIGKILL):
            cluster.say(f"kill {client.name}")
        return
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None:
            return
        down = chance.uniform(0, 2)
        server.hold()
        try:
            if server.signal(signal.SIGKILL):
                cluster.say(f"kill {server.name}, down for {down:.1f} s")
                await asyncio.sleep(down)
        finally:
            server.release()


async def stop(cluster: Cluster, chance: random.Random) -> None:
    """SIGSTOP a server or a client, and SIGCONT."""
    seconds = chance.uniform(0.2, 6)
    if chance.random() < 0.25 and not cluster.only_brokers:
        client = chance.choice(cluster.clients)
        if client.signal(signal.SIGSTOP):
            cluster.say(f"stop {client.name} for {seconds:.1f} s")
            try:
                await asyncio.sleep(seconds)
            finally:
                client.signal(signal.SIGCONT)
        return
    with cluster.one_of(cluster.servers, chance) as server:
        if server is not None and server.signal(signal.SIGSTOP):
            cluster.say(f"stop {server.name} for {seconds:.1f} s")
            try:
                await asyncio.sleep(seconds)
            finally:
                server.signal(signal.SIGCONT)


async def kill_start(cluster: Cluster, chance: random.Random) -> None:
    """Kill a broker, and kill it again while it starts and recovers: after some time, or at one of its calls."""
    with cluster.one_of(cluster.brokers, chance) as server:
        if server is None or not server.signal(signal.SIGKILL):
            return
        times = chance.randint(1, 3)
        by_call = chance.random() < 0.6
        cluster.say(f"kill {server.name}, and {times} times while it starts, {'at a call' if by_call else 'by time'}")
        for _ in range(times):
            starts = server.starts
            if by_call:
                with struck(server, deadly(chance, most=60)):
                    await _until_new_end(server, starts, 6.0)
            else:
                await _until_started(server, starts)
                await asyncio.sleep(chance.uniform(0.1, 1.5))
                server.signal(signal.SIGKILL)


def deadly(chance: random.Random, most: int) -> Rule:
    """A rule by which a process dies at one of its next calls that change the disk, before, in or after it."""
    action = chance.choice((Action.KILL_BEFORE, Action.KILL_AFTER, Action.KILL_TORN))
    return Rule(CHANGES, action, path=chance.choice(PARTS), skip=chance.randrange(most), left=1)


async def _until_started(server: Server, starts: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            while server.starts == starts:
                await asyncio.sleep(0.02)


async def _until_new_end(server: Server, starts: int, seconds: float) -> None:
    """Wait until a process that starts from now on has ended, or serves."""
    await _until_started(server, starts)
    ends = len(server.ends)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while len(server.ends) == ends and not server.ready.is_set():
                await asyncio.sleep(0.02)


async def kill_call(cluster: Cluster, chance: random.Random) -> None:
    """A running server dies before, in or after one of its calls that change the disk."""
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None or not server.pid:
            return
        rule = deadly(chance, most=200)
        name, where = rule.action.name.lower().replace("_", " "), rule.path or "any file"
        cluster.say(f"{name} call {rule.skip} of {server.name} on {where}")
        ends = len(server.ends)
        with struck(server, rule):
            for _ in range(100):
                if len(server.ends) > ends:
                    return
                await asyncio.sleep(0.05)


async def full_disk(cluster: Cluster, chance: random.Random) -> None:
    """No room is left: in the small file system of the first broker, or as the shim says."""
    seconds = chance.uniform(0.5, 6)
    if cluster.small_disk is not None and chance.random() < 0.5:
        first = cluster.brokers[0]
        if first.name in cluster.busy:
            return
        with cluster.all_of([first]):
            left = chance.choice((0, 4096, 65536, 300_000))
            cluster.say(f"fill the disk of {first.name} up to {left} bytes for {seconds:.1f} s")
            first.strained = True
            ballast = cluster.small_disk / "ballast"
            try:
                _fill(ballast, left)
                await asyncio.sleep(seconds)
            finally:
                ballast.unlink(missing_ok=True)
        return
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None:
            return
        # Either only what takes new blocks fails, or every write, as on a file system that never writes in place.
        calls = GROWS if chance.random() < 0.5 else GROWS & ~Call.WRITE
        cluster.say(f"no room for {server.name}{' to write' if calls & Call.WRITE else ''} for {seconds:.1f} s")
        full = Rule(Call.STATVFS, Action.FAIL, errno.ENOSPC)
        with struck(server, Rule(calls, Action.FAIL, errno.ENOSPC), full):
            await asyncio.sleep(seconds)


def _fill(ballast: Path, left: int) -> None:
    found = os.statvfs(ballast.parent)
    fd = os.open(ballast, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        size = found.f_bavail * found.f_frsize - left
        if size > 0:
            with contextlib.suppress(OSError):  # the broker took some of it meanwhile
                os.posix_fallocate(fd, 0, size)
    finally:
        os.close(fd)


async def slow_disk(cluster: Cluster, chance: random.Random) -> None:
    """Reads, writes and syncs take long."""
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None:
            return
        seconds, delay = chance.uniform(1, 8), chance.choice((0.002, 0.01, 0.05, 0.2, 0.8))
        calls = chance.choice((Call.SYNC, Call.WRITE, Call.READ, Call.READ | Call.WRITE | Call.SYNC))
        share = chance.choice((0.1, 0.5, 1.0))
        names = str(calls.name).lower().replace("|", ", ")
        cluster.say(f"slow disk of {server.name}: {names} {delay * 1000:.0f} ms for {seconds:.1f} s")
        with struck(server, Rule(calls, Action.DELAY, delay=delay, chance=share)):
            await asyncio.sleep(seconds)


async def sync(cluster: Cluster, chance: random.Random) -> None:
    """A sync fails: the log's ends the broker."""
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None:
            return
        where, times = chance.choice(PARTS), chance.randint(1, 3)
        cluster.say(f"{times} syncs of {server.name} on {where or 'any file'} fail")
        with struck(server, Rule(Call.SYNC, Action.FAIL, errno.EIO, path=where, left=times)):
            await asyncio.sleep(chance.uniform(0.5, 4))


async def errors(cluster: Cluster, chance: random.Random) -> None:
    """Calls fail with an error, whichever, some of them or all."""
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None:
            return
        calls = Call(0)
        for call in chance.sample(list(CHANGES | Call.OPEN | Call.READ), chance.randint(1, 3)):
            calls |= call
        calls &= ~Call.SYNC
        error, where = chance.choice(ERRORS), chance.choice(PARTS)
        action = Action.TORN if chance.random() < 0.3 else Action.FAIL
        rule = Rule(calls, action, error, path=where, chance=chance.choice((0.02, 0.2, 1.0)))
        names = (str(calls.name) or "sync").lower().replace("|", ", ")
        seconds = chance.uniform(0.2, 3)
        text = f"{errno.errorcode[error]} for {names} of {server.name} on {where or 'any file'}"
        cluster.say(f"{text}, {rule.chance:.0%}, for {seconds:.1f} s")
        with struck(server, rule):
            await asyncio.sleep(seconds)


async def short_writes(cluster: Cluster, chance: random.Random) -> None:
    """Writes write less than they were given, and say so."""
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None:
            return
        seconds = chance.uniform(1, 6)
        cluster.say(f"short writes of {server.name} for {seconds:.1f} s")
        with struck(server, Rule(Call.WRITE, Action.SHORT, chance=chance.choice((0.2, 0.6)))):
            await asyncio.sleep(seconds)


async def descriptors(cluster: Cluster, chance: random.Random) -> None:
    """Hardly a descriptor is left, and clients connect."""
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None:
            return
        seconds, spare = chance.uniform(0.5, 5), chance.randint(0, 3)
        if not server.limit_descriptors(spare):
            return
        cluster.say(f"{server.name} may open {spare} more files for {seconds:.1f} s")
        held: list[socket.socket] = []
        try:
            for _ in range(5):
                one = socket.socket()
                one.setblocking(False)
                with contextlib.suppress(OSError):
                    one.connect(("127.0.0.1", int(str(server.flags["listenPort"]))))
                held.append(one)
            await asyncio.sleep(seconds)
        finally:
            for one in held:
                one.close()
            server.restore_descriptors()


async def clock(cluster: Cluster, chance: random.Random) -> None:
    """The wall clock of a server that serves steps, and steps back in less time than a clock needs to be believed.

    One that starts believes the clock that it starts with, as RocketMQ's do: its timers would be due a day later.
    """
    with cluster.one_of(cluster.servers, chance) as server:
        if server is None or not server.ready.is_set():
            return
        step = chance.choice((-86_400, -3_600, -60, -2, 2, 60, 3_600, 86_400))
        seconds = chance.uniform(0.5, 20)
        cluster.say(f"wall clock of {server.name} {step:+,} s for {seconds:.1f} s")
        server.page.clock(step)
        try:
            await asyncio.sleep(seconds)
        finally:
            server.page.clock(0.0)


async def name_servers(cluster: Cluster, chance: random.Random) -> None:
    """All name servers are gone."""
    if cluster.only_brokers or any(server.name in cluster.busy for server in cluster.name_servers):
        return
    with cluster.all_of(cluster.name_servers):
        seconds = chance.uniform(1, 8)
        cluster.say(f"no name server for {seconds:.1f} s")
        try:
            for server in cluster.name_servers:
                server.hold()
                server.signal(signal.SIGKILL)
            await asyncio.sleep(seconds)
        finally:
            for server in cluster.name_servers:
                server.release()


async def operator(cluster: Cluster, chance: random.Random) -> None:
    """Somebody changes topics, groups, keys and settings; at times a server dies while it writes one of these."""
    async with cluster.operating:
        with cluster.one_of(cluster.servers, chance) as server:
            armed = server is not None and server.pid and chance.random() < 0.4
            with contextlib.ExitStack() as stack:
                if server is not None and armed:
                    action = chance.choice((Action.KILL_BEFORE, Action.KILL_AFTER, Action.KILL_TORN))
                    rule = Rule(CHANGES, action, path=chance.choice(TABLES), skip=chance.randrange(6), left=1)
                    cluster.say(f"{server.name} may die while it writes {rule.path}")
                    stack.enter_context(struck(server, rule))
                for _ in range(chance.randint(1, 4)):
                    cluster.say("operator: " + await cluster.operator.change_something())


FAULTS: Final[dict[str, Fault]] = {
    "kill": kill,
    "stop": stop,
    "kill-start": kill_start,
    "kill-call": kill_call,
    "full-disk": full_disk,
    "slow-disk": slow_disk,
    "sync": sync,
    "errors": errors,
    "short-writes": short_writes,
    "descriptors": descriptors,
    "clock": clock,
    "name-servers": name_servers,
    "operator": operator,
}
