"""Folds the fragments of ``changes/`` into CHANGELOG.md under the version in ``src/bolide/version.py``.

python tools/changelog.py            write the section and remove the fragments
python tools/changelog.py --check    only say what is wrong with the fragments (exit 1)
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("breaking", "feature", "fix", "compatibility", "speed", "docs")
TOP = "# Changes\n"


def fragments(folder: Path) -> dict[str, list[Path]]:
    """The fragments by kind; SystemExit names each file whose name says no kind or which is empty."""
    by_kind: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    wrong = []
    for file in sorted(folder.glob("*.md")):
        if file.name == "README.md":
            continue
        kind = file.stem.rpartition(".")[2]
        if kind in by_kind and file.read_text().strip():
            by_kind[kind].append(file)
        else:
            wrong.append(f"{file.name}: name it <short-name>.<kind>.md, kind one of {', '.join(KINDS)}, and not empty")
    if wrong:
        raise SystemExit("\n".join(wrong))
    return by_kind


def section(version: str, day: str, by_kind: dict[str, list[Path]]) -> str:
    """The text of one release."""
    lines = [f"## {version} ({day})", ""]
    for kind, files in by_kind.items():
        if files:
            lines += [f"### {kind.capitalize()}", "", *(f"- {' '.join(f.read_text().split())}" for f in files), ""]
    return "\n".join(lines)


def released(version: str, older: str) -> str:
    """Return an error if the changelog already has a section of this version, or ""."""
    if re.search(rf"^## {re.escape(version)}(?: |$)", older, re.MULTILINE):
        return f"CHANGELOG.md has a section {version}: raise VERSION in src/bolide/version.py, or edit it by hand"
    return ""


def main() -> int:
    """Run from anywhere; see the top of the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    by_kind = fragments(ROOT / "changes")
    if parser.parse_args().check:
        return 0
    found = re.search(r'^VERSION = "(.+)"$', (ROOT / "src/bolide/version.py").read_text(), re.MULTILINE)
    assert found, "src/bolide/version.py holds VERSION"
    log = ROOT / "CHANGELOG.md"
    older = log.read_text().removeprefix(TOP).strip() if log.exists() else ""
    if wrong := released(found[1], older):
        raise SystemExit(wrong)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    log.write_text(f"{TOP}\n{section(found[1], today, by_kind)}\n{older}".rstrip() + "\n")
    for files in by_kind.values():
        for file in files:
            file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
