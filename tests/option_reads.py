"""Who reads a setting, as the sources say: attribute reads of options, found in their syntax trees."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import bolide
from bolide.access.cluster_options import ClusterAccessOptions
from bolide.broker.options.composed import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.declaration import parts_of
from bolide.namesrv.options import NamesrvOptions

SOURCES = Path(bolide.__file__).parent
PARTS = frozenset(parts_of(BrokerOptions))
"""The sections that a broker's options are composed of."""
DECLARING = frozenset(
    Path(inspect.getfile(kind)).relative_to(SOURCES).as_posix()
    for kind in (
        BrokerOptions,
        *parts_of(BrokerOptions).values(),
        NamesrvOptions,
        ControllerOptions,
        ClusterAccessOptions,
    )
)
"""The files that declare settings."""
RECEIVERS = frozenset({"options", "_options"})
"""What options are called where they are read."""
CARRIERS = RECEIVERS | PARTS
TAKERS = frozenset({"configure", "_apply"})
"""Functions that get the options again when a setting changes."""
DEPTH = 3


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def reads(tree: ast.AST) -> set[str]:
    """The attributes of options that this code reads."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _called(node.value) in CARRIERS
    }


def read_anywhere() -> set[str]:
    """The fields of options that something reads, be it by a property of the options."""
    found: set[str] = set()
    by_property: dict[str, set[str]] = {}
    for name, tree in modules():
        found |= reads(tree)
        if name in DECLARING:
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
                    own = {node.attr for node in ast.walk(function) if _of_self(node)} | reads(function)
                    by_property.setdefault(function.name, set()).update(own)
    return found | {field for name, fields in by_property.items() if name in found for field in fields}


def taken_live() -> set[str]:
    """The fields that functions read which get the options again, and what they hand the options to."""
    named: dict[str, list[ast.AST]] = {}
    classes: list[ast.ClassDef] = []
    for _, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                named.setdefault(node.name, []).append(node)
            if isinstance(node, ast.ClassDef):
                classes.append(node)
    found: set[str] = set()
    for made in classes:
        for function in made.body:
            if isinstance(function, ast.FunctionDef) and function.name in TAKERS:
                found |= _reads_deep(function, named, DEPTH)
                if _keeps_options(function):
                    found |= reads(made)
    return found


def stale() -> dict[str, set[str]]:
    """Of each class that keeps options and does not replace them at a change: the fields it reads of them."""
    found: dict[str, set[str]] = {}
    for _, tree in modules():
        for made in ast.walk(tree):
            if not isinstance(made, ast.ClassDef):
                continue
            takers = [each for each in made.body if isinstance(each, ast.FunctionDef) and each.name in TAKERS]
            if not any(_keeps_options(taker) for taker in takers):
                kept = {
                    node.attr for node in ast.walk(made) if isinstance(node, ast.Attribute) and _of_kept(node.value)
                }
                found.setdefault(made.name, set()).update(kept)
    return found


def _of_kept(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr in PARTS:
        node = node.value
    return _of_self(node) and _called(node) in RECEIVERS


def _reads_deep(tree: ast.AST, named: dict[str, list[ast.AST]], depth: int) -> set[str]:
    found = reads(tree)
    for call in ast.walk(tree):
        if depth and isinstance(call, ast.Call) and any(_called(word) in CARRIERS for word in call.args):
            name = _called(call.func)
            for callee in named.get(name, []) if name not in TAKERS else []:
                found |= _reads_deep(callee, named, depth - 1)
    return found


def _keeps_options(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(node, ast.Assign) and _called(node.value) in RECEIVERS and _called(node.targets[0]) in RECEIVERS
        for node in ast.walk(function)
    )


def _called(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and _called(node.value) == "self"
