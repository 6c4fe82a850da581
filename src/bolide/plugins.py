"""Plug-ins: built-in objects, and objects that installed packages register under a name as entry points.

A package declares its plug-ins in its `pyproject.toml`; `docs/plugins.md` defines each kind:

    [project.entry-points."bolide.dispatchers"]
    search = "my_package:SearchDispatcher"

The entry points of installed packages are read (once) only when a setting, a subscription or a call names a plug-in
that is not built in. Only the named plug-in is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from bolide.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PluginKind(Struct, frozen=True):
    """One kind of plug-in: the group of its entry points, its noun, and the built-in ones as `module:attribute`."""

    group: str
    noun: str
    built_in: Mapping[str, str] = field(default_factory=dict)
    need_arguments: Mapping[str, str] = field(default_factory=dict)
    """Text to write instead of the name, for built-in plug-ins that need arguments."""


EXPRESSION_TYPES: Final = PluginKind(
    "bolide.expression_types",
    "expression type",
    {"TAG": "bolide.broker.expressions:compile_tags", "SQL92": "bolide.broker.expressions:compile_sql"},
)
ALLOCATE_STRATEGIES: Final = PluginKind(
    "bolide.allocate_strategies",
    "strategy",
    {
        "AVG": "bolide.client.consuming.strategies:avg",
        "AVG_BY_CIRCLE": "bolide.client.consuming.strategies:avg_by_circle",
        "CONSISTENT_HASH": "bolide.client.consuming.strategies:consistent_hash",
    },
    {
        "CONFIG": "strategies.config(queues)",
        "MACHINE_ROOM": "strategies.machine_room(rooms)",
        "MACHINE_ROOM_NEARBY": "strategies.machine_room_nearby(inner, room_of_broker, room_of_client)",
    },
)
DISPATCHERS: Final = PluginKind("bolide.dispatchers", "dispatcher")
HOOKS: Final = PluginKind("bolide.hooks", "broker hook", {"requestLog": "bolide.node.plugins.request_log:RequestLog"})
SINKS: Final = PluginKind(
    "bolide.sinks",
    "sink",
    {
        "parquet": "bolide.spark.jobs.file_sinks:ParquetSink",
        "json": "bolide.spark.jobs.file_sinks:JsonSink",
        "rocketmq": "bolide.spark.jobs.topic_sink:TopicSink",
    },
)
KINDS: Final = (EXPRESSION_TYPES, ALLOCATE_STRATEGIES, DISPATCHERS, HOOKS, SINKS)


class Installed(Struct, frozen=True):
    """A plug-in of an installed package."""

    kind: PluginKind
    name: str
    value: str
    """`module:attribute`."""
    package: str
    """Name and version of the package."""


def installed() -> list[Installed]:
    """Return every plug-in of every installed package, by kind and name, without importing any."""
    return [
        Installed(kind, point.name, point.value, _package(point)) for kind in KINDS for point in _points(kind.group)
    ]


def known(kind: PluginKind) -> list[str]:
    """Return the names of a kind, built-in ones first."""
    return list(dict.fromkeys([*kind.built_in, *kind.need_arguments, *(p.name for p in _points(kind.group))]))


def find(kind: PluginKind, name: str) -> Any:
    """Return the plug-in with this name. Raises `ConfigError` with the known names, or with the plug-in's fault.

    A package cannot replace a built-in name.
    """
    value = kind.built_in.get(name)
    if value is not None:
        return _entry_point(name, value, kind.group).load()
    if name in kind.need_arguments:
        raise ConfigError(f"{kind.noun} {name} needs arguments, give {kind.need_arguments[name]} instead of its name")
    points = [point for point in _points(kind.group) if point.name == name]
    if not points:
        names = ", ".join(known(kind))
        advice = f"use one of {names}" if names else "no installed package adds one"
        raise ConfigError(f"the {kind.noun} {name!r} is unknown: {advice}")
    if len(points) > 1:
        packages = " and ".join(_package(point) for point in points)
        raise ConfigError(f"the {kind.noun} {name} is added by {packages}: remove all of them but one")
    point = points[0]
    try:
        return point.load()
    except Exception as error:  # another package's module may raise anything: the error names it
        raise ConfigError(
            f"the {kind.noun} {name} ({point.value} of {_package(point)}) cannot be loaded: {error}; "
            f"repair or remove that package"
        ) from error


def names_in(text: str) -> list[str]:
    """Split the names in a setting, separated by `;` or `,`."""
    return [name.strip() for name in text.replace(",", ";").split(";") if name.strip()]


def _points(group: str) -> list[EntryPoint]:
    return _scanned(tuple(sys.path)).get(group, [])


@lru_cache(maxsize=4)
def _scanned(path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """Return the entry points of Bolide's groups for this `sys.path`, cached."""
    from importlib.metadata import entry_points  # imported here, because it costs a process without plug-ins 20 ms

    return {kind.group: sorted(set(entry_points(group=kind.group)), key=lambda p: p.name) for kind in KINDS}


def _entry_point(name: str, value: str, group: str) -> EntryPoint:
    from importlib.metadata import EntryPoint

    return EntryPoint(name, value, group)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"
