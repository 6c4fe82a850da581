"""The coverage-guided engine, atheris (libFuzzer for Python): one target in a process of its own.

    python -m proof.fuzz.coverage_engine NAME SECONDS SEED REPORT FOLDER...

Findings do not end the run: they are noted by signature and written to REPORT, with the counts, every few seconds.
New inputs go to the first FOLDER. The parent reads REPORT, also of a process that was killed.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

REPORTED_S: Final = 2.0
MEASURED: Final = 64
ADDRESS_SPACE: Final = 6 << 30
"""Bytes of memory the process may map: beyond it Python raises MemoryError, which is a finding."""


def available() -> bool:
    """Whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def main(name: str, seconds: float, seed: int, report: Path, folders: list[str]) -> None:
    """Fuzz one target until the time is over; does not return."""
    import atheris

    with atheris.instrument_imports(include=["bolide"]):
        from proof.fuzz.registry import TARGETS
    from proof.fuzz.plain_engine import Run
    from proof.fuzz.watch import run_watched

    target = TARGETS[name]
    run = Run(name)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    begun = time.monotonic()
    told = begun

    def tell() -> None:
        found = [{**asdict(each), "data": base64.b64encode(each.data).decode()} for each in run.findings.values()]
        text = json.dumps({"executions": run.executions, "seconds": time.monotonic() - begun, "findings": found})
        fresh = report.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(report)

    def once(data: bytes) -> None:
        nonlocal told
        run.executions += 1
        measured = run.executions % MEASURED == 0
        found = run_watched(target, data, memory=measured, alarm=False)
        news = found is not None and run.add(found)
        now = time.monotonic()
        if news or now - told >= REPORTED_S:
            told = now
            tell()
        if now - begun >= seconds:
            tell()
            os._exit(0)  # libFuzzer would go on to the end of its own time

    with tempfile.NamedTemporaryFile("wb", suffix=".dict", delete=False) as words:
        for word in target.words:
            words.write(b'"%b"\n' % b"".join(b"\\x%02X" % byte for byte in word))
    options = [
        f"-seed={seed % (1 << 32) or 1}",
        f"-max_len={target.largest}",
        f"-timeout={int(target.limits.seconds)}",
        "-rss_limit_mb=0",
    ]
    options += [f"-dict={words.name}"] if target.words else []
    atheris.Setup([sys.argv[0], *options, "-print_final_stats=0", *folders], once)
    atheris.Fuzz()


def read_report(path: Path) -> dict[str, Any]:
    """What a process reported last; nothing when it came to nothing."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {"executions": 0, "seconds": 0.0, "findings": []}
    return found


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
