"""The servers under measurement as processes: a Java broker, a Bolide broker, the null server."""

from pathlib import Path
from typing import Protocol

from bench.generator import program

from tests.interop.java_processes import JavaBroker
from tests.interop.our_processes import OurBroker
from tests.interop.processes import ServerProcess

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


class BolideBroker(OurBroker):
    """A Bolide broker of the environment this program runs in, with its own defaults and no name server."""

    def __init__(self, home: Path, flush: str, ready_seconds: float = 60.0) -> None:
        super().__init__(home, "", {"flushDiskType": _FLUSH[flush]}, ready_seconds=ready_seconds)


class NullServer(ServerProcess):
    """Answers every send and stores nothing."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        super().__init__([str(program("null_server")), "0"], home / "null.out")
        self.wait_ready("ready")
        self.port = int(self.output().split()[1])
