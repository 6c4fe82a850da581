"""The one door of plug-ins: built-in ones, installed ones, unknown ones, broken ones."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bolide import plugins
from bolide.errors import ConfigError
from bolide.plugins import ALLOCATE_STRATEGIES, DISPATCHERS, EXPRESSION_TYPES, KINDS, PluginKind, find, known, names_in
from tests.plugin_wheel import PLUGIN

ROOT = Path(__file__).parent.parent
MODULE = "def begins(text):\n    return text\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which packages are imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cities_for_bolide", raising=False)
    (tmp_path / "cities_for_bolide.py").write_text(MODULE)
    return tmp_path


def install(folder: Path, entry_points: str, name: str = "cities-for-bolide") -> None:
    """Put a package with these entry points where Python looks for packages."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    plugins._scanned.cache_clear()  # it is kept by sys.path, and this folder was on it before


def test_an_installed_one_is_found_and_listed(folder: Path) -> None:
    install(folder, "[bolide.expression_types]\nBEGINS = cities_for_bolide:begins\n")
    assert find(EXPRESSION_TYPES, "BEGINS")("Hang") == "Hang"
    assert known(EXPRESSION_TYPES) == ["TAG", "SQL92", "BEGINS"]
    (one,) = plugins.installed()
    assert (one.kind, one.name, one.value) == (EXPRESSION_TYPES, "BEGINS", "cities_for_bolide:begins")
    assert one.package == "cities-for-bolide 1.0"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
def test_every_built_in_one_loads(kind: PluginKind) -> None:
    for name in kind.built_in:
        assert callable(find(kind, name))


def test_the_page_has_each_kind_and_each_built_in_name() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    named = [name for kind in KINDS for name in (kind.group, *kind.built_in)]
    assert [name for name in named if f"`{name}`" not in page] == []


def test_the_package_of_the_tests_has_a_plug_in_of_each_kind() -> None:
    declared = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["entry-points"].keys() == {kind.group for kind in KINDS}


def test_an_unknown_name_lists_the_known_ones(folder: Path) -> None:
    install(folder, "[bolide.expression_types]\nBEGINS = cities_for_bolide:begins\n")
    with pytest.raises(ConfigError, match=r"^the expression type 'XPATH' is unknown: use one of TAG, SQL92, BEGINS$"):
        find(EXPRESSION_TYPES, "XPATH")
    with pytest.raises(ConfigError, match="the dispatcher .search. is unknown: no installed package adds one"):
        find(DISPATCHERS, "search")
    with pytest.raises(ConfigError, match=r"CONFIG needs arguments, give strategies.config\(queues\)"):
        find(ALLOCATE_STRATEGIES, "CONFIG")


def test_a_broken_one_is_told_with_its_package(folder: Path) -> None:
    install(folder, "[bolide.expression_types]\nENDS = cities_for_bolide:ends\n")
    with pytest.raises(ConfigError, match=r"ENDS \(cities_for_bolide:ends of cities-for-bolide 1.0\) cannot be loaded"):
        find(EXPRESSION_TYPES, "ENDS")


def test_two_packages_with_one_name_are_told_apart_by_nobody(folder: Path) -> None:
    install(folder, "[bolide.dispatchers]\nsearch = cities_for_bolide:begins\n")
    install(folder, "[bolide.dispatchers]\nsearch = cities_for_bolide:other\n", "towns-for-bolide")
    with pytest.raises(ConfigError, match="is added by .*cities-for-bolide 1.0.* remove all of them but one"):
        find(DISPATCHERS, "search")


def test_a_package_cannot_take_a_built_in_name(folder: Path) -> None:
    install(folder, "[bolide.expression_types]\nTAG = cities_for_bolide:begins\n")
    assert find(EXPRESSION_TYPES, "TAG").__module__ == "bolide.broker.expressions"
    assert known(EXPRESSION_TYPES) == ["TAG", "SQL92"]


def test_names_in_a_setting() -> None:
    assert names_in(" search; audit ,;") == ["search", "audit"]
    assert names_in("") == []


BROKER = """
import asyncio, sys
from bolide.broker.options.composed import BrokerOptions
from bolide.node.broker import BrokerNode

async def once() -> None:
    options = BrokerOptions.of(store_path_root_dir=sys.argv[1], listen_port=0, mapped_file_size_commit_log=1 << 26)
    node = BrokerNode(options)
    await node.start()
    await node.stop()

asyncio.run(once())
print("importlib.metadata" in sys.modules)
"""


def test_a_broker_that_names_none_looks_for_none(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BROKER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "False\n", done.stderr
