"""What the machine says of a process and of itself: processor time, memory, system calls, and who else is busy."""

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.servers.stopping import Failed

_TICKS = os.sysconf("SC_CLK_TCK")
_ATTACH_SECONDS = 20.0


@dataclass(frozen=True)
class Used:
    """Processor time in seconds."""

    user: float
    system: float

    def __sub__(self, other: "Used") -> "Used":
        return Used(self.user - other.user, self.system - other.system)

    @property
    def seconds(self) -> float:
        """Both."""
        return self.user + self.system


def used(pid: int) -> Used:
    """Processor time of a process so far, with all the threads it ever had."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return Used(int(fields[11]) / _TICKS, int(fields[12]) / _TICKS)


def exact_seconds(pid: int) -> float:
    """Processor time of the threads a process has, to the nanosecond; `used` counts in hundredths of a second."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


def anonymous_mb(pid: int) -> float:
    """Anonymous memory of a process and its children, in megabytes (10^6 bytes)."""
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Anonymous:"):
            total += int(line.split()[1]) * 1024
    mb = total / 1e6
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            mb += anonymous_mb(int(child))
    return mb


def java_memory_mb(pid: int) -> float:
    """What a JVM holds: the living objects of its heap, and all anonymous memory beside the heap."""
    home = os.environ.get("JAVA_HOME")
    jcmd = str(Path(home) / "bin" / "jcmd") if home else shutil.which("jcmd") or "jcmd"
    subprocess.run([jcmd, str(pid), "GC.run"], capture_output=True, check=True)
    told = subprocess.run([jcmd, str(pid), "GC.heap_info"], capture_output=True, text=True, check=True).stdout
    heap = re.search(r"heap\s+total (?:reserved \d+K, committed )?(\d+)K.*?used (\d+)K", told)
    if heap is None:
        raise Failed(f"the JVM does not tell the size of its heap: {told.strip()[:200]}")
    committed, living = int(heap[1]), int(heap[2])
    return anonymous_mb(pid) + (living - committed) * 1024 / 1e6


def load_average() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]


def _busy_seconds() -> float:
    fields = [int(text) for text in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / _TICKS


class Watch:
    """Processor time of a broker and of all others on the machine, from its making until `end`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._load = load_average()
        self._began = time.monotonic()
        self._busy = _busy_seconds()
        self._used = used(pid)

    def end(self, messages: float, generator_seconds: float) -> dict[str, float]:
        """User and kernel time of a message (µs), the load before, and the processors others kept busy meanwhile."""
        spent = used(self._pid) - self._used
        elapsed = max(time.monotonic() - self._began, 1e-9)
        foreign = _busy_seconds() - self._busy - spent.seconds - generator_seconds
        each = 1e6 / messages if messages else 0.0
        return {
            "user_us": spent.user * each,
            "system_us": spent.system * each,
            "load": self._load,
            "others": max(foreign / elapsed, 0.0),
        }


@dataclass
class Calls:
    """System calls that were counted."""

    by_name: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_name.values())


@contextlib.contextmanager
def counted_calls(pid: int, folder: Path) -> Iterator[Calls]:
    """Count the system calls of all threads of a process meanwhile; its rates are no result, strace slows it down."""
    strace = shutil.which("strace")
    if strace is None:
        raise Failed("system calls are counted by strace, which is not installed")
    told = folder / "calls.txt"
    calls = Calls()
    command = [strace, "-f", "-c", "-U", "calls,name", "-o", str(told), "-p", str(pid)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tracer:
        try:
            _wait_attached(pid, tracer)
            yield calls
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
    calls.by_name = calls_told(told.read_text(encoding="utf-8"))


def calls_told(told: str) -> dict[str, int]:
    """The table of `strace -c -U calls,name`: how often each call was made."""
    found = {}
    for line in told.splitlines():
        count, _, name = line.strip().partition(" ")
        if count.isdigit() and name.strip() not in ("", "total"):
            found[name.strip()] = int(count)
    return found


def _wait_attached(pid: int, tracer: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _ATTACH_SECONDS
    while not all(_traced(thread) for thread in Path(f"/proc/{pid}/task").iterdir()):
        if tracer.poll() is not None or time.monotonic() > end:
            raise Failed("strace could not be attached to the broker: is tracing of processes allowed here?")
        time.sleep(0.02)


def _traced(thread: Path) -> bool:
    try:
        return "TracerPid:\t0\n" not in (thread / "status").read_text(encoding="utf-8")
    except OSError:  # it has ended
        return True


def describe() -> dict[str, str]:
    """What the figures were measured on."""
    described = {"cpu": _cpu_model(), "cpus": str(os.cpu_count()), "memory": f"{_memory_gb():.0f} GB"}
    described |= {"system": platform.platform(), "python": platform.python_version()}
    try:
        from bolide import _impl
    except ImportError:
        return described
    return described | {"bolide": _impl.describe()}


def _cpu_model() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found[1].strip() if found else platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
