"""Runs the tests of the Spark rooms with each supported PySpark that is older than the one in requirements.lock.

    .venv/bin/python tools/spark_matrix.py [arguments for pytest]

`make spark-matrix` runs it. Each PySpark is installed in a separate folder, such as .spark/4.1.4, which precedes the
environment's packages. Exit code 1 if a suite fails.
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
WITHOUT_LIMITS = ("4.0.5", "4.1.4")
# PySpark 4.0 and 4.1 leave it to the garbage collector to close the socket from which they collect rows.
LEAKS = (
    "-W", "ignore:unclosed <socket:ResourceWarning",
    "-W", "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
)  # fmt: skip


def installed(version: str) -> Path:
    """The folder with this PySpark. SystemExit if it cannot be installed."""
    folder = ROOT / ".spark" / version
    if folder.exists():
        return folder
    print(f"bolide: installing PySpark {version}, which takes some minutes", flush=True)
    begin = time.monotonic()
    half = folder.with_name(f"{version}.part")
    shutil.rmtree(half, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    command = [*pip, "--no-deps", "--target", str(half), f"pyspark=={version}"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SystemExit(f"bolide: PySpark {version} could not be installed")
    half.rename(folder)
    print(f"bolide: that took {time.monotonic() - begin:.0f} s", flush=True)
    return folder


def run_suite(version: str, arguments: list[str]) -> int:
    """Run the tests with this PySpark; pytest's exit code."""
    path = os.pathsep.join(filter(None, [str(installed(version)), os.environ.get("PYTHONPATH")]))
    print(f"bolide: the Spark tests with PySpark {version}", flush=True)
    markers = f"{MARKERS} and not limits" if version in WITHOUT_LIMITS else MARKERS
    workers = os.environ.get("WORKERS") or "3"
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "loadgroup", "-m", markers]
    command = [*pytest, *LEAKS, *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def main(arguments: list[str]) -> int:
    """Run from anywhere; see the top of the file."""
    failed = [version for version in VERSIONS if run_suite(version, arguments)]
    if failed:
        print(f"bolide: the Spark tests failed with PySpark {' and '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
