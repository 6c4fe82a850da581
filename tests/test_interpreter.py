"""No child process runs a file of the current folder."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bolide.interpreter import python

SOURCES = Path(__file__).parents[1] / "src" / "bolide"


def test_a_file_of_the_current_folder_does_not_run(tmp_path: Path) -> None:
    for name in ("bolide", "json"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\n")
    for words in (("-c", "import json, bolide"), ("-m", "bolide.node.processes")):
        subprocess.run(python(*words), cwd=tmp_path, capture_output=True, check=False)
    assert not (tmp_path / "ran").exists()


def test_every_child_process_is_started_so() -> None:
    started = re.compile(r'sys\.executable,\s*"-')
    found = [str(path) for path in SOURCES.rglob("*.py") if started.search(path.read_text())]
    assert found == [str(SOURCES / "interpreter.py")]
