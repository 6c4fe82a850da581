"""Objects of the node are complete once they are constructed: other code does not give them their callbacks later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src/bolide"
LATE = {
    "node/assembly.py: self._store.reput.copied",  # the store dispatches at its recovery, which must not count
    "node/broker.py: parts.inspection.replicas",  # the limit of eight parameters
    "node/broker.py: parts.inspection.waiting",  # the executor needs the services first
    "node/replication/switching.py: store.maintenance.confirmed",  # only in controller mode
    "node/replication/switching.py: store.maintenance.held",
}
OF_A_CONNECTION = {"node/loop/front.py: channel.link"}
"""A connection and its channel refer to each other."""


def trees(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    """Yield the path below the package and the syntax tree of each module."""
    for file in sorted(folder.rglob("*.py")):
        yield file.relative_to(PACKAGE).as_posix(), ast.parse(file.read_text("utf-8"))


def interfaces() -> set[str]:
    """Return the names of all protocols."""
    return {
        node.name
        for _, tree in trees(PACKAGE)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases)
    }


def declared(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the attributes that constructors set, and their types as written."""
    for made in ast.walk(tree):
        if not isinstance(made, ast.FunctionDef) or made.name != "__init__":
            continue
        types = {a.arg: ast.unparse(a.annotation) for a in [*made.args.args, *made.args.kwonlyargs] if a.annotation}
        for node in ast.walk(made):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
                yield node.target.attr, ast.unparse(node.annotation)
            elif isinstance(node, ast.Assign):
                names = [each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)]
                text = " ".join(types[name] for name in names if name in types)
                yield from ((each.attr, text) for each in node.targets if isinstance(each, ast.Attribute))


def wired() -> set[str]:
    """Return the names of attributes that hold a function, or an object known by a protocol."""
    names = interfaces()
    return {
        attribute
        for _, tree in trees(PACKAGE)
        for attribute, kind in declared(tree)
        if "Callable[" in kind or names & set(kind.replace("|", " ").split())
    }


def late_in(path: str, tree: ast.AST, attributes: set[str]) -> Iterator[str]:
    """Yield the assignments of such attributes to objects other than `self`, except in setters of properties."""
    if isinstance(tree, ast.FunctionDef) and any(ast.unparse(one).endswith(".setter") for one in tree.decorator_list):
        return
    for node in ast.iter_child_nodes(tree):
        yield from late_in(path, node, attributes)
    targets = tree.targets if isinstance(tree, ast.Assign) else [tree.target] if isinstance(tree, ast.AnnAssign) else []
    for target in targets:
        if isinstance(target, ast.Attribute) and target.attr in attributes and ast.unparse(target.value) != "self":
            yield f"{path}: {ast.unparse(target)}"


def late() -> set[str]:
    """Return all late assignments in the node."""
    attributes = wired()
    return {found for path, tree in trees(PACKAGE / "node") for found in late_in(path, tree, attributes)}


def test_no_other_object_is_completed_after_its_construction() -> None:
    assert late() == LATE | OF_A_CONNECTION
    assert len(LATE) <= 5


def test_a_callback_that_is_set_later_is_found() -> None:
    source = "class A:\n    def __init__(self) -> None:\n        self.told: Callable[[], None] | None = None\n"
    attributes = {name for name, kind in declared(ast.parse(source)) if "Callable[" in kind}
    assert list(late_in("b.py", ast.parse("a.told = print\nself.told = print\na.count = 1"), attributes)) == [
        "b.py: a.told"
    ]
