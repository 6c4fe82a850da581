"""How long a broker needs after SIGKILL: each writes 1 GiB of 128-byte messages, is killed while it takes more, starts.

Ready is when requests are accepted: Java's `boot success`, Bolide's `ready`.
"""

import argparse
import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.loads.generator import Shape, generate, program
from bench.servers.servers import BolideBroker, Server, java_broker

SHAPE = Shape(8, 32)
BODY = 128
RECORD = 366
"""Bytes of a stored message of the generator: 91 fixed, body 128, topic 5, properties 142."""
LIMIT_FACTOR = 2.0
_FILL_SECONDS = 900.0
_START_SECONDS = 600.0


def fill_and_kill(server: Server, bytes_wanted: int) -> float:
    """Send until the log holds so many bytes, then kill the broker under load; returns the rate of the filling."""
    filled = generate(server.port, SHAPE, BODY, _FILL_SECONDS, count=bytes_wanted // RECORD)
    command = [str(program("generator")), "--port", str(server.port), "--connections", "8", "--in-flight", "32"]
    # It fails when the broker goes; that is what it is for.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
        with contextlib.suppress(subprocess.TimeoutExpired):
            load.wait(1.0)
        server.kill()
        load.wait()
    return filled.rate


def measure(name: str, folder: Path, bytes_wanted: int, starts: int) -> list[float]:
    """Seconds from exec to ready of a broker on the store that its killed predecessor left, for each of `starts`."""
    begin: dict[str, Callable[[Path], Server]] = {
        "java": lambda home: java_broker(home, "async"),
        "bolide": lambda home: BolideBroker(home, "async", ready_seconds=_START_SECONDS),
    }
    home = folder / name
    rate = fill_and_kill(begin[name](home), bytes_wanted)
    print(f"{name}: filled at {rate:,.0f}/s, killed", flush=True)
    times: list[float] = []
    for _ in range(starts):
        began = time.monotonic()
        server = begin[name](home)
        times.append(time.monotonic() - began)
        server.kill()  # so the next start recovers again
    print(f"{name}: ready after {', '.join(f'{t:.2f}' for t in times)} s", flush=True)
    return times


def main() -> int:
    """Measure both and print; 1 if Bolide needs more than twice Java's time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="mebibytes of log to write")
    parser.add_argument("--starts", type=int, default=3, help="starts measured; the median counts")
    parser.add_argument("--servers", default="java,bolide")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bolide-recovery-"))
    try:
        medians = {
            name: statistics.median(measure(name, folder, chosen.mib << 20, chosen.starts))
            for name in chosen.servers.split(",")
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, seconds in medians.items():
        print(f"{name}: median {seconds:.2f} s to ready after SIGKILL with {chosen.mib} MiB of {BODY} B messages")
    if len(medians) < 2:
        return 0
    factor = medians["bolide"] / medians["java"]
    print(f"Bolide needs {factor:.2f} times as long as Java (limit {LIMIT_FACTOR:.0f})")
    return 1 if factor > LIMIT_FACTOR else 0


if __name__ == "__main__":
    sys.exit(main())
