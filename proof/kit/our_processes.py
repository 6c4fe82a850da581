"""Bolide's name server, controller and broker as processes of the environment the tests run in, twins of Java's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess
from proof.kit.small import PATIENT, SMALL_LOG
from proof.kit.waiting import PROCESS_PATIENCE

_KEPT = ("BOLIDE_IMPL", "BOLIDE_BUILD")
_BESIDE = {"fastPortEnable": "true", "brokerRole": "SYNC_MASTER", "enableControllerMode": "true"}
"""With one of these settings, or with `haListenPort`, a broker also listens at neighbouring ports."""


def conf_file(path: Path, settings: Mapping[str, str]) -> Path:
    """Write settings by Java key into a file, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    return path


class _Daemon(ChildProcess):
    """`bolide KIND`, ready when it is made."""

    def __init__(
        self,
        kind: str,
        home: Path,
        words: Sequence[str | Path],
        environment: Mapping[str, str | None] | None = None,
        *,
        python: str = sys.executable,
        seconds: float = PROCESS_PATIENCE,
    ) -> None:
        # The caller's settings must not change a test or a measurement.
        cleared = {name: None for name in os.environ if name.startswith("BOLIDE_") and name not in _KEPT}
        command = [python, "-m", "bolide.cli", kind, *words]
        super().__init__(command, home / f"{kind}.out", {**cleared, **(environment or {})})
        self.address = self.wait_ready(seconds=seconds).rpartition(" ")[2]
        self.port = int(self.address.rpartition(":")[2])


class OurNameServer(_Daemon):
    """`bolide namesrv` with `settings` by Java key."""

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        conf = conf_file(home / "namesrv.conf", settings or {})
        words: list[str | Path] = ["--listen", "127.0.0.1:0", "-c", conf]
        super().__init__("namesrv", home, words, {"HOME": str(home), **(environment or {})})


class OurController(_Daemon):
    """`bolide controller` with `settings` by Java key. It stores its decisions in `home/sets.json`."""

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, port: int = 0) -> None:
        values = {"controllerStore": f"file:{home}/sets.json", **(settings or {})}
        conf = conf_file(home / "controller.conf", values)
        super().__init__("controller", home, ["--listen", f"127.0.0.1:{port}", "-c", conf], {"HOME": str(home)})


class OurBroker(_Daemon):
    """`bolide broker` named `broker-a` of `DefaultCluster`, with its store in `home/store`.

    `settings` are added to broker.conf, by Java key. With an empty `namesrv` it does not register. `as_shipped` omits
    the small log files and the patience of a broker under test. `python` may belong to another environment, to measure
    the Bolide in it. `environment` adds variables.
    """

    def __init__(
        self,
        home: Path,
        namesrv: str,
        settings: Mapping[str, str] | None = None,
        *,
        as_shipped: bool = False,
        ready_seconds: float = PROCESS_PATIENCE,
        python: str = sys.executable,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.store = home / "store"
        given = settings or {}
        if port is None:
            beside = "haListenPort" in given or any(given.get(key) == value for key, value in _BESIDE.items())
            port = reserve_port(1, -2) if beside else 0
        values = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(port),
            **({"namesrvAddr": namesrv} if namesrv else {}),
            "storePathRootDir": str(self.store),
            **({} if as_shipped else {**SMALL_LOG, **PATIENT}),
            **given,
        }
        conf = conf_file(home / "broker.conf", values)
        super().__init__("broker", home, ["-c", conf], environment, python=python, seconds=ready_seconds)
