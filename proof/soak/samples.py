"""What is measured of the processes, the store and the broker's own figures, and which limits apply to it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from proof.soak.series import Limit, Series, Verdict, judge

MEMORY = Limit(6.0, 3.0)
"""MiB. An allocator keeps what it has had for a while; a leak of 100 bytes a message shows within two hours, and far
earlier as blocks."""
BLOCKS = Limit(20_000, 10_000)
"""Blocks of memory that Python objects occupy: one object kept of each message shows within half an hour."""
DESCRIPTORS = Limit(12, 3)
THREADS = Limit(4, 1)
DISK = Limit(12.0, 2.0)
"""MiB: a few files more or less, as retention comes by."""
FILES = Limit(60, 20)
TABLES = Limit(8, 3)
"""Topics and groups that exist: visitors come and go."""
LATENESS = Limit(1000, 200)
"""ms, of the median: a timer is due within one slot of a second."""
SLOW = Limit(30, 10)
"""Of a thousand turns."""
ANSWER = Limit(30, 10)
"""ms, of the median."""
OWED_S = 20.0
"""Seconds of its traffic that a reader may fall behind."""
SLOW_MS = 20
COUNT = re.compile(r"\[(?:<=)?(\d+)(?:~\d*)?(?:ms)?~?\]:(\d+)")


class Measurements:
    """Every series of a run, made when its first value comes."""

    def __init__(self) -> None:
        self.series: dict[tuple[str, str], Series] = {}

    def add(self, group: str, name: str, unit: str, limit: Limit, point: tuple[float, float]) -> None:
        """Enter one value: seconds since the start, and the value."""
        series = self.series.get((group, name))
        if series is None:
            series = self.series[group, name] = Series(name, group, unit, limit)
        series.add(*point)

    def judged(self, warm_up: float) -> list[tuple[Series, Verdict]]:
        """Every series with its verdict."""
        return [(series, judge(series, warm_up)) for series in self.series.values()]


def measure_process(measurements: Measurements, second: float, name: str, pid: int) -> None:
    """Resident memory, descriptors and threads of a process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return  # it has just ended, which the run notices by itself
    memory = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    measurements.add("Resident memory", name, "MiB", MEMORY, (second, memory))
    measurements.add("Descriptors", name, "", DESCRIPTORS, (second, descriptors))
    measurements.add("Threads", name, "", THREADS, (second, threads))


def measure_disk(measurements: Measurements, second: float, store: Path) -> None:
    """Space and files of the store."""
    used = files = 0
    for folder, _, names in os.walk(store):
        for name in names:
            try:
                used += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue  # deleted meanwhile
            files += 1
    measurements.add("Disk use", "store", "MiB", DISK, (second, used / (1 << 20)))
    measurements.add("Files", "store", "", FILES, (second, files))


class LoopTimes:
    """Turns the rising counts of the broker's loop into what happened between two samples."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}

    def measure(self, measurements: Measurements, second: float, runtime: Mapping[str, str]) -> None:
        """Enter the share of slow turns and of late timers since the last sample."""
        for key, name in (("loopTurnDistributeTime", "turns"), ("loopTimerLateDistributeTime", "timer rings")):
            counts = distribution(runtime.get(key, ""))
            total = sum(counts.values())
            slow = sum(count for lower, count in counts.items() if lower >= SLOW_MS)
            before = self._last.get(key)
            self._last[key] = (total, slow)
            if before is None or total <= before[0]:
                continue
            share = 1000 * (slow - before[1]) / (total - before[0])
            measurements.add("Loop of the broker", f"{name} over {SLOW_MS} ms", "‰", SLOW, (second, share))


def distribution(text: str) -> dict[int, int]:
    """Counts by their lower bound in ms, out of a line like `[<=0ms]:5 [0~5ms]:1 [1000ms~]:0`."""
    found: dict[int, int] = {}
    for lower, count in COUNT.findall(text):
        found[int(lower)] = found.get(int(lower), 0) + int(count)
    return found
