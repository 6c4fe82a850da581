"""Rows of clients: Bolide's beside Java's, both against one Bolide broker. Each measurement is a process of its own.

Rate and processor time are the client's; `clients.py` runs them and measures a Bolide client by itself, too.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import clients
from bench.loads.subject import Scale, Subject
from bench.servers.stopping import Failed

from proof.kit.our_processes import OurBroker, OurNameServer

CASES = {"loop": "send in a loop", "in_flight": "256 sends in flight", "push": "push consumer"}
_LOADS = 4.5
"""A third of a client's time warms it up, and a JVM begins cold each time: it has so much more time than a load."""
_CONSUMED = 600_000


class Shared:
    """The broker of all clients: it runs all the time, since a client that is not measured has no process."""

    def __init__(self, broker: OurBroker, namesrv: str) -> None:
        self.port, self.pid, self.namesrv = broker.port, broker.pid, namesrv
        self.filled = False

    def pause(self) -> None:
        """Nothing."""

    def resume(self) -> None:
        """Nothing."""

    def kill(self) -> None:
        """Nothing: it ends with its group of rows."""


@dataclass
class ClientSubject(Subject):
    """A client in the place of a broker."""

    run: clients.Client | None = None


def client_subjects(
    names: Sequence[str], pythons: Mapping[str, str], home: Path, scale: Scale, running: ExitStack
) -> list[Subject]:
    """The clients by the names of the servers, and a broker for them."""
    name_server = OurNameServer(home / "namesrv")
    running.callback(name_server.kill)
    broker = OurBroker(home / "broker", name_server.address, as_shipped=True)
    running.callback(broker.kill)
    shared = Shared(broker, name_server.address)
    subjects: list[Subject] = []
    for name in names:
        java = name == "java"
        address = name_server.address
        run = clients.java_client(home / name, address) if java else clients.python_client(pythons[name], address)
        subjects.append(ClientSubject(name, shared, scale, java=java, run=run))
    return subjects


@dataclass(frozen=True)
class ClientCase:
    """One case of `clients.py`."""

    case: str

    def __call__(self, subject: Subject) -> dict[str, float]:
        """Rate and processor time of a message."""
        assert isinstance(subject, ClientSubject) and subject.run is not None and isinstance(subject.server, Shared)
        count = max(int(_CONSUMED * subject.scale.share), 3000)
        seconds = subject.scale.seconds * _LOADS
        topic = clients.FILLED if self.case == "push" else clients.TOPIC
        try:
            if self.case == "push" and not subject.server.filled:
                clients.python_client(sys.executable, subject.server.namesrv)("fill", topic, seconds, count)
                subject.server.filled = True
            seen = subject.run(self.case, topic, seconds, count)
        except SystemExit as error:
            raise Failed(str(error)) from None
        return {"rate": seen.rate, "cpu_us": seen.cpu_us}
