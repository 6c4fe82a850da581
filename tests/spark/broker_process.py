"""A name server and a broker as processes, both Bolide's or both Java's; the broker can be killed and restarted."""

from __future__ import annotations

from pathlib import Path

from proof.interop.java_processes import JavaBroker, JavaNameServer, wait_registered
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.ports import reserve_port


class RestartableBroker:
    """A name server, and a broker that restarts with its store and its port."""

    def __init__(self, home: Path, java: bool = False) -> None:
        self._home = home / "broker"
        self._java = java
        self._port = reserve_port(1, -2)
        self.namesrv = JavaNameServer(home / "namesrv") if java else OurNameServer(home / "namesrv")
        self.process = self._start()

    def restart(self) -> None:
        """Restart the broker after `kill`."""
        self.process = self._start()

    def kill(self) -> None:
        """Kill the broker."""
        self.process.kill()

    def close(self) -> None:
        """Kill both."""
        self.process.kill()
        self.namesrv.kill()

    def _start(self) -> OurBroker | JavaBroker:
        if self._java:
            return JavaBroker(self._home, self.namesrv.address, port=self._port)
        settings = {"flushDiskType": "ASYNC_FLUSH"}
        broker = OurBroker(self._home, self.namesrv.address, settings, port=self._port)
        wait_registered(self.namesrv.address)
        return broker
