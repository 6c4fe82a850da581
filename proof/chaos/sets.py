"""A set of brokers as machines: who is its master, and behind which proxies each of them is."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from proof.attack.servers import Server, broker, name_server
from proof.chaos.proxy import Proxy
from proof.kit.ports import reserve_port

WORLD: Final = "127.0.0.1"
"""Where everybody looks for brokers and name servers: the proxies."""
BEHIND: Final = "127.0.0.2"
"""Where the processes listen."""
BETWEEN: Final = "127.0.0.3"
"""Where slaves look for their master's log: other proxies, so that a set can be cut while its clients are not."""
REFUSED: Final = re.compile(r"offset|deleted what is there|is shorter")
"""What a slave with a log of its own says."""


@dataclass
class Machine:
    """One broker and the proxies on its ways."""

    server: Server
    proxies: list[Proxy]
    number: int

    @property
    def name(self) -> str:
        """As it is shown."""
        return self.server.name

    @property
    def port(self) -> int:
        """Its port, which its proxy has, too."""
        return int(str(self.server.flags["listenPort"]))


@dataclass
class Set:
    """A master and its slaves, all of one `brokerName`."""

    name: str
    machines: list[Machine]
    in_sync: int
    master: Machine = field(init=False)
    promoted_at: list[float] = field(default_factory=list)
    """When another machine became the master, on the monotonic clock."""
    refusals: int = 0

    def __post_init__(self) -> None:
        self.lead(self.machines[0])

    @property
    def slaves(self) -> list[Machine]:
        """Everybody else."""
        return [machine for machine in self.machines if machine is not self.master]

    def lead(self, machine: Machine) -> None:
        """Write the settings with which each machine starts from now on."""
        self.master = machine
        for one in self.machines:
            flags = one.server.flags
            for key in ("haListenPort", "inSyncReplicas"):
                flags.pop(key, None)
            if one is not machine:
                flags |= {"brokerRole": "SLAVE", "brokerId": one.number}
            elif self.in_sync > 1:
                flags |= {"brokerRole": "SYNC_MASTER", "brokerId": 0, "inSyncReplicas": self.in_sync}
            else:
                flags |= {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
            if one is machine:
                flags["haListenPort"] = one.port + 1


def make_name_servers(folder: Path, count: int, seed: int) -> tuple[list[Server], list[tuple[str, int]]]:
    """Name servers behind no proxy of their own, and where they listen."""
    servers, places = [], []
    for number in range(1, count + 1):
        port = reserve_port()
        server = name_server(f"namesrv-{number}", folder / f"namesrv-{number}" / "files", port, seed)
        server.flags["bindAddress"] = BEHIND
        servers.append(server)
        places.append((BEHIND, port))
    return servers, places


def proxied(whose: str, places: list[tuple[str, int]]) -> list[Proxy]:
    """A way of its own to each name server."""
    return [
        Proxy(f"{whose} to namesrv-{number}", (WORLD, reserve_port()), place) for number, place in enumerate(places, 1)
    ]


def address_list(proxies: list[Proxy]) -> str:
    """As a `namesrvAddr` names them."""
    return ";".join(f"{host}:{port}" for host, port in (proxy.listen for proxy in proxies))


def make_set(
    name: str,
    folder: Path,
    places: list[tuple[str, int]],
    *,
    slaves: int,
    in_sync: int,
    sync: bool,
    seed: int,
) -> Set:
    """A set whose machines are each behind proxies for clients, for slaves, and to the name servers."""
    machines = []
    for number in range(slaves + 1):
        shown = name if number == 0 else f"{name}-{'bcdefgh'[number - 1]}"
        port = reserve_port(1, -2)
        ways = proxied(shown, places)
        server = broker(shown, folder / shown / "store", (port, address_list(ways)), sync=sync, seed=seed + number)
        server.flags |= {
            "brokerName": name,
            "bindAddress": BEHIND,
            "brokerIP1": WORLD,
            "brokerIP2": BETWEEN,
            "fastPortEnable": "true",
            "slaveReadEnable": True,
            "slaveTimeout": 1_000,
            "haSendHeartbeatInterval": 1_000,
            "haHousekeepingInterval": 5_000,
        }
        ways += [
            Proxy(f"clients to {shown}", (WORLD, port), (BEHIND, port)),
            Proxy(f"slaves to {shown}'s tables", (WORLD, port - 2), (BEHIND, port - 2)),
            Proxy(f"slaves to {shown}", (BETWEEN, port + 1), (BEHIND, port + 1)),
        ]
        machines.append(Machine(server, ways, number or slaves + 1))
    return Set(name, machines, in_sync)


def differs(slave: Path, master: Path) -> str:
    """Where a slave's log is not the beginning of its master's; "" for nowhere. Both have ended.

    A slave that was emptied begins with a later file. Zeros at the end of a file are not written yet.
    """
    files = sorted(path.name for path in (slave / "commitlog").iterdir() if path.name.isdigit())
    for name in files:
        other = master / "commitlog" / name
        mine = (slave / "commitlog" / name).read_bytes().rstrip(b"\0")
        theirs = other.read_bytes() if other.exists() else b""
        if mine != theirs[: len(mine)]:
            at = next(at for at in range(len(mine)) if mine[at : at + 1] != theirs[at : at + 1])
            return f"at offset {int(name) + at}"
    return ""


def empty(machine: Machine) -> None:
    """Take a stopped machine's store away."""
    shutil.rmtree(machine.server.folder)
    machine.server.folder.mkdir()
