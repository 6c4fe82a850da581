"""`make fuzz`: give every decoder and port bytes that nobody meant.

    make fuzz ARGS="--minutes 10"                       every target in turn, ten minutes each
    make fuzz ARGS="--minutes 1 --only port --seed 7"   those whose name contains `port`
    make fuzz ARGS="--replay proof/fuzz/corpus/frame/found-…"

One line per target: executions, new inputs, findings. What is found is minimised and stored in proof/fuzz/corpus, and
the run ends with exit code 1 and a command that replays it.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from proof.fuzz import coverage_engine
from proof.fuzz.corpus import COLLECTED, inputs, name_of, store_finding
from proof.fuzz.minimise import minimised
from proof.fuzz.plain_engine import Run, run_fresh, run_stored
from proof.fuzz.registry import TARGETS
from proof.fuzz.seeds import CORPUS, ROOT
from proof.fuzz.target import Target
from proof.fuzz.watch import Finding, run_watched
from proof.kit.command_line import BROKEN, HELD, INTERRUPTED, WRONG_USE, Parser, new_seed

GRACE_S: Final = 600.0
"""A process that is that late is killed, which is a finding: it hangs where no signal reaches it."""


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit code."""
    options = parsed(arguments)
    if options.replay:
        return replay(Path(options.replay))
    if options.list:
        print("\n".join(TARGETS))
        return HELD
    named = [name for text in options.only or [""] for name in ([text] if text in TARGETS else TARGETS) if text in name]
    wanted = [TARGETS[name] for name in dict.fromkeys(named)]
    if not wanted:
        print(f"no target is called {' or '.join(options.only)}: --list shows them", file=sys.stderr)
        return WRONG_USE
    seed = new_seed() if options.seed is None else options.seed
    engine = options.engine or ("coverage" if coverage_engine.available() else "plain")
    if not options.json:
        print(f"{engine} engine, seed {seed}, {options.minutes:g} minutes a target, {len(wanted)} targets")
    runs: list[Run] = []
    status = HELD
    try:
        for target in wanted:
            runs.append(one_target(target, engine, seed, options.minutes * 60))
            if not options.json:
                print(line_of(runs[-1]), flush=True)
    except KeyboardInterrupt:
        status = INTERRUPTED
    for run in runs:
        for finding in run.findings.values():
            tell(finding, store_finding(finding), options.json)
            status = status or BROKEN
    conclude(runs, seed, engine, len(wanted), options.json)
    return status


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = Parser("fuzz", "Fuzz every decoder and every port.")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (1)")
    parser.add_argument("--only", action="append", metavar="NAME", help="targets whose name contains this; repeatable")
    parser.add_seed("repeat a run of the plain engine")
    parser.add_argument("--engine", choices=("coverage", "plain"), help="atheris, where it is installed, or none")
    parser.add_argument("--replay", metavar="FILE", help="run one stored input, and show what happens")
    parser.add_argument("--list", action="store_true", help="show the names of the targets")
    parser.add_json()
    return parser.parse_args(arguments)


def one_target(target: Target, engine: str, seed: int, seconds: float) -> Run:
    """The stored inputs, and then new ones for so long."""
    run = run_stored(target, measured=False)
    more = covered(target, seed, seconds) if engine == "coverage" else run_fresh(target, seed, None, seconds)
    run.executions += more.executions
    run.collected, run.seconds = more.collected, run.seconds + more.seconds
    for finding in more.findings.values():
        run.add(finding)
    return run


def covered(target: Target, seed: int, seconds: float) -> Run:
    """The coverage-guided engine, in a process of its own."""
    collected = COLLECTED / target.name
    collected.mkdir(parents=True, exist_ok=True)
    before = len(list(collected.iterdir()))
    run = Run(target.name)
    with tempfile.TemporaryDirectory(prefix="bolide-fuzz-") as folder:
        for number, data in enumerate(inputs(target)):
            (Path(folder) / f"{number:05}-{name_of(data)}").write_bytes(data)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.5:
            died = _process(target, seed, left, [str(collected), folder], run)
            if died:
                break
            seed += 1
    run.collected = len(list(collected.iterdir())) - before
    run.seconds = seconds
    return run


