"""What sources, tests and pages cite exists: sections of docs/protocol, and the headings that links name.

A citation names the file from the root of the checkout and its sections by number: `docs/protocol/store.md 2 and 9`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUFFIXES = {".py", ".md", ".toml", ".java", ".c", ".conf", ".sh"}
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NUMBER = r"\d+(?:\.\d+)*"
CITATION = re.compile(rf"docs/protocol/([\w.]*\.md)((?:(?:,| and| to|)\s+{NUMBER}(?!\w))*)")
OTHER_FORMS = re.compile(
    r"(?:behaviour|remoting|store) facts|(?<!docs/)(?<!]\()protocol/\w+\.md"
    r"|(?<![\w/-])(?:behaviour|remoting|store)\.md \d"
)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(((?!https?:)[^()\s]*)#([^()\s]+)\)")


def texts() -> Iterator[tuple[str, str]]:
    """Path and text of every file that may cite, this one apart: its examples are not citations."""
    for folder in ("src", "tests", "docs", "tools", "bench", "demo", "proof", "build_backend"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in SUFFIXES and file != Path(__file__) and file.is_file():
                yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
    for file in sorted(ROOT.glob("*.md")):
        yield file.name, file.read_text(encoding="utf-8")


def headings(page: Path) -> list[str]:
    """The headings of a page, without the lines of its programs."""
    return HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading: lower case, no punctuation, hyphens for blanks."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def sections(page: Path) -> set[str]:
    """The numbers that headings of the page begin with."""
    return {found[0] for heading in headings(page) if (found := re.match(rf"{NUMBER}(?= )", heading))}


def lost_citations(path: str, text: str) -> list[str]:
    """A sentence for each citation of the text that leads nowhere."""
    lost = [
        f"{path}: {found[0]!r} is not the form docs/protocol/<page>.md <section>"
        for found in OTHER_FORMS.finditer(text)
    ]
    for page, listed in CITATION.findall(text):
        file = ROOT / "docs" / "protocol" / page
        numbers = re.findall(NUMBER, listed)
        if not file.is_file():
            lost.append(f"{path}: docs/protocol/{page} does not exist")
        elif missing := set(numbers) - sections(file):
            lost.append(f"{path}: docs/protocol/{page} has no section {', '.join(sorted(missing))}")
    return lost


def test_every_citation_exists() -> None:
    lost = [sentence for path, text in texts() for sentence in lost_citations(path, text)]
    assert lost == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(docs/protocol/behaviour.md 2, 2.9 and 6.4)", "no section 2.9"),
        ("docs/protocol/remoting.md\n99.", "no section 99"),
        ("docs/protocol/tales.md 1", "tales.md does not exist"),
        ("protocol/store.md 2", "not the form"),
        ("store.md 6: the log", "not the form"),
        ("behaviour facts 4", "not the form"),
        ("docs/protocol/behaviour.md 2, 2.1 and 6.4", None),
        ("docs/protocol/store.md has 12 sections; see [store](store.md)", None),
    ],
)
def test_a_lost_citation_is_found(text: str, says: str | None) -> None:
    found = lost_citations("src/a.py", text)
    assert len(found) == (says is not None)
    assert says is None or says in found[0]


def lost_anchors(page: Path, text: str) -> list[str]:
    """A sentence for each link of the page's text to a heading that does not exist."""
    lost = []
    for target, name in LINK.findall(text):
        file = page.parent / target if target else page
        if not file.is_file():
            lost.append(f"{page.name} links to {target}, which does not exist")
        elif file.suffix == ".md" and name not in {anchor(heading) for heading in headings(file)}:
            lost.append(f"{page.name} links to {target}#{name}: {file.name} has no such heading")
    return lost


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_anchor_is_a_heading(page: Path) -> None:
    assert lost_anchors(page, page.read_text(encoding="utf-8")) == []


def test_a_lost_anchor_is_found() -> None:
    page = ROOT / "docs" / "spark-store.md"
    assert lost_anchors(page, "see [columns](spark-source.md#columns) and [streams](#streams)") == []
    assert "no such heading" in lost_anchors(page, "see [columns](spark.md#columns)")[0]
    assert "does not exist" in lost_anchors(page, "see [columns](gone.md#columns)")[0]
