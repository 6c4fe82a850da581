"""Runs the tests of the Spark rooms with each supported PySpark that is older than the one in requirements.lock.

    .venv/bin/python tools/spark_matrix.py [--of-commit] [arguments for pytest]

`make spark-matrix` runs it. With `--of-commit` (`make spark-version`, CI) it runs only the tests that are marked
`versions`, with one PySpark, which follows from the commit's hash. Each is installed once, in a folder of the cache
(`.cache/spark/4.1.4`, or below BOLIDE_CACHE), which precedes the environment's packages. Exit code 1 if a suite fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("4.0.5", "4.1.4", "4.2.1")
MARKERS = "not java and not long"
WITHOUT_PIPELINES = ("4.0.5",)
# PySpark 4.0 and 4.1 leave it to the garbage collector to close the socket from which they collect rows.
LEAKS = (
    "-W", "ignore:unclosed <socket:ResourceWarning",
    "-W", "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
)  # fmt: skip


def of_commit() -> str:
    """The version for the commit that is checked out. SystemExit outside a checkout."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bolide: --of-commit needs a git checkout: {done.stderr.strip()}")
    return VERSIONS[int(done.stdout.strip(), 16) % len(VERSIONS)]


def installed(version: str) -> Path:
    """The folder with this PySpark. SystemExit if it cannot be installed."""
    folder = Path(os.environ.get("BOLIDE_CACHE") or ROOT / ".cache").absolute() / "spark" / version
    if folder.exists():
        return folder
    print(f"bolide: installing PySpark {version} in {folder}, which takes some minutes", flush=True)
    begin = time.monotonic()
    half = folder.with_name(f"{version}.{os.getpid()}.part")
    shutil.rmtree(half, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    command = [*pip, "--no-deps", "--target", str(half), f"pyspark=={version}"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        shutil.rmtree(half, ignore_errors=True)
        raise SystemExit(
            f"bolide: PySpark {version} could not be installed in {folder}, for the reason above: its tests need the "
            "network once, or that folder from another machine"
        )
    half.rename(folder)
    print(f"bolide: that took {time.monotonic() - begin:.0f} s", flush=True)
    return folder


def run_suite(version: str, markers: str, arguments: list[str]) -> int:
    """Run the tests with this PySpark; pytest's exit code."""
    path = os.pathsep.join(filter(None, [str(installed(version)), os.environ.get("PYTHONPATH")]))
    print(f"bolide: the Spark tests with PySpark {version}: {markers}", flush=True)
    if version in WITHOUT_PIPELINES:
        markers += " and not pipelines"
    workers = os.environ.get("WORKERS") or "3"
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "loadgroup", "-m", markers]
    command = [*pytest, *LEAKS, *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def main(arguments: list[str]) -> int:
    """Run from anywhere; see the top of the file."""
    one = arguments[:1] == ["--of-commit"]
    versions = [of_commit()] if one else VERSIONS
    markers = f"versions and {MARKERS}" if one else MARKERS
    failed = [version for version in versions if run_suite(version, markers, arguments[one:])]
    if failed:
        print(f"bolide: the Spark tests failed with PySpark {' and '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
