"""Producers and consumers as processes, and what their journals say so far."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proof.attack import journal
from proof.attack.consuming import GROUPS, wanted
from proof.attack.fault_shim import ROOT
from proof.attack.supervised import Supervised
from proof.kit.journal import Entry, Follower
from proof.kit.processes import ChildProcess


class Client(Supervised):
    """A client process; one that a fault kills starts again, and continues its journal."""

    def __init__(self, name: str, module: str, setup: dict[str, Any], folder: Path) -> None:
        super().__init__(name, folder / f"{name}.log")
        self.module = module
        self.setup = {**setup, "name": name, "journal": str(folder / f"{name}.journal")}
        self.problems: list[str] = []

    def _command(self, setup: dict[str, Any]) -> list[str]:
        return [sys.executable, "-m", self.module, json.dumps(setup)]

    async def _supervise(self) -> None:
        while not self._over:
            setup = dict(self.setup)
            if "first" in setup:
                # A process that starts again counts on from a number that no earlier one can have reached.
                setup["first"] += self.starts * 1_000_000 * setup["stride"]
            setup["seed"] += self.starts
            self.starts += 1
            self.process = ChildProcess(self._command(setup), self.log, cwd=ROOT, fed=True)  # it contains `proof`
            status = await self.process.ended()
            self.process = None
            if status != 0 and status != -signal.SIGKILL:
                self.problems.append(f"{self.name} ended with status {status}, see {self.log.name}")
                return
            await asyncio.sleep(0.2)

    def quiet(self) -> bool:
        """Tell it to send no more; False when it is down. From now on it does not start again."""
        self._over = True
        if self.process is None:
            return False
        self.process.tell("quiet")
        return True

    async def stop(self, patience: float) -> None:
        """End its standard input, and it when that takes too long."""
        self._over = True
        if self.process is not None:
            self.process.close_input()
        if not await self._ended(patience):
            self.problems.append(f"{self.name} did not close within {patience:.0f} s")
            await self.end()


@dataclass
class Progress:
    """What the journals say so far: enough to show, and to know when everything has been consumed."""

    followers: list[Follower]
    entries: list[Entry] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    last_done: dict[tuple[str, str], float] = field(default_factory=dict)
    """By broker and topic: when the last send was acknowledged."""
    ready: int = 0
    _topic: dict[int, str] = field(default_factory=dict)
    _wanted: dict[int, list[str]] = field(default_factory=dict)
    """By message: the groups that get it once it is acknowledged."""
    _awaited: dict[str, set[int]] = field(default_factory=lambda: {group: set() for group in GROUPS})
    _accepted: dict[str, set[int]] = field(default_factory=lambda: {group: set() for group in GROUPS})
    _listening: dict[str, tuple[str, int]] = field(default_factory=dict)
    quiet: int = 0
    """Producers that have said that they send no more."""

    def read(self) -> None:
        """Take what is new."""
        for follower in self.followers:
            for entry in follower.entries():
                self.entries.append(entry)
                self._take(entry[0], entry[1], entry[2:])

    def _take(self, at: float, what: str, fields: list[Any]) -> None:
        if what == journal.SEND:
            self.sent += 1
            number, topic, _, tags, _, properties, kind = fields[:7]
            self._topic[number] = topic
            appears = kind != "half" or journal.commits(number)
            self._wanted[number] = [
                group
                for group, topics in GROUPS.items()
                if appears and topic in topics and wanted(group, tags, properties)
            ]
        elif what in (journal.DONE, journal.REFUSED, journal.UNKNOWN):
            self.counts[what] = self.counts.get(what, 0) + len(fields[0])
            if what == journal.DONE:
                self.last_done[fields[1], fields[2]] = at
                self._await(fields[0])
        elif what == journal.GOT:
            self._listening[fields[0]] = (fields[1], fields[6])
        elif what == journal.LISTENED:
            group, number = self._listening.pop(fields[0], ("", 0))
            if fields[1]:
                self.counts["consumed"] = self.counts.get("consumed", 0) + 1
                if group in self._accepted:
                    self._accepted[group].add(number)
                    self._awaited[group].discard(number)
        elif what == journal.READY:
            self.ready += 1
        elif what == "quiet":
            self.quiet += 1

    def _await(self, numbers: list[int]) -> None:
        for number in numbers:
            for group in self._wanted[number]:
                if number not in self._accepted[group]:
                    self._awaited[group].add(number)

    def waiting(self) -> list[tuple[str, int, str]]:
        """What was acknowledged and has not been consumed by a group that wants it: group, number, topic."""
        return [(group, number, self._topic[number]) for group, found in self._awaited.items() for number in found]
