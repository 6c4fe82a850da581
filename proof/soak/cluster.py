"""The processes of a soak: a name server, a broker with everything switched on, and three processes of clients.

Each has a session of its own, so that Ctrl-C reaches only the program that started them; each ends with its standard
input, so that none is left when that program dies.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from proof.kit.processes import ReportingProcess
from proof.kit.waiting import wait_until
from proof.soak.streams import PREFIX, Stream

PATIENCE = {"brokerFastFailureEnable": False, "osPageCacheBusyTimeOutMills": 30_000, "maxParkedSendMillis": 30_000}
"""A slow machine is no fault: sends wait rather than being refused."""
SMALL_FILES = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20 * 500,
    "mappedFileSizeConsumeQueueExt": 64 << 10,
    "mappedFileSizeTimerLog": 52 * 200,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
}
"""Every kind of file rolls within minutes, and its oldest ones go."""
SWITCHED_ON = {
    "enablePropertyFilter": True,
    "enableConsumeQueueExt": True,
    "enableCalcFilterBitMap": True,
    "enabledAppendPropCRC": True,
    "enableLmq": True,
    "enableMultiDispatch": True,
    "traceTopicEnable": True,
    "recallMessageEnable": True,
}
SHORT_TIMES = {
    "transactionTimeOut": 2000,
    "transactionCheckInterval": 2000,
    "cleanResourceInterval": 5000,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    "fileReservedTime": 1,
    "unusedGroupExpireTime": 60_000,
    "filterDataCleanTimeSpan": 60_000,
    "flushConsumeQueueThoroughInterval": 10_000,
    "channelExpiredTimeout": 60_000,
    "diskMaxUsedSpaceRatio": 95,
    "diskSpaceCleanForciblyRatio": 85,
    "diskSpaceWarningLevelRatio": 90,
    "cleanFileForciblyEnable": False,
}
QUICK_FILES = {"mappedFileSizeCommitLog": 64 << 10, "transactionTimeOut": 500, "transactionCheckInterval": 500}
"""For a run of seconds."""
QUEUES = 4
START_S = 120.0
STOP_S = 120.0


class Process(ReportingProcess):
    """A child `python -m MODULE ...` and the newest value of everything that it reported."""

    def __init__(self, name: str, folder: Path, module: str, *arguments: object) -> None:
        super().__init__(name, [sys.executable, "-m", module, *map(str, arguments)], folder)

    @property
    def address(self) -> str:
        """The address of a daemon, or "" if it does not serve yet."""
        return self.ready.rpartition(" ")[2]

    def counts(self) -> dict[str, int]:
        """Return the counts of a client process."""
        found: dict[str, int] = self.said.get("counts", {})
        return found

    def end(self, seconds: float = STOP_S) -> int | None:
        """Close its standard input, wait, kill it if it does not end, and return its exit status."""
        self.close_input()
        try:
            return self.wait(seconds)
        except AssertionError:
            return self.status


class Failed(Exception):
    """The run cannot continue; the text says why."""


class Cluster:
    """Name server and broker, and the clients once they are started."""

    def __init__(self, folder: Path, rate: float, quick: bool) -> None:
        self.folder = folder
        self._client_arguments = ["--rate", str(rate), *(["--quick"] if quick else [])]
        self._quick = quick
        self.processes: list[Process] = []
        self.store = folder / "store"

    def start_servers(self) -> str:
        """Start name server and broker; returns the address of the name server."""
        names = {
            "listenPort": 0, "bindAddress": "127.0.0.1",
            "kvConfigPath": str(self.folder / "kvConfig.json"), "configStorePath": str(self.folder / "namesrv.conf"),
        }  # fmt: skip
        names_process = self._daemon("name server", "namesrv", names)
        settings: dict[str, object] = {
            "brokerName": "soak", "listenPort": 0, "bindAddress": "127.0.0.1", "namesrvAddr": names_process.address,
            "storePathRootDir": str(self.store), **PATIENCE, **SMALL_FILES, **SWITCHED_ON, **SHORT_TIMES,
            **(QUICK_FILES if self._quick else {}),
        }  # fmt: skip
        self._daemon("broker", "broker", settings)
        return names_process.address

    def _daemon(self, name: str, kind: str, settings: dict[str, object]) -> Process:
        process = Process(name, self.folder, "bolide.node.processes", kind, json.dumps(settings))
        self.processes.append(process)
        self.until(lambda: bool(process.ready), START_S, f"the {name}")
        return process

    def start_clients(self, namesrv: str) -> None:
        """Start consumers, then senders and churn."""
        consumers = self._client("consumers", namesrv)
        self.until(lambda: "ready" in consumers.counts(), START_S, "the consumers")
        self._client("senders", namesrv)
        self._client("churn", namesrv)

    def _client(self, name: str, namesrv: str) -> Process:
        process = Process(name, self.folder, f"proof.soak.{name}", namesrv, self.folder, *self._client_arguments)
        self.processes.append(process)
        return process

    def named(self, name: str) -> Process:
        """One of the processes."""
        return next(process for process in self.processes if process.name == name)

    def counts(self) -> dict[str, int]:
        """What all clients have counted."""
        total: dict[str, int] = {}
        for process in self.processes:
            for what, count in process.counts().items():
                total[what] = total.get(what, 0) + count
        return total

    def check(self) -> None:
        """Raise `Failed` if a process has ended."""
        for process in self.processes:
            if not process.running:
                raise Failed(process.how_it_ended())

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until `condition` holds. Raises `Failed` if it does not, or if a process ends."""

        def holds() -> bool:
            if condition():
                return True
            self.check()
            return False

        try:
            wait_until(holds, what, seconds)
        except AssertionError as error:
            raise Failed(str(error)) from None

    def end(self) -> list[str]:
        """Stop everything, the newest first; what did not end well, in words."""
        bad = []
        for process in reversed(self.processes):
            if process.end():
                bad.append(process.how_it_ended())
        return bad


def age_log_files(store: Path, before: float) -> int:
    """Let log files that were last changed before a time (seconds since 1970) look expired; returns how many.

    RocketMQ keeps files for an hour at least. Two newer files stay whatever their time.
    """
    aged = 0
    for file in sorted((store / "commitlog").iterdir())[:-2]:
        try:
            changed = file.stat().st_mtime
        except FileNotFoundError:
            continue  # deleted meanwhile
        if changed >= before:
            break
        if time.time() - changed < 3600:
            os.utime(file, (changed - 7200, changed - 7200))
            aged += 1
    return aged


def topics() -> dict[str, int]:
    """The topics that have to exist before clients use them, and their queues."""
    made = {stream.topic: QUEUES for stream in Stream}
    return {**made, f"{PREFIX}idle": QUEUES, f"%DLQ%{PREFIX}retry": 1}