def _process(target: Target, seed: int, seconds: float, folders: list[str], run: Run) -> bool:
    """One process; True when it ended by itself before its time."""
    with tempfile.TemporaryDirectory(prefix="bolide-fuzz-report-") as work:
        report, log = Path(work) / "report.json", Path(work) / "log"
        command = [
            sys.executable,
            "-m",
            "proof.fuzz.coverage_engine",
            target.name,
            str(seconds),
            str(seed),
            str(report),
        ]
        # BOLIDE_IMPL imports modules past the hook that instruments them; a checkout runs interpreted without it.
        environment = {key: value for key, value in os.environ.items() if key != "BOLIDE_IMPL"}
        environment["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT}"
        with log.open("wb") as output:
            child = subprocess.Popen(
                [*command, *folders], cwd=work, stdout=output, stderr=output,
                env=environment,
            )  # fmt: skip
            try:
                status: int | None = child.wait(seconds + GRACE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                status = child.wait()
            except BaseException:
                child.send_signal(signal.SIGINT)
                child.kill()
                child.wait()
                raise
        found = coverage_engine.read_report(report)
        run.executions += found["executions"]
        for each in found["findings"]:
            finding = Finding(**{**each, "data": base64.b64decode(each["data"])})
            if run.add(finding):
                run.findings[finding.signature] = minimised(target, finding, finding.kind == "Memory")
        target.close()
        if status == 0:
            return False
        last = log.read_text("utf-8", "replace")[-2000:]
        crashed = next(Path(work).glob("crash-*"), None) or next(Path(work).glob("timeout-*"), None)
        data = crashed.read_bytes() if crashed is not None else b""
        run.add(Finding(target.name, data, "Died", f"the process ended with {status}", target.name, last))
        return True


def replay(path: Path) -> int:
    """Run one stored input; its folder names the target."""
    target = TARGETS.get(path.resolve().parent.name)
    if target is None or not path.is_file():
        print(f"{path} is no input of a target: give a file in {CORPUS}/<target>/", file=sys.stderr)
        return WRONG_USE
    data = path.read_bytes()
    try:
        found = run_watched(target, data) or run_watched(target, data, memory=True)
        if found is None and target.limits.steps:
            found = run_watched(target, data, steps=True)
    finally:
        target.close()
    if found is None:
        print(f"{path.name}: nothing is wrong with {target.name}")
        return HELD
    print(f"{found.trace}\n{found}")
    return BROKEN


def line_of(run: Run) -> str:
    """One line of progress."""
    return (
        f"{run.target:<16} {run.executions:>10,} runs {run.seconds / 60:>6.1f} min {run.collected:>6,} new inputs "
        f"{len(run.findings):>3} found"
    )


def tell(finding: Finding, path: Path, quiet: bool) -> None:
    """Say what was found, and how to see it again."""
    if quiet:
        return
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    width = min(shutil.get_terminal_size().columns, 80)
    print(f"\n{str(finding)[: 4 * width]}")
    print(f'  make fuzz ARGS="--replay {shown}"')


def conclude(runs: list[Run], seed: int, engine: str, wanted: int, as_json: bool) -> None:
    """The verdict."""
    count = sum(len(run.findings) for run in runs)
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "target": run.target, "executions": run.executions, "seconds": round(run.seconds, 1),
                "new_inputs": run.collected, "findings": [str(each) for each in run.findings.values()],
            }
            for run in runs
        ]  # fmt: skip
        print(json.dumps({"engine": engine, "seed": seed, "targets": rows, "findings": count}, indent=1))
        return
    total = sum(run.executions for run in runs)
    print(
        f"\n{len(runs)} of {wanted} targets, {total:,} runs, seed {seed}: "
        + (f"{count} FOUND" if count else "nothing found")
    )


if __name__ == "__main__":
    sys.exit(main())
