"""The parts of the package's metadata that depend on where the project is hosted: its README and its addresses.

README.md links to files of the checkout. Outside one those links lead nowhere, so they become links to the repository
that ``tool.bolide.repository`` in pyproject.toml names, at the tag of the version. Without a repository they become
plain text, and pictures are left out.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)([^)]*)\)\n\n?", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)([^)]*)\)")
COMMENT = re.compile(r"^<!-- .* -->\n", re.MULTILINE)


def outside(text: str, repository: str, version: str) -> str:
    """A page as it is outside the checkout: links to files lead to the repository, or are text if there is none."""
    text = COMMENT.sub("", text)
    if not repository:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    tree = f"{repository.rstrip('/')}/blob/v{version}"
    text = PICTURE.sub(lambda found: found[0].replace(f"({found[1]})", f"({tree}/{found[1]}?raw=true)"), text)
    return LINK.sub(lambda found: f"[{found[1]}]({tree}/{found[2]})", text)


def addresses(repository: str, version: str) -> dict[str, str]:
    """The addresses in the metadata, by name; RocketMQ's alone if the project has no repository."""
    known = {"RocketMQ": "https://rocketmq.apache.org"}
    if not repository:
        return known
    base = repository.rstrip("/")
    tree = f"{base}/blob/v{version}"
    return {
        "Repository": base,
        "Documentation": f"{tree}/docs/index.md",
        "Changelog": f"{tree}/CHANGELOG.md",
        "Issues": f"{base}/issues",
        "Security": f"{tree}/SECURITY.md",
        **known,
    }


def described() -> dict[str, object]:
    """The keywords of ``setup`` for README and addresses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    repository = project["tool"]["bolide"]["repository"]
    found = re.search(r'^VERSION = "(.+)"$', (ROOT / "src/bolide/version.py").read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise SystemExit("src/bolide/version.py has no VERSION")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return {
        "long_description": outside(text, repository, found[1]),
        "long_description_content_type": "text/markdown",
        "project_urls": addresses(repository, found[1]),
    }
