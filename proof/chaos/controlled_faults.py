"""What happens to sets under controllers: to masters, slaves, two replicas at once, controllers and members of etcd."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from proof.attack.servers import Server
from proof.chaos.faults import FAULTS, Chaos, Fault

FREE_S: Final = 0.1
Victims = Callable[[Chaos, random.Random], Awaitable[tuple[list[Server], str]]]
"""Who is struck, and what each of them is."""


async def _masters(chaos: Chaos, chance: random.Random) -> tuple[list[Server], str]:
    return [chance.choice(chaos.sets).master.server], "the master"


async def _slaves(chaos: Chaos, chance: random.Random) -> tuple[list[Server], str]:
    return [chance.choice(chance.choice(chaos.sets).slaves).server], "the slave"


async def _two(chaos: Chaos, chance: random.Random) -> tuple[list[Server], str]:
    one = chance.choice(chaos.sets)
    return [machine.server for machine in chance.sample(one.machines, 2)], "at once"


async def _controllers(chaos: Chaos, chance: random.Random) -> tuple[list[Server], str]:
    return [chance.choice(chaos.controllers)], "the controller"


async def _etcd(chaos: Chaos, chance: random.Random) -> tuple[list[Server], str]:
    """The leader as often as any other."""
    wants_leader = chance.random() < 0.5
    for member in chance.sample(chaos.etcd, len(chaos.etcd)):
        if member.ready.is_set() and await member.leads() == wants_leader:
            return [member], "the leader" if wants_leader else "a follower"
    return [chance.choice(chaos.etcd)], "a member"


def _beside(chaos: Chaos, victims: list[Server]) -> list[Server]:
    """Of etcd a minority is struck, so the others are taken with it."""
    return list(chaos.etcd) if victims[0].kind == "etcd" else victims


def _fault(choose: Victims, number: signal.Signals) -> Fault:
    """SIGKILL or SIGSTOP, for a short or a long time. It waits until no other fault has its victims."""

    async def strike(chaos: Chaos, chance: random.Random) -> None:
        cluster = chaos.cluster
        victims, what = await choose(chaos, chance)
        while {server.name for server in _beside(chaos, victims)} & cluster.busy:
            await asyncio.sleep(FREE_S)
            victims, what = await choose(chaos, chance)
        seconds = chance.choice((chance.uniform(0, 1.5), chance.uniform(1.5, 8)))
        with cluster.all_of(_beside(chaos, victims)):
            names = " and ".join(server.name for server in victims)
            cluster.say(f"{number.name} {names} ({what}) for {seconds:.1f} s")
            try:
                for server in victims:
                    if number is signal.SIGKILL:
                        server.hold()
                    server.signal(number)
                await asyncio.sleep(seconds)
            finally:
                for server in victims:
                    server.release()
                    server.signal(signal.SIGCONT)

    return strike


OF_ETCD: Final[dict[str, Fault]] = {
    "kill-etcd": _fault(_etcd, signal.SIGKILL),
    "stop-etcd": _fault(_etcd, signal.SIGSTOP),
}
CONTROLLED: Final[dict[str, Fault]] = {
    "kill-master": _fault(_masters, signal.SIGKILL),
    "stop-master": _fault(_masters, signal.SIGSTOP),
    "kill-slave": _fault(_slaves, signal.SIGKILL),
    "stop-slave": _fault(_slaves, signal.SIGSTOP),
    "kill-two": _fault(_two, signal.SIGKILL),
    "stop-two": _fault(_two, signal.SIGSTOP),
    "kill-controller": _fault(_controllers, signal.SIGKILL),
    "stop-controller": _fault(_controllers, signal.SIGSTOP),
    **OF_ETCD,
    **{name: fault for name, fault in FAULTS.items() if name != "lose-master"},
}


def faults_of(controller: str) -> dict[str, Fault]:
    """The faults of a run with a controller of this kind, "" for none."""
    if not controller:
        return FAULTS
    return {name: fault for name, fault in CONTROLLED.items() if controller == "etcd" or name not in OF_ETCD}
