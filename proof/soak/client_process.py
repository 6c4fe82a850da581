"""What the client processes of the soak share: they report as JSON lines, and end at a line of standard input."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bolide.node.process.daemon import settle_memory

REPORT_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a client process is told when it starts."""

    namesrv: str
    folder: Path
    rate: float
    quick: bool
    """True for a run of seconds: what is rare happens more often."""


class Told:
    """Counts that the process keeps and reports, and whether it is to stop."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.last_error = ""
        self.stop = asyncio.Event()
        self.leave = asyncio.Event()

    def failed(self, what: str, error: BaseException) -> None:
        """Count something that did not work, and keep its reason."""
        self.counts[f"failed {what}"] += 1
        self.last_error = f"{what}: {type(error).__name__}: {error}"

    def say(self) -> None:
        """One line: the counts, and the blocks of memory that objects occupy once garbage is collected."""
        gc.collect()
        line = {"counts": dict(self.counts), "blocks": sys.getallocatedblocks(), "error": self.last_error}
        print(json.dumps(line), flush=True)


async def _listen(told: Told) -> None:
    """The first line of standard input stops the traffic, the second one (or its end) the process."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    first = await reader.readline()
    told.stop.set()
    if first:
        await reader.readline()
    told.leave.set()


async def _report(told: Told) -> None:
    while True:
        told.say()
        await asyncio.sleep(REPORT_EVERY_S)


async def _run(work: Callable[[Arguments, Told], Awaitable[None]], given: Arguments) -> None:
    told = Told()
    listening = asyncio.create_task(_listen(told))
    reporting = asyncio.create_task(_report(told))
    settle_memory()
    try:
        await work(given, told)
    finally:
        told.say()
        for task in (listening, reporting):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def run_client(about: str, work: Callable[[Arguments, Told], Awaitable[None]]) -> None:
    """Parse the arguments of a client process and run its work until it returns."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("namesrv")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started this one
    asyncio.run(_run(work, Arguments(given.namesrv, given.folder, given.rate, given.quick)))


def now_ms() -> int:
    """The time of day."""
    return time.time_ns() // 1_000_000


async def pause(seconds: float, told: Told) -> bool:
    """Wait; False at once when the traffic is to stop."""
    if told.stop.is_set():
        return False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0)):
            await told.stop.wait()
    return not told.stop.is_set()
