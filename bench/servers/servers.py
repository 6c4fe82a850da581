"""The servers under measurement as processes: a Java broker, a Bolide broker, the null server."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from bench.loads.generator import program
from bench.servers.stopping import Failed, last_line

from proof.interop.java_processes import JavaBroker
from proof.kit.our_processes import OurBroker
from proof.kit.processes import ChildProcess
from proof.kit.waiting import wait_until

# What bin/runbroker.sh of the release gives the JVM, with a heap of 2 GB.
JAVA_FLAGS = (
    "-server",
    "-Xms2g",
    "-Xmx2g",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:+AlwaysPreTouch",
    "-XX:MaxDirectMemorySize=15g",
)
_INTERRUPT_SECONDS = 20.0
_FLUSH = {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"}


class Server(Protocol):
    """What a round needs of a server."""

    port: int

    @property
    def pid(self) -> int:
        """Process id."""

    def pause(self) -> None:
        """Take no processor time while another is measured."""

    def resume(self) -> None:
        """Resume."""

    def kill(self) -> None:
        """End at once."""


def java_broker(
    home: Path, flush: str, ready_seconds: float = 60.0, settings: Mapping[str, str] | None = None
) -> JavaBroker:
    """A Java 5.5.0 broker with its own defaults, but for `settings`, and no name server."""
    values = {"flushDiskType": _FLUSH[flush], **(settings or {})}
    return JavaBroker(home, "", values, flags=JAVA_FLAGS, ready_seconds=ready_seconds)


class BolideBroker(OurBroker):
    """A Bolide broker of this program's environment, or `python`'s, and no name server.

    It has its own defaults, but for `settings`.
    """

    def __init__(
        self,
        home: Path,
        flush: str,
        ready_seconds: float = 60.0,
        python: str = sys.executable,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        values = {"flushDiskType": _FLUSH[flush], **(settings or {})}
        super().__init__(home, "", values, as_shipped=True, ready_seconds=ready_seconds, python=python)


class NullServer(ChildProcess):
    """Answers sends, commits and pulls, these with records of one size, and stores nothing."""

    def __init__(self, home: Path, record: int = 366) -> None:
        home.mkdir(parents=True, exist_ok=True)
        super().__init__([str(program("null_server")), "0", str(record)], home / "null.out")
        self.wait_ready("ready")
        self.port = int(self.output().split()[1])


class DispatchOnSpark(ChildProcess):
    """`bolide pipeline dispatch --in-place` of the environment this program runs in; it ends by itself."""

    def __init__(self, store: Path, log: Path, master: str) -> None:
        words = ["-m", "bolide.cli", "pipeline", "dispatch", str(store), "--in-place", "--master", master, "--json"]
        super().__init__([sys.executable, *words], log)

    def finish(self, seconds: float) -> dict[str, float]:
        """Wait for its end; the seconds of its stages. Raises Failed with its reason unless it did what it should."""
        try:
            wait_until(lambda: not self.running, "the rebuild ends", seconds)
        except AssertionError:
            raise Failed(f"the rebuild on Spark did not end within {seconds:.0f} s") from None
        if self.status:
            raise Failed(f"the rebuild on Spark failed: {last_line(self.output())}")
        try:
            report = json.loads(self.output()[self.output().index("\n{\n") :])
        except ValueError:
            raise Failed(f"the rebuild on Spark told no stages: {last_line(self.output())}") from None
        return dict(report["stages"])

    def interrupt(self) -> None:
        """If it still runs, let it and Spark's JVM take away what they made; then end what is left of them."""
        if not self.running:
            return
        os.kill(self.pid, signal.SIGINT)
        try:
            wait_until(lambda: not self.running and not self._group_lives(), "the rebuild ends", _INTERRUPT_SECONDS)
        except AssertionError:
            self.kill()

    def progress(self) -> str:
        """The line that says how far a stage is, if one runs."""
        line = last_line(self.output())
        return line if line.endswith((" left", "/s")) else ""

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        return True
