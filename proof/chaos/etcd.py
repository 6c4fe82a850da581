"""Members of an etcd cluster as processes, behind proxies of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.request
from pathlib import Path
from typing import Any, Final

from proof.attack.servers import Server
from proof.chaos.proxy import Proxy
from proof.chaos.sets import BEHIND, WORLD
from proof.kit.ensured import ensured
from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess

LOOK_S: Final = 0.1
ASK_S: Final = 2.0


class Etcd(Server):
    """One member. It is ready once it knows a leader."""

    def __init__(self, name: str, folder: Path, words: list[str], port: int, seed: int) -> None:
        super().__init__(name, "etcd", {"listenPort": port}, folder, seed)
        self._words = words
        self.port = port

    def command(self) -> list[str]:
        """It does not follow its standard input, so the kernel ends it with us."""
        return ["setpriv", "--pdeathsig", "KILL", *self._words]

    def environment(self) -> dict[str, str]:
        """Its calls pass by the shim."""
        return {}

    async def until_serves(self, process: ChildProcess) -> None:
        """Ask until it is healthy."""
        while not await asyncio.to_thread(self._asked, "health"):
            await asyncio.sleep(LOOK_S)
        if process is self.process and process.running:
            self.ready.set()

    async def leads(self) -> bool:
        """Whether it says that it is the leader."""
        found = await asyncio.to_thread(self._asked, "v3/maintenance/status", b"{}")
        return bool(found) and found.get("leader") == found.get("header", {}).get("member_id")

    def _asked(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"http://{BEHIND}:{self.port}/{path}", body, ASK_S) as answer,
        ):
            found: dict[str, Any] = json.load(answer)
            return found
        return {}


def make_etcd(folder: Path, count: int, seed: int) -> tuple[list[Etcd], list[Proxy]]:
    """The members, and the way of the others to each."""
    path = ensured("etcd")
    names = [f"etcd-{number}" for number in range(1, count + 1)]
    ports = {name: (reserve_port(), reserve_port()) for name in names}
    peers = ",".join(f"{name}=http://{WORLD}:{peer}" for name, (_, peer) in ports.items())
    members, proxies = [], []
    for number, (name, (port, peer)) in enumerate(ports.items()):
        home = folder / name / "data"
        home.mkdir(parents=True, mode=0o700, exist_ok=True)
        words = [path, "--name", name, "--data-dir", str(home), "--logger", "zap", "--log-level", "warn"]
        words += ["--listen-client-urls", f"http://{BEHIND}:{port}"]
        words += ["--advertise-client-urls", f"http://{BEHIND}:{port}"]
        words += ["--listen-peer-urls", f"http://{BEHIND}:{peer}"]
        words += ["--initial-advertise-peer-urls", f"http://{WORLD}:{peer}", "--initial-cluster", peers]
        members.append(Etcd(name, home, words, port, seed + number))
        proxies.append(Proxy(f"the others to {name}", (WORLD, peer), (BEHIND, peer)))
    return members, proxies
