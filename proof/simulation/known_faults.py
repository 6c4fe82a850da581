"""The faults that Bolide had: each is put back into a copy of the sources, and seeds run until one finds it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = Path(__file__).with_name("known_faults.toml")
SEEDS: Final = "seeds"
MINUTES: Final = 10.0
FIRST_SEED: Final = 1
SEED_S: Final = 60.0
"""Simulated seconds of the work and the faults of a seed, as in the suite."""


@dataclass(frozen=True)
class KnownFault:
    """One fault, as the changes of the sources that bring it back."""

    name: str
    promises: tuple[str, ...]
    """Those that it breaks; a seed that breaks only others has found something else."""
    changes: tuple[tuple[str, str, str], ...]
    """A file below src/bolide, a text in it, and the text in its place."""
    among: str = SEEDS
    """Which seeds can find it: all, or those of one of `swarm.KINDS`."""

    def put_into(self, package: Path) -> None:
        """Bring the fault back in a copy of the package. Raises `ValueError` if the sources have moved on."""
        for name, old, new in self.changes:
            path = package / name
            text = path.read_text()
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {name} holds {text.count(old)} times: {old!r}")
            path.write_text(text.replace(old, new))


def known_faults() -> list[KnownFault]:
    """All of them, in the order of the list."""
    return [
        KnownFault(
            fault["name"],
            tuple(fault["promises"]),
            tuple((change["file"], change["old"], change["new"]) for change in fault["changes"]),
            fault.get("among", SEEDS),
        )
        for fault in tomllib.loads(LIST.read_text())["fault"]
    ]


def find_all(only: str, minutes: float | None) -> int:
    """Look for each; 1 if one was not found."""
    missed = 0
    for fault in known_faults():
        if only not in fault.name:
            continue
        print(f"{fault.name} ...", flush=True)
        began = time.monotonic()
        found = look_for(fault, minutes or MINUTES)
        took = time.monotonic() - began
        if found is None:
            missed += 1
            print(f"  not found within {took:.0f} s")
        else:
            spent = f"{found['minutes']:.1f} simulated minutes, {found['processor_s']:.0f} s of processor time"
            print(f"  seed {found['seed']} after {found['seeds']} seeds, {spent}, {took:.0f} s")
            print(f"  {found['finding']}")
    print("FAILED: some were not found" if missed else "every known fault was found")
    return 1 if missed else 0


def look_for(fault: KnownFault, minutes: float) -> dict[str, object] | None:
    """The first seed that finds a fault, with what it found; None if none does in time."""
    found: dict[str, object] | None = json.loads(in_a_copy(fault, fault.among, str(minutes), *fault.promises))
    return found


def broken_by(fault: KnownFault, entry: str) -> list[str]:
    """The promises that are broken with a fault, in the run of this entry of the corpus."""
    found: list[str] = json.loads(in_a_copy(fault, "corpus", entry))
    return found


def in_a_copy(fault: KnownFault, *arguments: str) -> str:
    """Run this module on sources that have the fault; its last line."""
    with tempfile.TemporaryDirectory(prefix="bolide-known-fault-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        fault.put_into(copy / "bolide")
        paths = f"{copy}{os.pathsep}{ROOT}"
        environment = {**os.environ, "PYTHONPATH": paths, "BOLIDE_IMPL": "python"}
        command = [sys.executable, "-m", "proof.simulation.known_faults", *arguments]
        done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1]


def look(minutes: float, promises: set[str], among: str) -> dict[str, object] | None:
    """In the copy: run seeds of this kind from the first on until one breaks one of the promises."""
    from proof.simulation.run import run_plan
    from proof.simulation.swarm import draw, kind_of

    began, seconds, spent, seed = time.monotonic(), 0.0, 0.0, FIRST_SEED
    seeds = 0
    while time.monotonic() - began < minutes * 60:
        if among not in (SEEDS, kind_of(seed)):
            seed += 1
            continue
        seeds += 1
        report = run_plan(draw(seed, SEED_S))
        seconds += report.seconds
        spent += report.took
        broken = [finding for finding in report.findings if finding.promise in promises]
        if broken:
            return {
                "seed": seed,
                "seeds": seeds,
                "minutes": seconds / 60,
                "processor_s": spent,
                "finding": str(broken[0]),
            }
        seed += 1
    return None


def look_in_corpus(name: str) -> list[str]:
    """In the copy: what an entry of the corpus breaks."""
    from proof.simulation.campaign import corpus
    from proof.simulation.run import run_plan

    entry = next(entry for entry in corpus() if entry.name == name)
    return sorted(run_plan(entry.plan()).promises)


if __name__ == "__main__":
    if sys.argv[1] == "corpus":
        print(json.dumps(look_in_corpus(sys.argv[2])))
    else:
        print(json.dumps(look(float(sys.argv[2]), set(sys.argv[3:]), sys.argv[1])))
