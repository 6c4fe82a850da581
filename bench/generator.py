"""Builds the C programs of the bench and runs the generator: one call, one measurement."""

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
class Measurement:
    """What the generator saw in one run. Rates are answered messages a second, latencies microseconds."""

    count: int
    seconds: float
    rate: float
    p50_us: int
    p99_us: int
    max_us: int
    refused: int
    cpu_seconds: float
    codes: dict[str, int]


@cache
def program(name: str) -> Path:
    """Path of a compiled program of this folder; compiles it when its source changed."""
    sources = [_HERE / f"{name}.c", _HERE / "wire.h"]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    cache_folder = Path(os.environ.get("BOLIDE_CACHE") or _HERE.parent / ".cache") / "bench"
    built = cache_folder / f"{name}-{digest}"
    if not built.exists():
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            raise SystemExit("the bench needs a C compiler (cc, or the one that CC names)")
        cache_folder.mkdir(parents=True, exist_ok=True)
        partial = built.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", partial, sources[0]], check=True)
        partial.rename(built)
    return built


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
    queues: int = 4,
) -> Measurement:
    """Run the generator against a port of this machine; `count` stops it early. Ends the program if all is refused."""
    command = [str(program("generator")), "--port", str(port), "--mode", mode, "--topic", topic]
    command += ["--queues", str(queues)]
    command += ["--connections", str(shape.connections), "--in-flight", str(shape.in_flight), "--body", str(body)]
    command += ["--seconds", str(seconds), "--skip", str(skip), "--count", str(count)]
    limit = seconds + skip + _SPARE_SECONDS
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the generator failed ({done.returncode}): {done.stderr}{done.stdout}")
    values = json.loads(done.stdout)
    return Measurement(**{name: values[name] for name in Measurement.__dataclass_fields__})
