"""The build switch: an install on a machine with no C compiler is a pure wheel that works."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def build_wheel(folder: Path, **environment: str) -> tuple[Path, str]:
    """Build the checkout as pip does for a user; the wheel and what was said."""
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    kept = {name: value for name, value in os.environ.items() if name not in ("BOLIDE_IMPL", "BOLIDE_BUILD", "CC")}
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl")), done.stdout + done.stderr


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_pure_and_works(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    wheel, said = build_wheel(tmp_path / "wheel", BOLIDE_BUILD="auto", PATH=str(empty))
    assert "bolide: interpreted (no C compiler" in said
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert not [name for name in packed.namelist() if name.endswith((".so", ".pyd"))]
        packed.extractall(tmp_path / "installed")
    metadata = message_from_string(next(tmp_path.glob("installed/*/METADATA")).read_text(encoding="utf-8"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Project-URL"]
    assert str(metadata.get_payload()).startswith("# Bolide\n")
    program = "import bolide.layout.record, bolide.remoting.connection; print(bolide._impl.describe())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "BOLIDE_IMPL": "auto"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "interpreted (this install has no extensions)\n", done.stderr
