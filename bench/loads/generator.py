"""Builds the C programs of the bench and runs the generator: one call, one measurement."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bench.servers.stopping import Failed

_HERE = Path(__file__).resolve().parent
_SPARE_SECONDS = 60.0


@dataclass(frozen=True)
class Shape:
    """How many connections, and how many requests in flight on each."""

    connections: int
    in_flight: int

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """From a text such as `8x32`."""
        connections, _, in_flight = text.partition("x")
        return cls(int(connections), int(in_flight))

    def __str__(self) -> str:
        return f"{self.connections}x{self.in_flight}"


@dataclass(frozen=True)
class Load:
    """What the generator does: its mode and options as `generator.c` lists them, without the dashes."""

    shape: Shape
    mode: str = "send"
    body: int = 128
    topic: str = "bench"
    queues: int = 4
    options: Mapping[str, object] = field(default_factory=dict)

    def words(self) -> list[str]:
        """The command line, without what each run has of its own."""
        words = ["--mode", self.mode, "--topic", self.topic, "--queues", str(self.queues), "--body", str(self.body)]
        words += ["--connections", str(self.shape.connections), "--in-flight", str(self.shape.in_flight)]
        return words + [word for name, value in self.options.items() for word in (f"--{name}", str(value))]


@dataclass(frozen=True)
class Measurement:
    """What the generator saw in one run. Rates are answered messages a second, latencies microseconds.

    `all_count` counts the messages of the seconds that were skipped, too. `scanned` are the offsets that pulls went
    past, `wrong` the messages that are not what was asked for. `first_ms` to `last_ms` are of a `follow`.
    """

    count: int
    all_count: int
    seconds: float
    rate: float
    bytes_per_second: float
    p50_us: int
    p99_us: int
    max_us: int
    answered: int
    scanned: int
    wrong: int
    refused: int
    cpu_seconds: float
    first_ms: int
    half_ms: int
    last_ms: int
    codes: dict[str, int]


@cache
def program(name: str) -> Path:
    """Path of a compiled program of this folder; compiles it when its source changed."""
    sources = [_HERE / f"{name}.c", *sorted(_HERE.glob("*.h"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    cache_folder = Path(os.environ.get("BOLIDE_CACHE") or _HERE.parents[1] / ".cache") / "bench"
    built = cache_folder / f"{name}-{digest}"
    if not built.exists():
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            raise Failed("the bench needs a C compiler (cc, or the one that CC names)")
        cache_folder.mkdir(parents=True, exist_ok=True)
        partial = built.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", partial, sources[0]], check=True)
        partial.rename(built)
    return built


def run_load(port: int, load: Load, seconds: float, *, skip: float = 0.0, count: int = 0) -> Measurement:
    """Run the generator against a port of this machine; `count` stops it early. Raises Failed if all is refused."""
    command = [str(program("generator")), "--port", str(port), *load.words()]
    command += ["--seconds", str(seconds), "--skip", str(skip), "--count", str(count)]
    limit = seconds + skip + _SPARE_SECONDS
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode != 0:
        raise Failed(f"the generator failed ({done.returncode}): {done.stderr.strip()} {done.stdout.strip()}")
    return Measurement(**json.loads(done.stdout))


def generate(
    port: int,
    shape: Shape,
    body: int,
    seconds: float,
    *,
    skip: float = 0.0,
    count: int = 0,
    topic: str = "bench",
    mode: str = "send",
) -> Measurement:
    """`run_load` of plain sends, or of pulls of what they stored."""
    return run_load(port, Load(shape, mode, body, topic), seconds, skip=skip, count=count)
