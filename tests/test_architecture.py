"""ARCHITECTURE.md names files and packages that exist, and names every package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/bolide"
FILE = re.compile(r"`([\w/]+\.(?:py|pyx|pxi|json|toml))(?:`|\b)")
MADE_AT_RUN_TIME = {"config/followedTimer.json", "derived.json"}
"""Files of a store, not of the sources."""


def files_named(page: str) -> list[str]:
    """Return the source files that a page names in code style, in order."""
    return [name for name in FILE.findall(page) if name not in MADE_AT_RUN_TIME]


def missing(names: list[str]) -> list[str]:
    """Return the names without a file in the package or the checkout; a name without a folder may be anywhere."""
    bare = {file.name for file in PACKAGE.rglob("*.p*")}
    return [
        name
        for name in names
        if not (PACKAGE / name).is_file() and not (ROOT / name).is_file() and ("/" in name or name not in bare)
    ]


def packages_below(folder: Path) -> set[str]:
    """Return the names of the packages directly in a folder."""
    return {init.parent.name for init in folder.glob("*/__init__.py")}


def package_rows(page: str) -> dict[str, str]:
    """Return the rows of the table of packages: the second column by the names in the first."""
    table = page.partition("## Package layout")[2]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", table, re.M)
    return {name: text for names, text in rows for name in re.findall(r"`(\w+)`", names)}


PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_every_file_named_exists() -> None:
    assert missing(files_named(PAGE)) == []


@pytest.mark.parametrize("section", ["## Sending", "## Receiving"])
def test_the_walk_of_a_message_names_its_files(section: str) -> None:
    walk = PAGE.partition(section)[2].partition("\n## ")[0]
    assert len(files_named(walk)) >= 8


def test_every_package_has_its_row() -> None:
    rows = package_rows(PAGE)
    single_files = {name for name in rows if (PACKAGE / f"{name}.py").is_file()}
    assert set(rows) - single_files == packages_below(PACKAGE)


@pytest.mark.parametrize("package", sorted(packages_below(PACKAGE)))
def test_a_row_names_the_packages_inside(package: str) -> None:
    inside = packages_below(PACKAGE / package)
    assert inside - set(re.findall(r"`(\w+)`", package_rows(PAGE)[package])) == set()


def test_a_file_that_moved_is_found() -> None:
    page = "`store/disk/files.py` calls **`store/files.py`** and `cut.py`, not `cat.py`; `config/followedTimer.json`"
    assert missing(files_named(page)) == ["store/files.py", "cat.py"]
