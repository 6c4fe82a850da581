"""`bolide.client` exports every name that a program needs to call it, annotate with it or catch its errors."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tools.read_source import declared

import bolide.client

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"(?<!`)`([A-Z]\w+)(?:\.\w+)*`(?!`)")
NOT_MADE_BY_USERS = {"ReceivedMessage", "ResponseError", "TopicNotFound"}
"""Classes whose constructors are for the client itself."""
INTERNAL = {"ClientInstance", "Sending"}
"""What methods between the parts of the client itself take and return."""


def exported_classes() -> Iterator[type]:
    """The classes among the exported names."""
    for name in bolide.client.__all__:
        if isinstance(value := getattr(bolide.client, name), type):
            yield value


def source_of(module: str) -> ast.Module:
    """A module as it is written: the source lies beside a compiled one, too."""
    file = Path(bolide.__path__[0], *module.split(".")[1:])
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def class_node(kind: type) -> ast.ClassDef:
    """A class as it is written."""
    nodes = source_of(kind.__module__).body
    return next(node for node in nodes if isinstance(node, ast.ClassDef) and node.name == kind.__name__)


def public_parts(kind: type) -> Iterator[ast.AnnAssign | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public fields and methods of a class, and its constructor where users call it."""
    for node in class_node(kind).body:
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_") or (node.name == "__init__" and kind.__name__ not in NOT_MADE_BY_USERS):
                yield node


def annotations(node: ast.AnnAssign | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """What a field or method is annotated with."""
    if isinstance(node, ast.AnnAssign):
        yield node.annotation
        return
    arguments = node.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
    if node.returns is not None:
        yield node.returns


def of_bolide(module: ModuleType, name: str) -> bool:
    """Whether a name that a module uses comes from Bolide."""
    for node in ast.walk(source_of(module.__name__)):
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return (node.module or "").startswith("bolide")
        if isinstance(node, ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == name for each in node.targets
        ):
            return True
    return False


@pytest.mark.parametrize("kind", exported_classes(), ids=lambda kind: kind.__name__)
def test_every_type_in_an_annotation_is_exported(kind: type) -> None:
    if not kind.__module__.startswith("bolide.client"):
        return
    for part in public_parts(kind):
        for annotation in annotations(part):
            of = declared(kind.__module__, annotation)
            module = sys.modules[of.module]
            for name in {node.id for node in ast.walk(of.type) if isinstance(node, ast.Name)}:
                if name not in INTERNAL and not name.startswith("_") and of_bolide(module, name):
                    assert name in bolide.client.__all__, f"{kind.__name__}: {ast.unparse(annotation)}"


@pytest.mark.parametrize("kind", exported_classes(), ids=lambda kind: kind.__name__)
def test_every_class_named_in_a_docstring_is_exported(kind: type) -> None:
    texts = [ast.get_docstring(class_node(kind)) or ""]
    for part in public_parts(kind):
        if not isinstance(part, ast.AnnAssign):
            texts.append(ast.get_docstring(part) or "")
    for name in {name for text in texts for name in NAMED.findall(text)}:
        if name not in INTERNAL and not hasattr(builtins, name) and not name.isupper():
            assert hasattr(bolide.client, name), f"{kind.__name__} speaks of {name}"


def test_every_exported_name_is_there_and_no_other_is_made_up() -> None:
    assert len(set(bolide.client.__all__)) == len(bolide.client.__all__)
    for name in bolide.client.__all__:
        getattr(bolide.client, name)
    with pytest.raises(AttributeError, match="has no attribute 'Consumer'"):
        bolide.client.Consumer  # noqa: B018  the look-up is what is tested


def test_the_import_loads_nothing_heavy() -> None:
    heavy = ("opentelemetry", "pydantic", "numpy", "pandas", "pyarrow", "pyspark", "urllib.request", "http.client")
    program = f"import sys, bolide.client; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_shown_programs_import_only_what_is_public() -> None:
    for path in [*(ROOT / "docs" / "programs").glob("*.py"), *(ROOT / "demo").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bolide.client"):
                assert node.module in ("bolide.client", "bolide.client.blocking"), f"{path.name} imports {node.module}"


WITHOUT_PACKAGES = """
import importlib.abc, inspect, sys
class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("opentelemetry", "prometheus_client"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
from bolide.client import *
import bolide.client
assert Producer and inspect.getmembers(bolide.client)
for name in ("OpenTelemetry", "PrometheusMetrics"):
    try:
        getattr(bolide.client, name)
    except ImportError as error:
        print(error)
"""


def test_star_import_needs_no_optional_package_and_a_name_that_does_reports_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PACKAGES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [
        f"run pip install {requirement} (" in line
        for requirement, line in zip(('"bolide[otel]"', "prometheus-client"), done.stdout.splitlines(), strict=True)
    ] == [True, True]
