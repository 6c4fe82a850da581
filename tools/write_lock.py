"""Writes requirements.lock: the exact version of everything that ``bolide[dev,all]`` pulls in, as resolved now.

The lock is a pip constraints file, so one list serves every extra. Resolved by the pip of a fresh environment,
without installing anything.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = "# Exact versions for the test and demo environments; written by tools/write_lock.py. Used as pip constraints.\n"


def main() -> None:
    """Run from anywhere; see the top of the file."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
        report = f"{folder}/report.json"
        resolve = [f"{folder}/venv/bin/python", "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*resolve, "--report", report, ".[dev,all]"], cwd=ROOT, check=True)
        found = json.loads(Path(report).read_text())["install"]
    pins = sorted(f"{item['metadata']['name']}=={item['metadata']['version']}" for item in found)
    kept = [pin for pin in pins if not pin.startswith("bolide==")]
    (ROOT / "requirements.lock").write_text(HEAD + "\n".join(sorted(kept, key=str.lower)) + "\n")
    print(f"requirements.lock: {len(kept)} pins")


if __name__ == "__main__":
    main()
