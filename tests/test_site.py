"""The site builds without a warning, says what is wrong when it does not, and loads nothing over a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.build_site import changelog, lead, loads_from_elsewhere

from bolide.version import VERSION

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
pytestmark = pytest.mark.xdist_group("site")  # the site is built once, not by each worker


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The program, in a process of its own: Sphinx warns of things that pytest would raise."""
    command = [sys.executable, "-m", "tools.build_site", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout."""
    out = tmp_path_factory.mktemp("site")
    done = run("--out", out)
    assert done.returncode == 0, done.stderr
    return out / VERSION


def checkout(root: Path, **pages: str) -> Path:
    """A checkout with these pages."""
    (root / "docs").mkdir(parents=True)
    (root / "changes").mkdir()
    (root / "src" / "bolide").mkdir(parents=True)
    (root / "src" / "bolide" / "version.py").write_text('VERSION = "9.1.0"\n')
    for name, text in pages.items():
        (root / "docs" / f"{name}.md").write_text(text)
    return root


def test_every_page_is_there_and_in_the_navigation_of_the_first(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    for page in PAGES:
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name).is_file(), f"{name} is not built"
        assert f'href="{name}"' in first or name == "index.html", f"the first page does not lead to {name}"


def test_the_version_is_shown_and_the_search_knows_the_words(site: Path) -> None:
    assert f"Bolide {VERSION}" in (site / "cli.html").read_text(encoding="utf-8")
    index = (site / "searchindex.js").read_text(encoding="utf-8").lower()
    assert all(f'"{word}":' in index for word in ("flushdisktyp", "docker", "helm", "retri"))
    ranks = (ROOT / "docs" / "site" / "search.js").read_text(encoding="utf-8")
    assert ranks in (site / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert "var Scorer" in ranks and '"protocol/": 0.1' in ranks
    assert (site.parent / "versions.js").read_text() == f'window.bolideVersions = ["{VERSION}"];\n'


def test_pages_follow_the_reader_between_dark_and_light(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'class="theme-toggle"' in page


def test_site_loads_no_remote_resources(site: Path) -> None:
    assert list(loads_from_elsewhere(site)) == []


def test_remote_resources_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.example/x.js"></script><img src="//cdn.example/x.png"><a href="https://example">x</a>'
        '<link rel="stylesheet" href="http://cdn.example/x.css"><link rel="canonical" href="https://example/a.html">'
    )
    (tmp_path / "a.css").write_text("@import 'https://fonts.example/a';\nb { background: url(//cdn.example/b.png) }\n")
    assert list(loads_from_elsewhere(tmp_path)) == [
        "a.css: https://fonts.example/a",
        "a.css: //cdn.example/b.png",
        "a.html: https://cdn.example/x.js",
        "a.html: //cdn.example/x.png",
        "a.html: http://cdn.example/x.css",
    ]


def test_whatever_is_broken_stops_the_build_and_is_named(tmp_path: Path) -> None:
    root = checkout(
        tmp_path / "checkout",
        index="# First\n\n## Reference\n\n- [Page](page.md)\n\n[gone](gone.md)\n[file](../gone.toml)\n",
        page="# Page\n\n[heading](index.md#gone)\n\n![picture](gone.svg)\n",
        lost="# Lost\n",
    )
    done = run("--root", root, "--out", tmp_path / "out")
    assert done.returncode == 1
    for sentence in [
        "docs/index.md:7: WARNING: 'myst' cross-reference target not found: 'gone.md'",
        "docs/index.md:7: WARNING: 'myst' cross-reference target not found: 'project/gone.toml'",
        "docs/page.md:3: WARNING: local id not found in doc 'index': 'gone'",
        "docs/page.md:5: WARNING: image file not readable: gone.svg",
        "docs/lost.md: WARNING: document isn't included in any toctree",
    ]:
        assert sentence in done.stderr, done.stderr
    assert done.stderr.rstrip().endswith("the site was not built")
    assert not (tmp_path / "out").exists()


def test_versions_lie_beside_each_other_the_newest_first(tmp_path: Path) -> None:
    for name in ["0.9.0", "0.10.1", "0.10.0"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    lead(tmp_path)
    assert (tmp_path / "versions.js").read_text() == 'window.bolideVersions = ["0.10.1", "0.10.0", "0.9.0"];\n'
    assert "url=0.10.1/index.html" in (tmp_path / "index.html").read_text()


def test_the_changelog_begins_with_what_is_not_released(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    (root / "CHANGELOG.md").write_text("# Changes\n\n## 9.0.0 (2026-01-01)\n\n### Fix\n\n- Old.\n")
    assert changelog(root) == "# Changelog\n\n## 9.0.0 (2026-01-01)\n\n### Fix\n\n- Old.\n"
    (root / "changes" / "new.fix.md").write_text("New.\n")
    assert changelog(root).split("\n\n")[1:4] == ["## 9.1.0 (not released yet)", "### Fix", "- New."]
