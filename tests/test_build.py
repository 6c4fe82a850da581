"""The build reports its work and uses all processors. Without a C compiler, the wheel is pure and works."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BACKEND = """
import sys
sys.path.insert(0, sys.argv[1])
import bolide_build
"""
"""The start of a program that uses the build backend. Its argument is the folder of the backend."""
ALLOWED = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
"""Number of processors that this process may use."""


def build_wheel(folder: Path, **environment: str) -> tuple[Path, str]:
    """Build the checkout as pip does for a user; the wheel and what was said."""
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    kept = {name: value for name, value in os.environ.items() if name not in ("BOLIDE_IMPL", "BOLIDE_BUILD", "CC")}
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl")), done.stdout + done.stderr


def run_backend(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that uses the build backend in a folder; builds write there."""
    command = [sys.executable, "-c", f"{BACKEND}{program}", str(ROOT / "build_backend")]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


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


def test_a_build_compiles_as_many_files_at_a_time_as_it_may_use_processors(tmp_path: Path) -> None:
    show = """
import os
with bolide_build._building(compiled=False):
    print(bolide_build.processes(), open(os.environ["DIST_EXTRA_CONFIG"]).read().split("parallel = ")[1].split()[0])
"""
    assert run_backend(show, tmp_path).stdout == f"{ALLOWED} {ALLOWED}\n"
    if hasattr(os, "sched_getaffinity"):
        restrict = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
        assert run_backend(restrict + show, tmp_path).stdout == "1 1\n"


def test_compiler_gets_the_number_of_processes(tmp_path: Path) -> None:
    package = tmp_path / "double" / "pybind11"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    fails = """
def ParallelCompile(default):
    raise SystemExit(f"pybind11 got {default}")
"""
    (package / "setup_helpers.py").write_text(fails)
    build = f"sys.path.insert(0, {str(tmp_path / 'double')!r}); bolide_build.build_wheel('.')"
    done = run_backend(build, tmp_path, BOLIDE_BUILD="yes")
    first, last = done.stderr.splitlines()
    assert last == f"pybind11 got {ALLOWED}"
    assert first.startswith("bolide: compiling "), "before anything is compiled"


def test_announcement_has_the_work_and_the_estimated_time(tmp_path: Path) -> None:
    show = "print(bolide_build.announcement(100, 4, 1)); print(bolide_build.announcement(100, 4, 2))"
    one, two = run_backend(show, tmp_path).stdout.splitlines()
    head = "compiling 100 modules by mypyc and 4 by Cython, "
    tail = "; BOLIDE_BUILD=no installs without compiling"
    assert one == f"{head}one C file at a time: about 3 minutes{tail}"
    assert two == f"{head}2 C files at a time: about 2 minutes{tail}"


def test_make_shows_what_is_compiled_while_it_is_compiled(tmp_path: Path) -> None:
    pip = tmp_path / "pip.py"
    pip.write_text(
        "print('  bolide: compiling', flush=True); print('other', flush=True); input(); print('  bolide: compiled')"
    )
    program = f"from tools.prepare_venv import build_wheel; build_wheel(({sys.executable!r}, {str(pip)!r}), 'wheels')"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as building:
        assert building.stdin
        assert building.stdout
        assert building.stdout.readline() == "bolide: compiling\n"  # while the double of pip waits for its input
        building.stdin.write("\n")
        building.stdin.close()
        assert building.stdout.readline() == "bolide: compiled\n"
        assert building.stdout.read().startswith("bolide: the wheel took ")
    assert building.returncode == 0
