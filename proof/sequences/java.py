"""A Java broker as a server of sequences. It needs a JDK, Maven, and once the network."""

from __future__ import annotations

from pathlib import Path

from proof.sequences.brokers import Brokers, Server


class JavaServer(Server):
    """RocketMQ's broker 5.5.0, running from the start to the end."""

    def __init__(self, home: Path, namesrv: str) -> None:
        from proof.interop.java_processes import JavaBroker

        super().__init__("broker-a", home, namesrv)
        self._process: JavaBroker | None = JavaBroker(home / self.name, namesrv)
        self._port = self._process.address
        self.use(self._process.store)

    @property
    def up(self) -> bool:
        """Whether it runs."""
        return self._process is not None

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._port

    def start(self) -> None:
        """It runs."""

    def stop(self) -> None:
        """Kill it: nobody reads the store, and a good end takes 15 s."""
        if self._process is not None:
            self._process.kill()
            self._process = None


class JavaNames:
    """RocketMQ's name server."""

    def __init__(self, home: Path) -> None:
        from proof.interop.java_processes import JavaNameServer

        self._process = JavaNameServer(home)
        self.address = self._process.address

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()


def java_brokers(home: Path) -> Brokers:
    """A name server and a broker, both Java's."""
    names = JavaNames(home / "namesrv")
    return Brokers(names, [JavaServer(home, names.address)])
