"""Name servers and brokers as processes that load the fault shim, and start again however they end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proof.attack.fault_shim import Page
from proof.attack.supervised import Supervised
from proof.kit.processes import READY, ChildProcess

FAILED: Final = 1
DAMAGED: Final = 2
STORE_FAILED: Final = 74
LONGEST_WRONG_CLOCK: Final = 3.0
"""A process starts with the right clock, or one that is wrong by so many seconds: what it stores with the date of
another year would have to wait until then.
"""
LEVELS: Final = "1s 2s 1s 2s 3s 1s 1s 2s 2s 3s 3s 3s 3s 3s 3s 3s 3s 3s"
"""Delay levels short enough that retries and delays come within a run."""
BROKER: Final[dict[str, object]] = {
    "messageDelayLevel": LEVELS,
    "mappedFileSizeCommitLog": 4 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "mappedFileSizeTimerLog": 1 << 20,
    "maxHashSlotNum": 2_000,
    "maxIndexNum": 8_000,
    "transactionTimeOut": 2_000,
    "transactionCheckInterval": 2_000,
    "transactionCheckMax": 1_000,
    "registerNameServerPeriod": 10_000,
    "flushConsumerOffsetInterval": 1_000,
    "flushConsumeQueueThoroughInterval": 3_000,
    "flushDelayOffsetInterval": 1_000,
    "cleanResourceInterval": 1_000,
    "cleanFileForciblyEnable": False,
    "fileReservedTime": 1_000_000,
    "autoCreateTopicEnable": False,
    "enablePropertyFilter": True,
    "enableCalcFilterBitMap": True,
    "enableConsumeQueueExt": True,
    "timerPrecisionMs": 200,
}
"""Small files, so that rolls happen often; short intervals; and nothing is ever deleted for its age or for room."""


@dataclass
class End:
    """How a process ended: its status, and what it said. `wanted`: by SIGKILL, or when told to. `strained`: a fault met
    it, so that it may give up.
    """

    at: float
    status: int
    said: str
    wanted: bool
    strained: bool
    served: bool
    """Whether it got so far as to serve."""

    def problem(self) -> str:
        """What is wrong with this end; "" for nothing."""
        if self.wanted or (self.strained and self.status in (FAILED, STORE_FAILED)):
            return ""
        if self.strained and not self.served and self.status == -signal.SIGABRT:
            return ""  # libuv aborts when its first pipe cannot be made for lack of descriptors
        if self.status == DAMAGED:
            return f"refused to start: {self.said}"
        return f"ended with status {self.status}: {self.said or 'it said nothing'}"


class Server(Supervised):
    """One process of the cluster. `hold` keeps it down after its end; `release` lets it start again."""

    def __init__(self, name: str, kind: str, flags: dict[str, object], folder: Path, seed: int) -> None:
        home = folder.parents[1]  # not on the disk that becomes full
        super().__init__(name, home / f"{name}.log")
        self.kind = kind
        self.flags = flags
        self.folder = folder
        self.page = Page(home / f"{name}.page", seed)
        self.ready = asyncio.Event()
        self.ends: list[End] = []
        self.ended: Callable[[Server], None] = lambda server: None
        """Called after each end, before the next start."""
        self.struck = 0
        """Calls that rules of the page have hit."""
        self.strained = False
        """A fault that the page does not count has met it since its start."""
        self._wanted: set[int] = set()
        self._released = asyncio.Event()
        self._released.set()
        self._said = ""
        self._random = random.Random(seed)
        self._limits: tuple[int, int] | None = None

    # -- life

    async def _supervise(self) -> None:
        while not self._over:
            self.ends.append(await self._run_once())
            self.ended(self)
            if not self._over:
                end = self.ends[-1]
                await asyncio.sleep(self._random.uniform(0.02, 0.3) if end.wanted else 0.5)
            await self._released.wait()

    async def _run_once(self) -> End:
        if abs(self.page.clock_ahead) > LONGEST_WRONG_CLOCK:
            self.page.clock(0.0)
        self.strained = False
        hits = self.page.total_hits()
        self._said = ""
        loop = asyncio.get_running_loop()
        process = self.process = ChildProcess(
            self.command(),
            self.log,
            self.environment(),
            fed=True,  # it follows its standard input, so it ends with this process
            heard=lambda line: loop.call_soon_threadsafe(self._hear, line),
        )
        self.starts += 1
        asking = asyncio.create_task(self.until_serves(process))
        try:
            status = await process.ended()
            await asyncio.sleep(0)  # `_hear` runs for the last lines
            served = self.ready.is_set()
        finally:
            asking.cancel()
            self.ready.clear()
            self.process = None
        self._limits = None
        self.struck = self.page.total_hits()
        wanted = status == -signal.SIGKILL or (status == 0 and process.pid in self._wanted)
        return End(time.monotonic(), status, self._said, wanted, self.strained or self.struck > hits, served)

    def _hear(self, line: str) -> None:
        if line.startswith(READY):
            self.ready.set()
        elif line.strip():
            self._said = line.strip()

    async def until_serves(self, process: ChildProcess) -> None:
        """Set `ready` once it serves. Does nothing for a server with a ready line."""

    def command(self) -> list[str]:
        """What is run."""
        return [sys.executable, "-m", "bolide.node.processes", self.kind, json.dumps(self.flags)]

    def environment(self) -> dict[str, str]:
        """With what: the shim."""
        return self.page.environment(self.folder)

    # -- what faults do

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False when it is down. After SIGTERM a clean end is wanted."""
        if number is signal.SIGTERM:
            self._wanted.add(self.pid)
        return super().signal(number)

    def hold(self) -> None:
        """Do not start it again for now."""
        self._released.clear()

    def release(self) -> None:
        """Start it again when it is down."""
        self._released.set()

    def limit_descriptors(self, spare: int) -> int:
        """Leave it `spare` descriptors beyond those open; how many may be open, 0 when it is down."""
        pid = self.pid
        if not pid:
            return 0
        try:
            used = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            self._limits = self._limits or (soft, hard)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(used + spare, hard), hard))
            self.strained = True
        except (OSError, ValueError):  # it ended just now
            return 0
        return used + spare

    def restore_descriptors(self) -> None:
        """Give it the descriptors it had at first."""
        if self._limits is not None and self.pid:
            with contextlib.suppress(OSError):
                resource.prlimit(self.pid, resource.RLIMIT_NOFILE, self._limits)
        self._limits = None

    def calm(self) -> None:
        """End every fault: the process runs, or will."""
        self.page.calm()
        self.restore_descriptors()
        self.signal(signal.SIGCONT)
        self.release()

    # -- the end

    async def stop(self, patience: float) -> int | None:
        """Stop it cleanly; its status, or None when it had to be killed."""
        self._over = True
        self.release()
        told = self.signal(signal.SIGTERM)
        begun, done = self._task is not None, await self._ended(patience)
        await self.end()
        return self.ends[-1].status if begun and told and done and self.ends else None

    async def end(self) -> None:
        """Kill it, if it still runs."""
        self.release()
        begun = self._task is not None
        await super().end()
        if begun:
            self.page.close()


def name_server(name: str, folder: Path, port: int, seed: int) -> Server:
    """A name server that keeps its files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    flags: dict[str, object] = {
        "listenPort": port,
        "kvConfigPath": str(folder / "kvConfig.json"),
        "configStorePath": str(folder / "namesrv.conf"),
    }
    return Server(name, "namesrv", flags, folder, seed)


def broker(name: str, folder: Path, ports: tuple[int, str], *, sync: bool, seed: int) -> Server:
    """A broker; `ports` are its own and the addresses of the name servers."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = {
        **BROKER,
        "brokerName": name,
        "storePathRootDir": str(folder),
        "listenPort": ports[0],
        "namesrvAddr": ports[1],
        "flushDiskType": "SYNC_FLUSH" if sync else "ASYNC_FLUSH",
    }
    settings = "".join(f"{key}={str(value).lower()}\n" for key, value in BROKER.items())
    conf_of(folder).write_text(settings, "utf-8")
    return Server(name, "broker", flags, folder, seed)


def conf_of(folder: Path) -> Path:
    """The settings of a broker as a file, for programs that open its store."""
    return folder.parents[1] / f"{folder.parent.name}.conf"
