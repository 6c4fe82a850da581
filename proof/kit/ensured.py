"""Programs that the scripts of tools find or fetch, for tests and chaos."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

_TOOLS: Final = Path(__file__).resolve().parents[2] / "tools"


class ProgramMissing(RuntimeError):
    """A program is not installed and could not be fetched."""


@cache
def ensured(name: str) -> str:
    """Return the path of a program, which tools/ensure_<name>.sh finds or fetches. Raises ProgramMissing."""
    script = _TOOLS / f"ensure_{name}.sh"
    done = subprocess.run([script], stdout=subprocess.PIPE, encoding="utf-8", timeout=300, check=False)
    if done.returncode:
        raise ProgramMissing(f"needs {name}; run tools/{script.name}")
    return done.stdout.strip()
