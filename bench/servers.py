"""The servers under measurement as processes: a Java broker, a Bolide broker, the null server."""

import os
import sys
from pathlib import Path
from typing import Protocol

from bench.generator import program

from tests.interop.java_processes import JavaBroker
from tests.interop.processes import ServerProcess, free_ports

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
        """Go on."""

    def kill(self) -> None:
        """End at once."""


def java_broker(home: Path, flush: str) -> JavaBroker:
    """A Java 5.5.0 broker with its own defaults and no name server."""
    return JavaBroker(home, "", {"flushDiskType": _FLUSH[flush]}, flags=JAVA_FLAGS)


class BolideBroker(ServerProcess):
    """A Bolide broker of the environment this program runs in, with its own defaults and no name server."""

    def __init__(
        self, home: Path, flush: str, settings: dict[str, str] | None = None, ready_seconds: float = 60
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.store = home / "store"
        self.port = free_ports(1, -2)
        values = {
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self.port),
            "storePathRootDir": str(self.store),
            "flushDiskType": _FLUSH[flush],
            **(settings or {}),
        }
        conf = home / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
        super().__init__(bolide_command("broker", "-c", str(conf)), home / "broker.out", bolide_environment())
        self.wait_ready("ready", ready_seconds)


class NullServer(ServerProcess):
    """Answers every send and stores nothing."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        super().__init__([str(program("null_server")), "0"], home / "null.out")
        self.wait_ready("ready")
        self.port = int(self.output().split()[1])


def bolide_command(*words: str) -> list[str]:
    """The command line of `bolide` in this interpreter's environment."""
    return [str(Path(sys.executable).with_name("bolide")), *words]


def bolide_environment() -> dict[str, str]:
    """Nothing of the caller's settings may steer what is measured."""
    return {key: "" for key in os.environ if key.startswith("BOLIDE_") and key not in ("BOLIDE_IMPL", "BOLIDE_CACHE")}
