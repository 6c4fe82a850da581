"""What a Bolide broker costs while nothing happens: time from exec to `ready`, and anonymous memory after a minute.

Anonymous memory is what the process alone holds, from /proc/PID/smaps_rollup; pages of files are the kernel's to drop.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.servers.machine import anonymous_mb
from bench.servers.servers import BolideBroker

READY_LIMIT_SECONDS = 1.0
MEMORY_LIMIT_MB = 100.0


def main() -> int:
    """Measure and print; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5, help="how many times to start it")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to leave it alone before looking")
    chosen = parser.parse_args()
    times: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bolide-idle-") as folder:
        for number in range(chosen.starts - 1):
            began = time.monotonic()
            broker = BolideBroker(Path(folder) / str(number), "sync")
            times.append(time.monotonic() - began)
            broker.stop()
        began = time.monotonic()
        broker = BolideBroker(Path(folder) / "last", "sync")
        times.append(time.monotonic() - began)
        try:
            time.sleep(chosen.seconds)
            memory = anonymous_mb(broker.pid)
        finally:
            broker.stop()
    ready = statistics.median(times)
    print(
        f"exec to ready: median {ready:.2f} s of {', '.join(f'{t:.2f}' for t in times)} (limit {READY_LIMIT_SECONDS} s)"
    )
    print(f"anonymous memory after {chosen.seconds:.0f} s: {memory:.1f} MB (limit {MEMORY_LIMIT_MB:.0f} MB)")
    return 1 if ready >= READY_LIMIT_SECONDS or memory >= MEMORY_LIMIT_MB else 0


if __name__ == "__main__":
    sys.exit(main())
