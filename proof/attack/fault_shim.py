"""The fault shim: builds `fault_shim.c` at first use, and controls the processes that load it while they run.

    page = Page(folder / "broker-a.page", seed=1)
    process = subprocess.Popen(command, env={**os.environ, **page.environment(store)})
    page.strike(Rule(Call.SYNC, Action.FAIL, error=errno.EIO, path="*/commitlog*", left=1))
    page.clock(3600.0)
    page.calm()

A page belongs to one process at a time; a process that starts again with it meets the rules that are on.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = Path(__file__).with_name("fault_shim.c")
PAGE_SIZE: Final = 8192
MAGIC: Final = 0x53484D31
RULES: Final = 16
FIRST_RULE: Final = 1024
RULE: Final = struct.Struct("=IIiiqqqIIQQ192s")
ACTIVE_AT: Final = 4
CLOCK_AT: Final = 8
CHANCE_AT: Final = 16
CALLS_AT: Final = 24
HITS_AT: Final = CALLS_AT + 8 * 32
SEEN_IN_RULE: Final = 48
HITS_IN_RULE: Final = 56


class NoCompiler(Exception):
    """The shim cannot be built here."""


class Call(IntFlag):
    """What a rule may hit. The order is that of `enum call` in the source."""

    OPEN = 1 << 0
    CREATE = 1 << 1
    READ = 1 << 2
    WRITE = 1 << 3
    SYNC = 1 << 4
    TRUNCATE = 1 << 5
    ALLOCATE = 1 << 6
    RENAME = 1 << 7
    LINK = 1 << 8
    UNLINK = 1 << 9
    MKDIR = 1 << 10
    STATVFS = 1 << 11
    ACCEPT = 1 << 12
    SOCKET = 1 << 13
    MMAP = 1 << 14
    MSYNC = 1 << 15


CHANGES: Final = (
    Call.CREATE | Call.WRITE | Call.SYNC | Call.TRUNCATE | Call.ALLOCATE | Call.RENAME | Call.LINK | Call.UNLINK
    | Call.MKDIR
)  # fmt: skip
"""Every call that changes what is on the disk."""
GROWS: Final = Call.CREATE | Call.WRITE | Call.TRUNCATE | Call.ALLOCATE | Call.LINK | Call.MKDIR
"""Every call that a disk without room refuses."""


class Action(IntEnum):
    """What happens to a call that a rule hits."""

    FAIL = 1  # with the rule's error, and nothing is done
    DELAY = 2  # done after the rule's delay
    SHORT = 3  # a write of which only some bytes are written, and the call says how many
    TORN = 4  # a write of which only some bytes are written, and the call fails
    KILL_BEFORE = 5  # the process dies before
    KILL_AFTER = 6  # the process dies after
    KILL_TORN = 7  # the process dies when some bytes are written


@dataclass(frozen=True)
class Rule:
    """Which calls are hit, and how. `path` is a pattern in which ``*`` also matches a slash; "" is every file below
    the root. `skip` calls that match pass first, then `left` are hit (-1: all), each by `chance`.
    """

    calls: Call
    action: Action
    error: int = 0
    path: str = ""
    delay: float = 0.0
    skip: int = 0
    left: int = -1
    chance: float = 1.0

    def packed(self) -> bytes:
        """As `struct rule` in the source, switched off."""
        return RULE.pack(
            0,
            self.calls,
            self.action,
            self.error,
            int(self.delay * 1e6),
            self.skip,
            self.left,
            min(int(self.chance * 1e6), 1_000_000),
            0,
            0,
            0,
            self.path.encode(),
        )


def library(cache: Path = ROOT / ".cache") -> Path:
    """The built shim; a changed source is built again. Raises `NoCompiler`."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    built = cache / f"fault_shim-{digest}.so"
    if built.exists():
        return built
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler("the fault shim needs a C compiler: install gcc, or name one in CC")
    cache.mkdir(parents=True, exist_ok=True)
    made = built.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompiler(f"{compiler} cannot build the fault shim: {done.stderr.strip()[:500]}")
    os.replace(made, built)  # another run may build it at the same time
    return built


class Page:
    """The shared page of one process: its rules, its wall clock, and counts of its calls."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        with path.open("w+b") as file:
            file.truncate(PAGE_SIZE)
            self._map = mmap.mmap(file.fileno(), PAGE_SIZE)
        struct.pack_into("=I", self._map, 0, MAGIC)
        struct.pack_into("=Q", self._map, CHANCE_AT, seed & (2**64 - 1))
        self._used: list[bool] = [False] * RULES

    def close(self) -> None:
        """Give the memory back; the process keeps its own."""
        self._map.close()

    def environment(self, root: Path) -> dict[str, str]:
        """Variables of a process whose files below `root` are to be affected. Raises `NoCompiler`."""
        return {"LD_PRELOAD": str(library()), "FAULT_SHIM_PAGE": str(self.path), "FAULT_SHIM_ROOT": str(root)}

    def strike(self, rule: Rule) -> int:
        """Switch a rule on; its number is for `hits` and `lift`. Raises `ValueError` when too many are on."""
        if len(rule.path.encode()) >= 192:
            raise ValueError(f"the pattern {rule.path} is too long")
        number = self._used.index(False)
        self._used[number] = True
        at = FIRST_RULE + number * RULE.size
        self._map[at : at + RULE.size] = rule.packed()
        struct.pack_into("=I", self._map, at, 1)
        self._count()
        return number

    def lift(self, number: int) -> None:
        """Switch a rule off."""
        struct.pack_into("=I", self._map, FIRST_RULE + number * RULE.size, 0)
        self._used[number] = False
        self._count()

    def _count(self) -> None:
        struct.pack_into("=I", self._map, ACTIVE_AT, sum(self._used))

    def hits(self, number: int) -> int:
        """How many calls a rule has hit."""
        found: int = struct.unpack_from("=Q", self._map, FIRST_RULE + number * RULE.size + HITS_IN_RULE)[0]
        return found

    def clock(self, seconds: float) -> None:
        """Set the wall clock this far from the machine's, ahead or back; the monotonic clock stays."""
        struct.pack_into("=q", self._map, CLOCK_AT, int(seconds * 1e9))

    @property
    def clock_ahead(self) -> float:
        """How far the wall clock is ahead, in seconds."""
        ahead: int = struct.unpack_from("=q", self._map, CLOCK_AT)[0]
        return ahead / 1e9

    def calm(self) -> None:
        """Switch every rule off and set the clock right."""
        for number in range(RULES):
            if self._used[number]:
                self.lift(number)
        self.clock(0.0)

    def total_hits(self) -> int:
        """How many calls all rules have hit."""
        return sum(struct.unpack_from("=32Q", self._map, HITS_AT))
