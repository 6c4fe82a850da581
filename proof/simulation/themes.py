"""Themes: work, and the fault that meets it at its weakest moment.

A seed that turns everything on and off by itself rarely has both at once, and the settings that make them meet. So some
seeds have a theme: its features and faults, and values from which its settings, sends and faults are drawn. When, how
often and in which order is left to the seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from proof.simulation.plan import Value

SET_SHARE: Final = 0.6
"""Of the seeds whose brokers have slaves."""
SHARE: Final = 0.3
"""Of the seeds. Chance of its own decides it, so that the other seeds stay as they were."""
Values = dict[str, tuple[Value, ...]]


@dataclass(frozen=True)
class Theme:
    """What a seed with this theme draws from; anything that is not named is drawn as without a theme."""

    features: frozenset[str]
    faults: tuple[str, ...]
    settings: Values = field(default_factory=dict)
    send: Values = field(default_factory=dict)
    fault: Values = field(default_factory=dict)
    cluster: Values = field(default_factory=dict)


THEMES: Final[dict[str, Theme]] = {
    "deleted topics and crashes": Theme(
        frozenset({"deletion"}),
        ("kill", "power"),
        send={"topic": ("Draft", "Draft", "Scratch", "Orders")},
        fault={"after": ("change", "change", "answer")},
    ),
    "new topics and crashes": Theme(
        frozenset({"new_topics"}),
        ("kill", "power", "slow_disk"),
        fault={"after": ("new_topic", "new_topic", "answer"), "lasts": (5.0, 20.0)},
    ),
    "operators and crashes": Theme(
        frozenset({"topics", "groups", "offsets"}), ("kill", "power"), fault={"after": ("change", "change", "answer")}
    ),
    "delays and clocks": Theme(
        frozenset({"level", "timer", "push"}),
        ("clock",),
        send={"level": (2, 3, 3, 4), "delay": (9.0, 30.0)},
        fault={"jump": (10.0, 3_600.0, 86_400.0, -3_600.0), "lasts": (1.0, 2.0, 10.0)},
    ),
    "delays and failed writes": Theme(
        frozenset({"level", "timer"}),
        ("disk_error",),
        send={"level": (1, 2, 2, 3), "delay": (0.8, 4.8, 9.8)},
        fault={"call": ("write_at",), "path": ("commitlog", ""), "skip": (0, 0, 1), "times": (1, 2)},
    ),
    "rolled timers and crashes": Theme(
        frozenset({"timer", "recall"}),
        ("kill", "power"),
        settings={"timer_roll_window_slot": (20, 60), "timer_precision_ms": (100, 200)},
        send={"delay": (3.0, 9.0, 20.0, 40.0)},
    ),
    "transactions and no room": Theme(
        frozenset({"transaction"}),
        ("no_new_files", "disk_full"),
        settings={
            "mapped_file_size_commit_log": (1 << 14,),
            "transaction_check_interval": (1_000,),
            "transaction_time_out": (500, 2_000),
        },
        send={"checks": (2, 5, 9), "size": (50, 100, 800), "ends": ("commit", "commit", "rollback")},
        fault={"lasts": (2.0, 8.0, 20.0)},
    ),
}

SET_THEMES: Final[dict[str, Theme]] = {
    "masters that are lost": Theme(
        frozenset({"batch", "async", "push"}), ("promote",), fault={"down": (0.1, 2.0, 15.0)}, cluster={"in_sync": (2,)}
    ),
    "masters that come back with a tail": Theme(
        frozenset({"batch", "async"}),
        ("cut", "promote"),
        settings={"slave_timeout": (300, 1_000)},
        send={"size": (100,), "tag": ("",)},  # so that a record begins where one of another log does
        fault={"whom": ("set",), "lasts": (20.0, 30.0), "back": (3.0, 20.0), "down": (0.1, 2.0)},
        cluster={"in_sync": (1, 2)},
    ),
    "delays and lost masters": Theme(
        frozenset({"level", "timer", "transaction"}),
        ("promote",),
        send={"level": (2, 3, 4), "delay": (5.0, 20.0, 40.0)},
    ),
    "slaves that are emptied": Theme(
        frozenset({"batch", "push"}),
        ("empty", "empty", "kill"),
        settings={"mapped_file_size_commit_log": (1 << 14, 1 << 15)},
        send={"size": (200, 800, 1500)},
    ),
    "sets that are cut in two": Theme(
        frozenset({"async", "push"}), ("cut", "reset_connections"), fault={"whom": ("set",), "lasts": (2.0, 8.0, 25.0)}
    ),
    "consumers without a master": Theme(
        frozenset({"push", "orderly", "pull", "members"}),
        ("kill", "power"),
        fault={"down": (10.0, 25.0), "broker": (0,)},
    ),
    "replicas with slow disks": Theme(
        frozenset({"batch", "async"}), ("slow_disk", "pause", "power"), fault={"lasts": (2.0, 10.0)}
    ),
}
