"""The package in tests/plugin, built and installed as any user would, into a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PLUGIN = Path(__file__).parent / "plugin"


def install_plugin(folder: Path) -> Path:
    """Have pip build the wheel and unpack it; the folder to put on a process's path."""
    source, target = folder / "source", folder / "installed"
    shutil.copytree(PLUGIN, source)  # setuptools writes beside what it builds
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(source)], check=True)
    return target
