"""Restarts a process of an attack after each end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from abc import ABC, abstractmethod
from pathlib import Path

from proof.kit.processes import ChildProcess


class Supervised(ABC):
    """One process at a time, from `begin` to `end`."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self.process: ChildProcess | None = None
        self.starts = 0
        self._over = False
        """Whether the process is not restarted."""
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start it, and restart it after each end."""
        self._task = asyncio.create_task(self._supervise(), name=self.name)

    @abstractmethod
    async def _supervise(self) -> None:
        """Run processes, one at a time, until `_over`."""

    @property
    def pid(self) -> int:
        """Process id, or 0 while it is down."""
        return self.process.pid if self.process is not None and self.process.running else 0

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal. Returns False while it is down."""
        with contextlib.suppress(ProcessLookupError):
            return self.process is not None and self.process.signal(number)
        return False

    async def _ended(self, patience: float) -> bool:
        """Wait for the end. Returns whether it came within `patience` seconds."""
        if self._task is None:
            return True
        done, _ = await asyncio.wait([self._task], timeout=patience)
        return bool(done)

    async def end(self) -> None:
        """Kill it, if it still runs."""
        self._over = True
        self.signal(signal.SIGKILL)
        if self._task is not None:
            await self._task
            self._task = None
