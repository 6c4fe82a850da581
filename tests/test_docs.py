"""The programs in README and docs are the files under docs/programs, to the letter, and those files compile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "docs" / "programs"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"<!-- (docs/programs/[\w.]+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_its_program(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, block in BLOCK.findall(text):
        assert block == (ROOT / name).read_text(encoding="utf-8"), f"{page.name}: the block of {name} is out of date"
    assert text.count("```python") == len(BLOCK.findall(text)), f"{page.name}: a Python block names no program"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.py")), ids=lambda program: program.name)
def test_every_program_compiles_and_is_shown(program: Path) -> None:
    compile(program.read_text(encoding="utf-8"), str(program), "exec")
    shown = {name for page in PAGES for name, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
    assert f"docs/programs/{program.name}" in shown, f"{program.name} is on no page"
