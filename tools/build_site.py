"""Builds the documentation's site with Sphinx from docs/ and the pages of the project.

    make docs                                    # build/site/<version>, and what leads to it
    python -m tools.build_site --check           # build into a folder that is thrown away

Sphinx never reads the checkout: this program lays out a copy in which docs/ is the top, the files that pages link to
outside docs/ are under project/, and links are rewritten to match. The headings and lists of docs/index.md become the
navigation. Every warning is an error: a link to a page, heading or file that is not there, and a page that the index
does not lead to. The site must work without a network, so whatever a page would load from elsewhere is one, too.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

from tools.changelog import fragments, section

ROOT = Path(__file__).resolve().parent.parent
PROJECT_PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", "changes/README.md")
CHANGELOG = "CHANGELOG.md"
UNLISTED = ("changes/README.md",)
"""Pages that others link to and the index does not."""
FOLDERS = {"tutorial": "Tutorial", "howto": "How-to guides", "concepts": "Concepts", "help": "Help"}
"""Folders whose pages join a part of the navigation without being named in the index."""
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)\s#]+)((?:#[^)\s]*)?\))")
ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#]+)\)")
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
LOADED = dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed"), "src") | {"link": "href"}
"""What a browser fetches by itself, by the tag and attribute that name it."""


def version(root: Path) -> str:
    """The version that `src/bolide/version.py` states."""
    found = re.search(r'^VERSION = "(.+)"$', (root / "src/bolide/version.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert found, "src/bolide/version.py holds VERSION"
    return found[1]


def place(path: str) -> str:
    """Where a file of the checkout lies in the copy."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"project/{path}"


def rewritten(text: str, page: str, outside: set[str]) -> str:
    """A page with its links as they are in the copy; notes the files outside docs/ that it links to."""

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[2]))
        if target.startswith(".."):
            return link[0]
        if not target.startswith("docs/"):
            outside.add(target)
        return f"{link[1]}{posixpath.relpath(place(target), posixpath.dirname(place(page)) or '.')}{link[3]}"

    return LINK.sub(moved, text)


def lay_out(root: Path, source: Path) -> None:
    """Fill the folder that Sphinx reads."""
    outside: set[str] = set()
    for file in sorted((root / "docs").rglob("*")):
        name = file.relative_to(root).as_posix()
        if file.is_dir() or name.startswith(("docs/site/", "docs/programs/")) or "__pycache__" in name:
            continue
        goal = source / place(name)
        goal.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            goal.write_text(rewritten(file.read_text(encoding="utf-8"), name, outside), encoding="utf-8")
        else:
            shutil.copyfile(file, goal)
    for name in PROJECT_PAGES:
        if (root / name).is_file():
            goal = source / place(name)
            goal.parent.mkdir(exist_ok=True)
            text = rewritten((root / name).read_text(encoding="utf-8"), name, outside)
            goal.write_text(text, encoding="utf-8")
    for name in outside - {*PROJECT_PAGES, CHANGELOG}:
        if (root / name).is_file():
            goal = source / place(name)
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, goal)
    goal = source / place(CHANGELOG)
    goal.parent.mkdir(exist_ok=True)
    goal.write_text(rewritten(changelog(root), CHANGELOG, outside), encoding="utf-8")
    index = source / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + navigation(source), encoding="utf-8")


def changelog(root: Path) -> str:
    """CHANGELOG.md with what is not released yet before it."""
    released = root / "CHANGELOG.md"
    older = released.read_text(encoding="utf-8").partition("\n")[2] if released.exists() else ""
    pending = section(version(root), "not released yet", fragments(root / "changes"))
    return f"# Changelog\n\n{pending}\n{older}" if "### " in pending else f"# Changelog\n{older}"


