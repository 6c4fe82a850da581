"""The pages of docs/reference have every public name, with a word about it."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tools.generate_errors import TEXTS
from tools.read_source import Function, find, public_names

from bolide import admin
from bolide.errors import BolideError
from bolide.remoting import codes
from tests.client_classes import BLOCKING, NATIVE, name_of, not_started

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = {
    "bolide.admin": "admin.md",
    "bolide.client": "client.md",
    "bolide.client.blocking": "client-blocking.md",
    "bolide.spark": "spark.md",
    "bolide.testing": "testing.md",
}


def headings(module: str) -> list[str]:
    """The names that a page has a heading for."""
    return re.findall(r"^#{2,4} ([\w.]+)$", (REFERENCE / PAGES[module]).read_text(encoding="utf-8"), re.MULTILINE)


def offered(module: str) -> list[str]:
    """The names of a module and the public methods of its classes, as Python knows them."""
    public = import_module(module)
    names = getattr(public, "__all__", None) or [
        name for name, value in vars(public).items() if isinstance(value, type) and value.__module__ == module
    ]
    found = []
    for name in names:
        value = getattr(public, name)
        found.append(name)
        if isinstance(value, type) and value.__module__.startswith("bolide"):
            parts = {part for each in value.__mro__ if each.__module__.startswith("bolide") for part in vars(each)}
            for part in sorted(parts):
                member = inspect.getattr_static(value, part)
                if not part.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
                    found.append(f"{name}.{part}")
    return found


@pytest.mark.parametrize("module", PAGES)
def test_every_public_name_has_its_place_on_the_page(module: str) -> None:
    if module == "bolide.spark":
        pytest.importorskip("pyspark")
    assert set(offered(module)) - set(headings(module)) == set()


@pytest.mark.parametrize("kind", [*NATIVE, *BLOCKING, admin.Admin], ids=name_of)
def test_a_client_has_the_public_attributes_of_its_page_and_no_other(kind: type[Any]) -> None:
    page = next(module for module in sorted(PAGES, reverse=True) if kind.__module__.startswith(module))
    prefix = f"{kind.__name__}."
    on_page = {name.removeprefix(prefix) for name in headings(page) if name.startswith(prefix)}
    assert {name for name in dir(not_started(kind)) if not name.startswith("_")} == on_page


@pytest.mark.parametrize("module", PAGES)
def test_no_name_is_there_twice(module: str) -> None:
    there = headings(module)
    assert [name for name in there if there.count(name) > 1] == []


@pytest.mark.parametrize("module", [module for module in PAGES if module != "bolide.client.blocking"])
def test_every_public_name_has_a_docstring(module: str) -> None:
    silent = []
    for name in [name for _, names in public_names(module) for name in names]:
        found = find(module, name)
        assert found is not None, f"{module} offers {name}, which the sources do not have"
        if not found.doc:
            silent.append(name)
        for part in found.node.body if isinstance(found.node, ast.ClassDef) else []:
            if isinstance(part, Function) and not part.name.startswith("_"):
                overloaded = any("overload" in ast.unparse(each) for each in part.decorator_list)
                if not overloaded and not ast.get_docstring(part):
                    silent.append(f"{name}.{part.name}")
    assert silent == []


def test_a_default_is_its_value_and_not_its_name() -> None:
    page = (REFERENCE / "client.md").read_text(encoding="utf-8")
    assert "    timeout: float = 3.0,\n" in page
    assert '    namesrv: str | Sequence[str] = "",\n' in page
    assert "- `FLUSH_DISK_TIMEOUT = 10`: Stored, but not known to be on disk yet." in page
    assert re.findall(r"^    \w+: .* = [A-Z_]{3,},$", page, re.MULTILINE) == []


def test_the_pages_are_written_without_importing_bolide() -> None:
    program = (
        "import sys; sys.path.insert(0, 'tools'); import generate_api as made; [made.page(each) for each in made.PAGES]"
    )
    program += "; print([name for name in sys.modules if name.split('.')[0] in ('bolide', 'pyspark')])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_error_and_every_response_code_says_what_to_do() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    classes = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", page, re.MULTILINE))
    offered = {
        name
        for module in (import_module("bolide.client"), import_module("bolide.spark.errors"))
        for name, value in ((name, getattr(module, name)) for name in dir(module))
        if isinstance(value, type) and issubclass(value, BolideError)
    }
    assert offered - set(classes) == set()
    shown = dict(re.findall(r"^\| (\d+) \| (\w+) \|", page, re.MULTILINE))
    assert shown == {str(code): name for code, name in codes.RESPONSE_NAMES.items() if code >= 0}


def test_the_advice_names_settings_and_options_that_exist() -> None:
    told = re.findall(r"(?<![\w.])[a-z]+(?:[A-Z][a-z]+)+\b", TEXTS.read_text(encoding="utf-8"))
    pages = [ROOT / "docs" / name for name in ("settings.md", "spark-source.md", "spark-sink.md", "spark-store.md")]
    there = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [word for word in told if f"`{word}`" not in there] == []


def test_every_metric_that_is_served_is_on_the_page_and_no_other() -> None:
    served = set()
    for room in ("node", "monitor"):
        for file in (ROOT / "src" / "bolide" / room).rglob("*.py"):
            served |= set(re.findall(r'"((?:rocketmq|bolide)_[a-z_]+)"', file.read_text(encoding="utf-8")))
    page, _, not_served = (REFERENCE / "metrics.md").read_text(encoding="utf-8").partition("Not served:")
    assert not_served
    assert set(re.findall(r"`((?:rocketmq|bolide)_[a-z_]+)`", page)) == served


@pytest.mark.parametrize("name", [*(kind.__name__ for kind in NATIVE), "ConnectionOptions", "Message"])
def test_every_argument_of_the_clients_says_what_it_takes(name: str) -> None:
    part = (REFERENCE / "client.md").read_text(encoding="utf-8").partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    told = dict(re.findall(r"^\| `(\w+).*?` \| (.+?) \|", part, re.MULTILINE))
    public = getattr(import_module("bolide.client"), name)
    there = set(public.__annotations__) if name == "ConnectionOptions" else set(inspect.signature(public).parameters)
    assert set(told) == there
    assert all(told.values())
