"""What happens to sets: to their links, machines and masters. A fault undoes what it did before it returns."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from proof.attack import faults as attack
from proof.attack.faults import Cluster
from proof.attack.servers import Server
from proof.chaos.etcd import Etcd
from proof.chaos.proxy import Proxy
from proof.chaos.sets import Set
from proof.kit.waiting import holds_within

ENDS_S: Final = 20.0
SERVES_S: Final = 60.0


@dataclass
class Chaos:
    """What faults are aimed at."""

    cluster: Cluster
    sets: list[Set]
    proxies: list[Proxy]
    may_promote: Callable[[Set], Awaitable[bool]]
    """Whether the slave of a set has its master's topics and all that was acknowledged."""
    moving: set[str] = field(default_factory=set)
    """Sets whose master is being replaced."""
    controllers: list[Server] = field(default_factory=list)
    etcd: list[Etcd] = field(default_factory=list)


Fault = Callable[[Chaos, random.Random], Awaitable[None]]


async def cut(chaos: Chaos, chance: random.Random) -> None:
    """Nothing passes, in both directions or one."""
    proxy, seconds = chance.choice(chaos.proxies), chance.uniform(0.5, 12)
    ways = chance.choice(("both", "both", "to", "from"))
    chaos.cluster.say(f"cut {proxy.name} ({ways}) for {seconds:.1f} s")
    proxy.cut(ways)
    try:
        await asyncio.sleep(seconds)
    finally:
        proxy.heal()


async def split(chaos: Chaos, chance: random.Random) -> None:
    """All ways to a machine are cut, as if it were unplugged."""
    machine = chance.choice([machine for one in chaos.sets for machine in one.machines])
    seconds = chance.uniform(0.5, 12)
    chaos.cluster.say(f"cut every way of {machine.name} for {seconds:.1f} s")
    for proxy in machine.proxies:
        proxy.cut("both")
    try:
        await asyncio.sleep(seconds)
    finally:
        for proxy in machine.proxies:
            proxy.heal()


async def delay(chaos: Chaos, chance: random.Random) -> None:
    """Everything takes longer."""
    proxy, seconds = chance.choice(chaos.proxies), chance.uniform(1, 8)
    proxy.delay = chance.choice((0.005, 0.05, 0.3, 1.0))
    chaos.cluster.say(f"delay {proxy.name} by {proxy.delay * 1000:.0f} ms for {seconds:.1f} s")
    try:
        await asyncio.sleep(seconds)
    finally:
        proxy.heal()


async def drop(chaos: Chaos, chance: random.Random) -> None:
    """Connections end."""
    proxy = chance.choice(chaos.proxies)
    chaos.cluster.say(f"drop {proxy.drop()} connections of {proxy.name}")


async def lose_master(chaos: Chaos, chance: random.Random) -> None:
    """A master is killed and stays away; its slave is started as the master, and it comes back as a slave."""
    free = [one for one in chaos.sets if one.in_sync > 1 and len(one.machines) == 2 and one.name not in chaos.moving]
    if not free:
        return
    one = chance.choice(free)
    old, new = one.master.server, one.slaves[0]
    if {old.name, new.name} & chaos.cluster.busy:
        return
    down, back = chance.uniform(0, 3), chance.uniform(0, 5)
    chaos.moving.add(one.name)
    with chaos.cluster.all_of([old, new.server]):
        try:
            if not await chaos.may_promote(one):
                return
            chaos.cluster.say(f"lose the master {old.name}; {new.name} takes its place after {down:.1f} s")
            old.hold()
            old.signal(signal.SIGKILL)
            await holds_within(lambda: old.process is None, ENDS_S)
            await asyncio.sleep(down)
        finally:
            # Also when the faults end just now: a set must be left with a master.
            if old.process is None:
                new.server.hold()
                new.server.signal(signal.SIGTERM)
                if not await holds_within(lambda: new.server.process is None, ENDS_S):
                    new.server.signal(signal.SIGKILL)
                    await holds_within(lambda: new.server.process is None, ENDS_S)
                one.lead(new)
                one.promoted_at.append(time.monotonic())
            new.server.release()
            if new is not one.master:
                old.release()
            chaos.moving.discard(one.name)
        await holds_within(new.server.ready.is_set, SERVES_S)
        try:
            await asyncio.sleep(back)
        finally:
            old.release()


def _at_servers(fault: attack.Fault) -> Fault:
    async def strike(chaos: Chaos, chance: random.Random) -> None:
        await fault(chaos.cluster, chance)

    return strike


FAULTS: Final[dict[str, Fault]] = {
    "kill": _at_servers(attack.kill),
    "stop": _at_servers(attack.stop),
    "slow-disk": _at_servers(attack.slow_disk),
    "cut": cut,
    "split": split,
    "delay": delay,
    "drop": drop,
    "lose-master": lose_master,
}
