"""Runs the quick suite, interpreted, with each Python newer than the oldest supported one that is installed here.

    python3 tools/quick_pythons.py [arguments for pytest]

`make quick-pythons` passes the arguments that select the quick suite. The program names the Pythons it finds, and skips
the others with a sentence. Exit code 1 if a suite fails. A Python is `python3.12` on the path, or one of pyenv's. Each
has its own environment, .venv-3.12, with a wheel that is not compiled. Standard library only: the Makefile runs it with
any Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.12", "3.13")


def candidates(version: str) -> Iterator[str]:
    """Programs that may be this Python."""
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in sorted((home / "versions").glob(f"{version}.*"), reverse=True):
        yield str(folder / "bin" / "python")


def found(version: str) -> str | None:
    """A program that runs and is this Python; pyenv's shims exist for Pythons that are not chosen, and fail."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in candidates(version):
        try:
            told = subprocess.run([candidate, "-c", program], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if told.returncode == 0 and told.stdout.strip() == version:
            return candidate
    return None


def run_suite(version: str, python: str, arguments: list[str]) -> int:
    """Make the environment and run the suite in it; pytest's exit code."""
    venv = f".venv-{version}"
    pure = {**os.environ, "BOLIDE_BUILD": "no"}
    made = subprocess.run(
        [python, "tools/prepare_venv.py", venv, "--extras", "dev,all"], cwd=ROOT, env=pure, check=False
    )
    if made.returncode:
        return made.returncode
    workers = os.environ.get("WORKERS") or "5"
    command = [f"{venv}/bin/python", "-m", "pytest", "-q", "-n", workers, "--dist", "loadgroup", "--again"]
    environment = {**os.environ, "BOLIDE_IMPL": "python"}
    return subprocess.run([*command, *arguments], cwd=ROOT, env=environment, check=False).returncode


def main(arguments: list[str]) -> int:
    """Run from anywhere; see the top of the file."""
    failed = []
    for version in VERSIONS:
        python = found(version)
        if python is None:
            print(f"bolide: Python {version} is not installed here: its quick suite is skipped", flush=True)
            continue
        print(f"bolide: the quick suite with {python}", flush=True)
        if run_suite(version, python, arguments):
            failed.append(version)
    if failed:
        print(f"bolide: the quick suite failed with Python {' and '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
