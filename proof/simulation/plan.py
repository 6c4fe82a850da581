"""A plan: everything that a run does and suffers, drawn before it begins, so that it can be made smaller and replayed.

A plan is settings and a list of actions, each with its time. Leaving any of them out gives another plan that runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

Value: TypeAlias = "str | int | float | bool"

FAULTS: Final = frozenset({
    "kill", "power", "restart", "pause", "clock", "cut", "slow_network", "reset_connections", "disk_error",
    "disk_full", "no_new_files", "no_descriptors", "slow_disk", "kill_namesrv", "promote", "empty",
    "controller", "etcd", "lie", "copy", "restore", "rot", "clone", "hang", "gray", "stop_all",
})  # fmt: skip
"""Actions that break something. All others are work."""

SLOW_S: Final = 3600.0
"""Simulated seconds from which on a plan is slow."""
LEVELS_S: Final = (1, 5, 10, 30, *range(60, 660, 60), 1200, 1800, 3600, 7200)
"""The delay levels, from 1 on."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that is done at a time, in seconds of the simulation."""

    at: float
    do: str
    of: dict[str, Value] = field(default_factory=dict)

    @property
    def fault(self) -> bool:
        """Whether it breaks something."""
        return self.do in FAULTS

    def text(self, name: str, default: str = "") -> str:
        """A parameter that is a text."""
        return str(self.of.get(name, default))

    def number(self, name: str, default: int = 0) -> int:
        """A parameter that is a whole number."""
        return int(self.of.get(name, default))

    def seconds(self, name: str, default: float = 0.0) -> float:
        """A parameter that is a time."""
        return float(self.of.get(name, default))

    def __str__(self) -> str:
        shown = " ".join(f"{name}={value}" for name, value in self.of.items())
        return f"{self.at:10.3f}  {self.do} {shown}".rstrip()


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run does. `seed` also decides every delay of the network, the disk and the scheduler."""

    seed: int
    seconds: float
    settings: dict[str, Value]
    """Of the brokers, by field of their options."""
    cluster: dict[str, Value]
    """How many brokers, name servers, producers; the members of the groups."""
    actions: tuple[Action, ...]

    @property
    def pace(self) -> str:
        """Slow plans take hours with little traffic."""
        return "slow" if self.seconds >= SLOW_S else "quick"

    @property
    def two_in_sync(self) -> bool:
        """A send is answered when a second replica has it: `inSyncReplicas = 2`."""
        return int(self.cluster.get("in_sync", 1)) > 1

    @property
    def members(self) -> bool:
        """Whether single members of its sets are damaged."""
        return bool(self.cluster.get("members"))

    def only(self, actions: Iterable[Action]) -> Plan:
        """The same plan with some of its actions."""
        return replace(self, actions=tuple(actions))

    def without_setting(self, name: str) -> Plan:
        """The same plan with one setting as its default."""
        return replace(self, settings={key: value for key, value in self.settings.items() if key != name})

    def encode(self) -> str:
        """The plan as JSON, one action a line."""
        head = {"seed": self.seed, "seconds": self.seconds, "settings": self.settings, "cluster": self.cluster}
        lines = [json.dumps([action.at, action.do, action.of]) for action in self.actions]
        return json.dumps(head)[:-1] + ', "actions": [\n' + ",\n".join(lines) + "\n]}\n"

    @classmethod
    def decode(cls, text: str) -> Plan:
        """The plan that `encode` wrote."""
        found = json.loads(text)
        actions = tuple(Action(float(at), str(do), dict(of)) for at, do, of in found["actions"])
        return cls(int(found["seed"]), float(found["seconds"]), found["settings"], found["cluster"], actions)

    def story(self) -> str:
        """The plan as a person reads it."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.cluster.items())
        settings = [f"    {name} = {value}" for name, value in sorted(self.settings.items())]
        actions = [f"  {action}" for action in self.actions]
        return "\n".join([
            f"seed {self.seed}, {self.seconds:g} s, {sizes}",
            "  settings:", *settings,
            f"  {len(actions)} actions:", *actions,
        ])  # fmt: skip