def navigation(source: Path) -> str:
    """The tables of contents: what the index lists, in its order, then the pages of folders it does not name."""
    parts: dict[str, dict[str, str]] = {}
    part = ""
    for line in (source / "index.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            part = line[3:].strip()
        elif line.startswith("### "):
            part = f"{part.partition(':')[0]}: {line[4:].strip().lower()}"
        elif found := ENTRY.match(line):
            parts.setdefault(part, {})[found[2]] = found[1]
    listed = {name for entries in parts.values() for name in entries}
    for folder, part in FOLDERS.items():
        for file in sorted((source / folder).glob("*.md"), key=lambda file: (file.stem != "index", file.name)):
            name = file.relative_to(source).as_posix()
            if name not in listed:
                parts.setdefault(part, {})[name] = title(file)
    project = parts.setdefault("Project", {})
    project[place(CHANGELOG)] = "Changelog"
    project |= {place(name): title(source / place(name)) for name in UNLISTED if (source / place(name)).is_file()}
    return "".join(toctree(part, entries) for part, entries in parts.items())


def title(page: Path) -> str:
    """The first heading of a page."""
    found = TITLE.search(page.read_text(encoding="utf-8"))
    return found[1].replace("`", "") if found else page.stem


def toctree(part: str, entries: dict[str, str]) -> str:
    """One part of the navigation, as Sphinx reads it."""
    lines = [f"{name} <{PurePosixPath(file).with_suffix('')}>" for file, name in entries.items()]
    return "\n```{toctree}\n:hidden:\n:caption: " + "\n".join([part, "", *lines]) + "\n```\n"


class Loads(HTMLParser):
    """Collects what a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what this tag loads."""
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("canonical", "index", "search", "next", "prev"):
            return
        self.found.append(given.get(LOADED.get(tag, ""), "") or "")


def loads_from_elsewhere(site: Path) -> Iterator[str]:
    """What the pages and style sheets of a site would fetch over a network."""
    for file in sorted(site.rglob("*")):
        if file.suffix == ".html":
            parser = Loads()
            parser.feed(file.read_text(encoding="utf-8"))
            found = parser.found
        elif file.suffix == ".css":
            text = file.read_text(encoding="utf-8")
            found = re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")\s;]+)", text)
        else:
            continue
        yield from (f"{file.relative_to(site)}: {each}" for each in found if re.match(r"(https?:)?//", each))


def build(root: Path, site: Path) -> None:
    """Build the site of this version into `site`/<version>; SystemExit says what is wrong."""
    release = version(root)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "docs"), Path(folder, "site")
        source.mkdir()
        lay_out(root, source)
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-d", f"{folder}/trees"]
        command += ["-c", str(ROOT / "docs/site"), "-D", f"version={release}", "-D", f"release={release}"]
        command += ["-D", f"html_title=Bolide {release}", str(source), str(out)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        sys.stderr.write(done.stderr.replace(f"{source}{os.sep}", "docs/"))
        wrong = list(loads_from_elsewhere(out)) if done.returncode == 0 else []
        if done.returncode or wrong:
            raise SystemExit("\n".join([*wrong, "the site was not built"]))
        shutil.rmtree(site / release, ignore_errors=True)
        shutil.copytree(out, site / release)
    lead(site)


def lead(site: Path) -> None:
    """Write what joins the versions of a site: the list that pages read, and a first page that goes to the newest."""
    versions = sorted((each.parent.name for each in site.glob("*/index.html")), key=release_order, reverse=True)
    listed = ", ".join(f'"{each}"' for each in versions)
    (site / "versions.js").write_text(f"window.bolideVersions = [{listed}];\n", encoding="utf-8")
    goal = f"{versions[0]}/index.html"
    text = f'<!doctype html>\n<meta http-equiv="refresh" content="0; url={goal}">\n<a href="{goal}">Bolide</a>\n'
    (site / "index.html").write_text(text, encoding="utf-8")


def release_order(name: str) -> list[int]:
    """A version as numbers, for sorting."""
    return [int(number) for number in re.findall(r"\d+", name)]


def main() -> int:
    """Run from anywhere; see the top of the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--check", action="store_true", help="build, and keep nothing")
    given = parser.parse_args()
    if given.check:
        with tempfile.TemporaryDirectory() as folder:
            build(given.root, Path(folder))
        return 0
    build(given.root, given.out)
    print(f"the site is {given.out / version(given.root) / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
