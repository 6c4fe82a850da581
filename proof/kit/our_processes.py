"""Bolide's name server and broker as processes of the environment the tests run in, twins of the Java ones."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess
from proof.kit.small import SMALL_LOG

_READY = "ready"
PATIENT = {"waitTimeMillsInSendQueue": "60000", "osPageCacheBusyTimeOutMills": "60000"}
"""No send is refused because the machine stood still: it is busy with other tests."""
_KEPT = ("BOLIDE_IMPL", "BOLIDE_BUILD")


def _command(*words: str, python: str = sys.executable) -> list[str]:
    return [python, "-m", "bolide.cli", *words]


def _environment() -> dict[str, str | None]:
    # A setting in the caller's environment must not steer what is tested or measured.
    return {name: None for name in os.environ if name.startswith("BOLIDE_") and name not in _KEPT}


class OurNameServer(ChildProcess):
    """`bolide namesrv` on a free port; `settings` are in its file, with Java's keys."""

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.port = reserve_port()
        self.address = f"127.0.0.1:{self.port}"
        conf = home / "namesrv.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in (settings or {}).items()), encoding="ascii")
        command = _command("namesrv", "--listen", self.address, "-c", str(conf))
        super().__init__(command, home / "namesrv.out", {**_environment(), "HOME": str(home)})
        self.wait_ready(_READY)


class OurController(ChildProcess):
    """`bolide controller` on a port of its own, with its decisions in `home/sets.json`; `settings` by Java key."""

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, port: int | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.port = port if port is not None else reserve_port()
        self.address = f"127.0.0.1:{self.port}"
        conf = home / "controller.conf"
        values = {"controllerStore": f"file:{home}/sets.json", **(settings or {})}
        conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="ascii")
        command = _command("controller", "--listen", self.address, "-c", str(conf))
        super().__init__(command, home / "controller.out", {**_environment(), "HOME": str(home)})
        self.wait_ready(_READY)


class OurBroker(ChildProcess):
    """`bolide broker` named `broker-a` of `DefaultCluster` on a free port; its store is `home/store`.

    `settings` are added to broker.conf, with Java's keys. With an empty `namesrv` it registers nowhere. Its log files
    are small, and it is patient, unless it is to run `as_shipped`. `python` is that of another environment, to measure
    the Bolide in it.
    """

    def __init__(
        self,
        home: Path,
        namesrv: str,
        settings: Mapping[str, str] | None = None,
        *,
        as_shipped: bool = False,
        ready_seconds: float = 180.0,
        python: str = sys.executable,
        port: int | None = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.store = home / "store"
        self.port = port if port is not None else reserve_port(1, -2)
        self.address = f"127.0.0.1:{self.port}"
        values = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self.port),
            **({"namesrvAddr": namesrv} if namesrv else {}),
            "storePathRootDir": str(self.store),
            **({} if as_shipped else {**SMALL_LOG, **PATIENT}),
            **(settings or {}),
        }
        conf = home / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
        super().__init__(_command("broker", "-c", str(conf), python=python), home / "broker.out", _environment())
        self.wait_ready(_READY, ready_seconds)
