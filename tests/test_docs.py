"""Programs in README and docs equal the files under docs/programs, which compile; links lead to a page and heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.generate_commands import paths

from bolide.cli.main import command

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "docs" / "programs"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"<!-- (docs/programs/[\w.]+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
SOURCE = re.compile(r"`([\w/]+/\w+\.(?:py|java|toml))`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_its_program(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, block in BLOCK.findall(text):
        assert block == (ROOT / name).read_text(encoding="utf-8"), f"{page.name}: the block of {name} is out of date"
    assert text.count("```python") == len(BLOCK.findall(text)), f"{page.name}: a Python block names no program"


def anchors(page: Path) -> set[str]:
    """What a link may name after the page: its headings, as GitHub writes them into addresses."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(prose)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        goal = page.parent / target if target else page
        assert goal.exists(), f"{page.name} links to {target}, which does not exist"
        assert not anchor or anchor in anchors(goal), f"{page.name} links to {target}#{anchor}, which is not a heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    folders = [ROOT, ROOT / "src" / "bolide", PROGRAMS]
    for name in SOURCE.findall(page.read_text(encoding="utf-8")):
        assert any((folder / name).is_file() for folder in folders), f"{page.name} names {name}, which does not exist"


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.py")), ids=lambda program: program.name)
def test_every_program_compiles_and_is_shown(program: Path) -> None:
    compile(program.read_text(encoding="utf-8"), str(program), "exec")
    shown = {name for page in PAGES for name, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
    assert f"docs/programs/{program.name}" in shown, f"{program.name} is on no page"


def test_the_architecture_lists_every_package() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    listed = set(re.findall(r"`(\w+)`", " ".join(rows)))
    packages = {path.parent.name for path in (ROOT / "src" / "bolide").glob("*/__init__.py")}
    assert packages - listed == set()


def test_the_page_of_the_command_line_lists_every_command() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = [set(re.findall(r"[a-z-]+", row)) for row in rows]
    assert [path for path in paths(command(), "") if not any(set(path.split()) <= row for row in named)] == []
