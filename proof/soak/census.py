"""Counts what a node or a client keeps: the entries of each of its containers, and the objects of each class.

A leak is an entry that stays when what it was for is gone. Memory says so after hours; two counts before and after
some rounds of coming and going say so at once, with the name of the container.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

CONTAINERS: Final = (dict, list, set, frozenset, tuple, deque)
LEAVES: Final = (
    str, bytes, bytearray, memoryview, int, float, complex, bool, type(None), type, types.ModuleType, types.CodeType,
    types.FrameType, types.BuiltinFunctionType, types.GeneratorType, types.CoroutineType,
)  # fmt: skip
OUTSIDE: Final = ("proof.", "tests.", "asyncio.base_events", "uvloop", "logging", "ssl", "_ssl", "threading", "random")
"""Modules whose objects are not what is examined, and lead to everything else."""


def census(roots: Mapping[str, object]) -> Counter[str]:
    """Entries of every container that can be reached, by the class and the attribute that hold it, and objects by
    class. What several ways lead to counts once.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    kept: list[object] = []
    """What was made for this count, such as a bound method, stays until it is over: its id must not be used again."""
    waiting: list[tuple[str, object]] = list(roots.items())
    while waiting:
        label, value = waiting.pop()
        if isinstance(value, LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        kept.append(value)
        if isinstance(value, CONTAINERS):
            if not isinstance(value, tuple):
                found[label] += len(value)
            waiting += [(f"{label}[]", entry) for entry in entries(value)]
        else:
            waiting += parts(label, value, found)
    return found


def entries(value: Any) -> Iterator[object]:
    """What a container holds, keys and values."""
    yield from value
    if isinstance(value, dict):
        yield from value.values()


def parts(label: str, value: object, found: Counter[str]) -> Iterable[tuple[str, object]]:
    """What another object refers to; an object of a class that is examined is counted."""
    if isinstance(value, types.MethodType):
        return [(label, value.__self__), (label, value.__func__)]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return [(f"{value.__qualname__}()", each) for each in (*cells, *(value.__defaults__ or ()))]
    if isinstance(value, functools.partial):
        return [(label, each) for each in (value.func, value.args, value.keywords)]
    kind = type(value)
    if kind.__module__.startswith(OUTSIDE):
        return []
    found[f"objects of {kind.__qualname__}"] += 1
    return [(f"{kind.__qualname__}.{name}", each) for name, each in attributes(value)]


def attributes(value: object) -> Iterator[tuple[str, object]]:
    """The attributes of an object, interpreted or compiled."""
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (*((slots,) if isinstance(slots, str) else slots), *kind.__dict__.get("__mypyc_attrs__", ())):
            if name in ("__dict__", "__weakref__"):
                continue
            try:
                yield name, getattr(value, name)
            except AttributeError:
                continue  # not set


def module_state(package: str) -> dict[str, object]:
    """What the modules of a package keep: their containers, and the sizes of their caches as lists of that length."""
    state: dict[str, object] = {}
    for module_name, module in sorted(sys.modules.items()):
        if module_name != package and not module_name.startswith(package + "."):
            continue
        for name, value in vars(module).items():
            label = f"{module_name}.{name}"
            if isinstance(value, CONTAINERS):
                state[label] = value
            elif isinstance(value, functools._lru_cache_wrapper):
                state[label] = [None] * value.cache_info().currsize
    return state


def grown(before: Counter[str], after: Counter[str], least: int) -> dict[str, tuple[int, int]]:
    """What has at least so many entries more than before."""
    return {label: (before[label], count) for label, count in sorted(after.items()) if count - before[label] >= least}
