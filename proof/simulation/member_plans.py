"""Plans for sets under controllers. One member at a time returns with less, with other bytes or twice, or hangs.

Each seed takes one theme. A plan with the theme `minority` has no other fault, so that the healthy
members can be judged.
"""

from __future__ import annotations

import random
from typing import Final

from proof.simulation.plan import Action, Plan, Value

MEMBER_FAULTS: Final = frozenset({"copy", "restore", "rot", "clone", "hang", "gray", "stop_all"})
"""Actions that `proof/simulation/members.py` carries out."""
THEMES: Final = ("less", "bytes", "bytes", "bytes", "clones", "minority", "minority", "full stops", "full stops")
LESS: Final = ("restore", "restore", "repair", "rot", "fill", "clone", "")
"""Damage to one member while all members are down."""
MASTER: Final = -1
"""Number of a member that stands for the current master."""


class MemberPlan:
    """Draws the plan of one seed."""

    def __init__(self, seed: int, seconds: float | None, controllers: int) -> None:
        self._chance = random.Random(f"plan of members {seed}")
        self._seed = seed
        self.theme = self._chance.choice(THEMES)
        drawn = round(self._chance.uniform(60.0, 110.0), 1)
        self._seconds = drawn if seconds is None else seconds
        self._controllers = controllers
        self._actions: list[Action] = []

    def plan(self) -> Plan:
        """The plan."""
        chance = self._chance
        settings: dict[str, Value] = {
            "flush_disk_type": "SYNC_FLUSH",
            "mapped_file_size_commit_log": chance.choice((1 << 14, 1 << 15, 1 << 16)),
            "slave_timeout": chance.choice((300, 1_000, 3_000)),
            "ha_send_heartbeat_interval": chance.choice((500, 2_000)),
            "ha_housekeeping_interval": chance.choice((6_000, 20_000)),
            "enabled_append_prop_crc": True,
        }
        cluster: dict[str, Value] = {
            "brokers": 1, "name_servers": 1, "producers": chance.randint(1, 2), "retries": chance.choice((0, 2)),
            "queues": chance.choice((1, 2)), "push": chance.choice((0, 1)), "orderly": 0, "pull": chance.choice((0, 1)),
            "broadcast": 0, "filtered": 0, "failing": 0.0, "most_retries": 16, "slaves": 2, "in_sync": 2,
            "fast_port": chance.random() < 0.5, "controller": self._controllers, "members": True,
            "core": self.theme == "minority",
        }  # fmt: skip
        if self._controllers > 1:
            cluster["etcd"] = 3
        self._work()
        getattr(self, f"_{self.theme.replace(' ', '_')}")()
        if self.theme != "minority":
            for _ in range(chance.choice((0, 0, 1, 2))):
                self._other_fault()
        actions = tuple(sorted(self._actions, key=lambda action: action.at))
        return Plan(self._seed, self._seconds, settings, cluster, actions)

    def _do(self, at: float, do: str, **of: Value) -> None:
        self._actions.append(Action(round(at, 3), do, {"broker": 0, **of}))

    def _member(self) -> int:
        return self._chance.choice((MASTER, MASTER, 0, 1, 2))

    def _at(self, first: float = 0.1, last: float = 0.8) -> float:
        return self._chance.uniform(self._seconds * first, self._seconds * last)

    def _down(self) -> float:
        return round(10 ** self._chance.uniform(-1.0, 1.2), 2)

    def _work(self) -> None:
        chance, at, number = self._chance, 1.0, 0
        every = chance.choice((0.3, 0.7, 1.5))
        while at < self._seconds * 0.95:
            how = chance.choice(("single", "single", "single", "batch", "level"))
            of: dict[str, Value] = {
                "id": number, "producer": chance.randrange(2), "topic": chance.choice(("Orders", "Clicks")),
                "how": how, "size": chance.choice((10, 100, 800)), "tag": "", "n": chance.randrange(10),
            }  # fmt: skip
            if how == "batch":
                of["count"] = chance.randint(2, 8)
            elif how == "level":
                of["level"] = chance.choice((1, 2))
            self._actions.append(Action(round(at, 3), "send", of))
            number += 1
            at += chance.expovariate(1.0 / every)

    # -- themes

    def _less(self) -> None:
        for _ in range(self._chance.randint(1, 2)):
            at, member = self._at(0.1, 0.5), self._chance.randrange(3)
            self._do(at, "copy", member=member)
            self._do(self._at(0.5, 0.9), "restore", member=member, down=self._down(), how=self._way())
        if self._chance.random() < 0.4:
            self._stop_all()

    def _bytes(self) -> None:
        for _ in range(self._chance.randint(1, 2)):
            runs = self._chance.random() < 0.5
            empties = runs and self._chance.random() < 0.7  # its source is the master, which has the damaged record
            self._do(
                self._at(),
                "rot",
                member=MASTER if empties else self._member(),
                what="log" if empties else self._chance.choice(("log", "log", "log", "table")),
                runs=runs,
                filled=not runs and self._chance.random() < 0.6,
                empties=empties,
                place=self._chance.random(),
                how=self._way(),
                down=self._down(),
                lasts=round(self._chance.uniform(2.0, 25.0), 1),
            )

    def _clones(self) -> None:
        member = self._chance.randrange(3)
        old = self._chance.random() < 0.4
        if old:
            self._do(self._at(0.1, 0.3), "copy", member=member)
        for _ in range(self._chance.randint(1, 2)):
            self._do(
                self._at(0.3, 0.8),
                "clone",
                member=member if old else self._member(),
                old=old,
                instead=self._chance.random() < 0.5,
                how=self._way(),
                down=self._down(),
                lasts=round(self._chance.uniform(5.0, 30.0), 1),
            )

    def _minority(self) -> None:
        lasts = round(self._chance.uniform(45.0, 70.0), 1)
        self._seconds = max(self._seconds, lasts + 30.0)
        at = self._chance.uniform(5.0, 20.0)
        if self._chance.random() < 0.6:
            calls = self._chance.choice(("sync", "sync", "sync", "write"))
            member = self._chance.choice((MASTER, self._member()))
            self._do(at, "hang", member=member, calls=calls, lasts=lasts, ever=self._chance.random() < 0.4)
        else:
            frozen = round(self._chance.uniform(2.0, 12.0), 1)
            how = self._chance.choice(("freeze", "freeze", "link"))
            self._do(at, "gray", member=self._member(), how=how, lasts=lasts, frozen=frozen, well=round(frozen / 4, 2))

    def _full_stops(self) -> None:
        for _ in range(self._chance.randint(1, 2)):
            self._stop_all()

    def _stop_all(self) -> None:
        chance, at, member = self._chance, self._at(0.2, 0.8), self._chance.randrange(3)
        less = chance.choice(LESS)
        if less in ("restore", "clone"):
            self._do(at - chance.uniform(0.5, 10.0), "copy", member=member)
        downs = {f"down{number}": self._down() for number in range(3)}
        if chance.random() < 0.5:  # the damaged one starts first
            downs[f"down{member}"] = 0.1
        place = chance.random()
        self._do(at, "stop_all", member=member, less=less, how=self._way(), seed=chance.randrange(1 << 30), place=place,
                 **downs)  # fmt: skip

    def _way(self) -> str:
        return self._chance.choice(("kill", "kill", "power", "stop"))

    def _other_fault(self) -> None:
        chance, at = self._chance, self._at()
        do = chance.choice(("kill", "power", "restart", "pause", "cut", "cut", "promote", "slow_disk", "controller"))
        of: dict[str, Value] = {"broker": chance.randrange(3), "lasts": round(chance.uniform(0.5, 10.0), 1)}
        of |= {"down": self._down(), "seed": chance.randrange(1 << 30), "how": chance.choice(("kill", "power"))}
        of |= {"ways": chance.choice(("both", "to", "from")), "whom": chance.choice(("set", "controller")), "back": 3.0}
        if do == "controller":
            of["which"] = chance.randrange(3)
        self._actions.append(Action(round(at, 3), do, of))
