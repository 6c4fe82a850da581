"""A broker, ours or Java's, as a process that can be killed and started again on its store and its port."""

from __future__ import annotations

import sys
from pathlib import Path

from proof.interop.java_processes import JavaBroker, JavaNameServer, wait_registered
from proof.kit.our_processes import OurNameServer
from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess
from proof.kit.small import SMALL_LOG


class RestartableBroker:
    """A name server and a broker named `broker-a`, in a folder of its own."""

    def __init__(self, home: Path, **settings: str) -> None:
        self._home = home
        self.namesrv = OurNameServer(home / "namesrv")
        port = reserve_port(1, -2)
        self.address = f"127.0.0.1:{port}"
        values = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(port),
            "namesrvAddr": self.namesrv.address,
            "storePathRootDir": str(home / "store"),
            "flushDiskType": "ASYNC_FLUSH",
            **SMALL_LOG,
            **settings,
        }
        self._conf = home / "broker.conf"
        self._conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
        self._starts = 0
        self.process = self._start()

    def restart(self) -> None:
        """Start it again after `kill`."""
        self.process = self._start()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def close(self) -> None:
        """End both."""
        self.process.kill()
        self.namesrv.kill()

    def _start(self) -> ChildProcess:
        self._starts += 1
        command = [sys.executable, "-m", "bolide.cli", "broker", "-c", str(self._conf)]
        process = ChildProcess(command, self._home / f"broker-{self._starts}.out")
        process.wait_ready("ready")
        wait_registered(self.namesrv.address)
        return process


class RestartableJavaBroker:
    """RocketMQ's own name server and broker 5.5.0, likewise."""

    def __init__(self, home: Path) -> None:
        self._home = home / "broker"
        self.namesrv = JavaNameServer(home / "namesrv")
        self.process = JavaBroker(self._home, self.namesrv.address)

    def restart(self) -> None:
        """Start it again after `kill`."""
        self.process = JavaBroker(self._home, self.namesrv.address, port=self.process.port)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def close(self) -> None:
        """End both."""
        self.process.kill()
        self.namesrv.kill()
