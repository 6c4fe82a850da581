"""An attacker in the network of a set under controllers: forged requests, a fake slave, a fake master.

- A `CLOSED` cluster has `clusterAuthenticationEnabled` and must reject each forged request. The ledger judges too.
- An `OPEN` cluster does not have it. The attacker sends only requests that a set recognizes as forged. The ledger
  judges too.
- In a `CAPTURED` set, in an open cluster, the attacker does everything that docs/security.md allows: it acknowledges
  bytes in the name of a member, becomes the master, and sends other logs. No availability is guaranteed, but no replica
  may truncate or change the bytes that its set holds, and every acknowledged offset must be on a disk.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from bolide.errors import BolideError
from bolide.layout.message_id import decode_offset_message_id
from proof.ledger import Finding
from proof.simulation.cluster import Cluster, NotInTime
from proof.simulation.fake_master import WAYS, FakeMaster
from proof.simulation.held_prefixes import Prefixes
from proof.simulation.lies import CREDENTIALS, Lie
from proof.simulation.plan import Action, Plan, Value
from proof.simulation.process import Process
from proof.simulation.rare_places import LIAR_FOLLOWED, LIAR_REFUSED
from proof.simulation.replicas import LOOK_EVERY_S, Replicas
from proof.simulation.spied import Spied

OPEN: Final = "open"
CLOSED: Final = "closed"
CAPTURED: Final = "captured"
LIVES: Final = (OPEN, CLOSED, CAPTURED)
SHARE: Final = 0.2
"""The part of the seeds with controllers and whole members that have an attacker."""
LIES: Final = {
    "controller": ("register", "move", "heartbeat", "set", "epochs", "elect", "apply", "join", "bytes"),
    "name server": ("register", "unregister", "heartbeat", "bytes"),
    "broker": ("role", "address", "bytes"),
    "log": ("slave", "learner", "plain", "many", "bytes"),
}
"""Requests that a set recognizes as forged even without authentication, by port."""
POWERFUL: Final = {
    "controller": ("takeover", "designate"),
    "name server": ("log",),
    "log": ("member",),
}
REPLAYS: Final = ("heartbeat", "register", "set", "elect")
"""Recorded signed requests that the attacker replays."""
NAME: Final = "attacker"
STOLEN: Final = "an attacker gets no part of the log"
REJECTED: Final = "a closed cluster rejects every lie"
ON_DISK: Final = "an acknowledged offset is on a disk"


def settings_of(life: str) -> dict[str, Value]:
    """Return the settings that every daemon needs for an attacker of this kind."""
    if life != CLOSED:
        return {}
    secret = json.dumps({"accessKey": CREDENTIALS.name, "secretKey": CREDENTIALS.secret})
    return {"cluster_authentication_enabled": "true", "inner_client_authentication_credentials": secret}


def keys_of(life: str) -> tuple[str, str]:
    """Return access key and secret key of the operator's client, or empty texts if it does not sign."""
    return (CREDENTIALS.name, CREDENTIALS.secret) if life == CLOSED else ("", "")


def life_of(seed: int) -> str:
    """Return the kind of attacker of a seed, or "" if it has none."""
    chance = random.Random(f"attacker {seed}")
    return chance.choice(LIVES) if chance.random() < SHARE else ""


def draw(seed: int, life: str, seconds: float, moments: list[float], small: bool) -> Iterator[Action]:
    """Yield the forged requests of a plan."""
    chance = random.Random(f"lies {seed}")
    lies = {port: list(names) for port, names in LIES.items()}
    if life != OPEN:
        for port, names in POWERFUL.items():
            lies[port] += [*names, *names]
    for _ in range(chance.randint(2, 6) if small else chance.randint(5, 25)):
        at = round(chance.uniform(1.0, seconds * 0.9), 3)
        if moments and chance.random() < 0.5:
            at = round(max(1.0, chance.choice(moments) + chance.uniform(-0.3, 1.0)), 3)
        port = chance.choice(sorted(lies))
        how = chance.choice(lies[port])
        of: dict[str, Value] = {
            "port": port, "how": how, "broker": chance.randrange(8), "seed": chance.randrange(1 << 30),
            "lasts": round(min(10 ** chance.uniform(-0.5, 1.5), seconds / 2), 2), "says": chance.choice(WAYS),
        }  # fmt: skip
        if life == CLOSED and chance.random() < 0.3:
            of |= {"port": "controller", "how": "replay", "says": chance.choice(REPLAYS)}
        yield Action(at, "lie", of)


