"""Reads what the sources declare, without importing them: compiled modules keep no signatures, Spark may be missing."""

from __future__ import annotations

import ast
import inspect
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src"
OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.LShift: operator.lshift,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Sub: operator.sub,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Definition:
    """A class, function, constant or module where it is written."""

    module: str
    name: str
    node: ast.stmt | ast.Module
    doc: str


@cache
def module_path(module: str) -> Path | None:
    """The file of a module, or None where there is none."""
    base = PACKAGE.joinpath(*module.split("."))
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


@cache
def module_tree(module: str) -> ast.Module:
    """A module as it is written."""
    path = module_path(module)
    assert path is not None, f"there is no module {module}"
    return ast.parse(path.read_text(encoding="utf-8"))


def public_names(module: str) -> list[tuple[str, list[str]]]:
    """What `__all__` offers, under the comments that stand before its parts."""
    path = module_path(module)
    assert path is not None
    lines = path.read_text(encoding="utf-8").splitlines()
    node = next(each for each in module_tree(module).body if "__all__" in assigned(each))
    assert isinstance(node, ast.Assign)
    assert isinstance(node.value, ast.List)
    parts: list[tuple[str, list[str]]] = [("", [])]
    at = node.lineno
    for name in node.value.elts:
        assert isinstance(name, ast.Constant)
        for line in lines[at - 1 : name.lineno - 1]:
            if line.strip().startswith("#"):
                parts.append((line.strip(" #"), []))
        at = max(at, name.lineno)
        parts[-1][1].append(str(name.value))
    return [part for part in parts if part[1]]


def find(module: str, name: str) -> Definition | None:
    """Where a name that a module has is written, through any number of imports inside Bolide."""
    if module_path(module) is None:
        return None
    body = list(flattened(module_tree(module).body))
    for number, node in enumerate(body):
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return Definition(module, name, node, ast.get_docstring(node) or "")
        if name in assigned(node):
            return Definition(module, name, node, doc_after(body, number))
    for node in body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bolide"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find(node.module or "", alias.name) or whole_module(f"{node.module}.{alias.name}")
    return None


def whole_module(module: str) -> Definition | None:
    """A module as something that another one offers."""
    if module_path(module) is None:
        return None
    tree = module_tree(module)
    return Definition(module, module.rpartition(".")[2], tree, ast.get_docstring(tree) or "")


def flattened(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those of `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.If):
            yield from flattened(node.body)
        else:
            yield node


def assigned(node: ast.stmt) -> list[str]:
    """The names that a statement gives a value or a type."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def doc_after(body: list[ast.stmt], number: int) -> str:
    """The text below an assignment, which describes it."""
    after = body[number + 1] if number + 1 < len(body) else None
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
        return inspect.cleandoc(after.value.value)
    return ""


def written(node: ast.expr) -> str:
    """An expression as a reader writes it: with double quotes."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', ast.unparse(node))


def decorators(node: Function | ast.ClassDef) -> set[str]:
    """The last words of what stands above a function or class."""
    return {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list}


def bases(definition: Definition) -> Iterator[Definition]:
    """A class and those of Bolide that it is made of, itself first."""
    yield definition
    if isinstance(definition.node, ast.ClassDef):
        for base in definition.node.bases:
            above = find(definition.module, ast.unparse(base).partition("[")[0])
            if above is not None:
                yield from bases(above)


@dataclass(frozen=True)
class Declared:
    """The annotation of an argument: its type, and its `ArgumentOption` (`bolide.client.messages.checked`)."""

    module: str
    """The module that the type is written in."""
    type: ast.expr
    text: str = ""
    allowed: str = ""


def declared(module: str, node: ast.expr) -> Declared:
    """Read an annotation that may be ``Annotated[type, KIND(text, unit)]``, or the name of such a one."""
    if isinstance(node, ast.Name):
        found = find(module, node.id)
        value = found.node.value if found and isinstance(found.node, ast.Assign) else None
        of = declared(found.module, value) if found and isinstance(value, ast.Subscript) else None
        return of if of is not None and of.text else Declared(module, node)
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Unpack":
        return Declared(module, node, f"Keywords of `{ast.unparse(node.slice)}`.")
    if not (isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated"):
        return Declared(module, node)
    assert isinstance(node.slice, ast.Tuple)
    kind, option = node.slice.elts
    if not isinstance(option, ast.Call):
        return Declared(module, kind if ast.unparse(option).isupper() else node)
    made = find(module, ast.unparse(option.func))
    if made is None or not isinstance(made.node, ast.AnnAssign) or not isinstance(made.node.value, ast.Call):
        return Declared(module, node)
    texts = [ast.literal_eval(each) for each in option.args]
    allowed = ast.literal_eval(made.node.value.args[0])
    return Declared(module, kind, texts[0], ", ".join(filter(None, (*texts[1:], allowed))))


def value_of(module: str, node: ast.expr) -> ast.expr:
    """What an expression stands for where that is a plain value: a constant's value in place of its name."""
    if isinstance(node, ast.Name):
        found = find(module, node.id)
        if found and isinstance(found.node, ast.Assign | ast.AnnAssign) and found.node.value is not None:
            value = value_of(found.module, found.node.value)
            options = isinstance(value, ast.Call) and not value.args and not value.keywords  # an object of defaults
            return value if options or isinstance(value, ast.Constant | ast.UnaryOp) else node
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        found = find(module, node.value.id)
        if found and isinstance(found.node, ast.Module):
            value = value_of(found.module, ast.Name(node.attr))
            return value if isinstance(value, ast.Constant) else node
    if isinstance(node, ast.BinOp):
        left, right = (value_of(module, side) for side in (node.left, node.right))
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            worked_out = OPERATORS.get(type(node.op))
            if worked_out and isinstance(left.value, int) and isinstance(right.value, int):
                return ast.Constant(worked_out(left.value, right.value))
    return node