class Attacker:
    """The attacker of one run, on a separate host."""

    def __init__(self, plan: Plan, cluster: Cluster, replicas: Replicas, servers: Mapping[str, list[str]]) -> None:
        """`servers` contains the names of the controllers and name servers, by port."""
        self.life = str(plan.cluster.get("liars", ""))
        self.findings: list[Finding] = []
        self.told = self.refused = 0
        self._cluster = cluster
        self._replicas = replicas
        self._spied = Spied(cluster, replicas, servers)
        self._master = FakeMaster(self._spied, lambda node: cluster.rare.reached(LIAR_FOLLOWED, node))
        self.prefixes = Prefixes(cluster, replicas)
        self._process: Process | None = None

    def start(self) -> None:
        """Start the process, with the ports of a fake broker and a fake master."""
        self._process = self._cluster.start(NAME, self._main)

    def stop(self) -> None:
        """Kill the process, which closes its connections."""
        if self._process is not None and self._process.alive:
            self._cluster.kill(NAME)

    async def watch(self) -> None:
        """Check the logs of all replicas periodically."""
        while True:
            self.findings += self.prefixes.look()
            await self._cluster.sleep(LOOK_EVERY_S)

    async def act(self, action: Action) -> None:
        """Send the forged requests of one action."""
        process = self._process
        if process is None or not process.alive:
            return
        self.told += 1
        chance = random.Random(action.number("seed"))
        port = action.text("port")
        places = self._spied.places(port)
        target = places[action.number("broker") % len(places)]
        lie = Lie(self._spied, self._master, process, action, target, chance)
        with suppress(AssertionError, NotInTime):  # the run has ended it
            refused = await self._cluster.call(process, partial(self._tell, lie), 120.0)
            self._judge(lie, refused)

    def _judge(self, lie: Lie, refused: bool | None) -> None:
        if refused:
            self.refused += 1
            self._cluster.rare.reached(LIAR_REFUSED[lie.port])
        if self.life == CLOSED and lie.port != "broker":
            if refused is False and lie.how not in ("replay", "bytes"):
                self.findings.append(Finding(REJECTED, f"{lie.port} of {lie.target}: {lie.how}"))
            if self._master.handshakes:
                self.findings.append(Finding(REJECTED, "a replica follows an attacker"))
            if lie.port == "log" and lie.stolen:
                self.findings.append(Finding(STOLEN, f"{lie.target} sends {lie.stolen} bytes"))

    def judge_disks(self, kept: Iterable[tuple[str, str]], *, killed: bool) -> None:
        """Check a captured set at the end of the faults.

        A killed replica may have lost the confirmations of the last second. It may truncate these bytes to follow an
        attacker, and keeps a copy.
        """
        self.findings += self.prefixes.look()
        if killed:
            return
        ends = {name: max(map(self.prefixes.end_of, nodes)) for name, nodes in self._replicas.sets.items()}
        for name, stored in kept:
            offset = decode_offset_message_id(stored)[2]
            if offset >= ends[name]:
                self.findings.append(Finding(ON_DISK, f"offset {offset} of {name}: logs end at {ends[name]}"))

    def figures(self) -> dict[str, int]:
        """Counts for the reader."""
        counts = {"lies": self.told, "lies_refused": self.refused, "lies_followed": self._master.handshakes}
        return counts if self.life else {}

    async def _main(self, process: Process) -> None:
        await self._master.serve(process.world)
        await asyncio.Event().wait()

    async def _tell(self, lie: Lie) -> bool | None:
        try:
            return await lie.tell()
        except (BolideError, OSError, TimeoutError):
            return None
