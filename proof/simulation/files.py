"""The files of one simulated process: each call takes time, leaves a line in the trace, and may be its last."""

from __future__ import annotations

from typing import Final

from bolide.store.disk.files import Files
from proof.simulation.owner import Owner
from proof.simulation.trace import summary

WAITS: Final = frozenset({"datasync", "sync_dir", "sync_file_systems", "warm", "fetch", "scan", "write_file"})
"""Calls that wait for the disk; the others are between the process and the page cache."""
SYNCS: Final = frozenset({"datasync", "sync_dir", "sync_file_systems"})
WRITES: Final = frozenset({"write_at", "write_file", "truncate", "reserve", "reserve_new"})
"""Calls that hang as well once the queue of the disk is full."""


class Pace:
    """How long calls take, by chance."""

    def __init__(self, process: Owner) -> None:
        chance = process.scheduler.stream(f"{process.name} {process.number} disk")
        self._chance = chance
        self.cache_s = 10 ** chance.uniform(-5.5, -4.5)
        self.disk_s = 10 ** chance.uniform(-4.0, -2.0)
        self.slowed = 1.0
        """What a slow disk multiplies the time of the calls that wait by."""
        self.hung: frozenset[str] = frozenset()
        """Calls that do not return before `hung_until`, in seconds of the simulation."""
        self.hung_until = 0.0
        self.stall = 0.001
        """Part of those calls that take a hundred times as long."""

    def hangs(self, calls: str, until: float) -> None:
        """Let every `sync` hang, or every `write` as well."""
        self.hung = SYNCS | WRITES if calls == "write" else SYNCS
        self.hung_until = until

    def hangs_for(self, call: str, now: float) -> float:
        """Return the seconds for which a call at `now` hangs before the disk executes it."""
        return max(self.hung_until - now, 0.0) if call in self.hung else 0.0

    def part(self) -> float:
        """Which part of the time of a call passes before the disk does what it asks for."""
        return self._chance.random()

    def of(self, call: str, size: int) -> float:
        """Seconds of one call."""
        chance = self._chance.random
        if call not in WAITS:
            return chance() * self.cache_s
        seconds = chance() * self.disk_s * self.slowed
        return seconds * 100 if chance() < self.stall else seconds


class ProcessFiles:
    """`bolide.store.disk.files.Files` of a process, on its disk."""

    def __init__(self, process: Owner) -> None:
        self._process = process
        self._disk: Files = process.disk
        self._paths: dict[int, str] = {}
        self.pace = Pace(process)

    def _call(self, call: str, what: str, size: int = 0) -> float:
        """The call is about to change or read the disk; what it waits for after that, for `_wait`."""
        process = self._process
        seconds = self.pace.of(call, size)
        before = seconds * self.pace.part()
        process.disk_call(before + self.pace.hangs_for(call, process.strand.now), size)
        process.note("disk", f"{call} {what}")
        process.disk.now_ms = process.host.wall_ns(process.strand.now) // 1_000_000
        return seconds - before

    def _wait(self, seconds: float) -> None:
        """The disk has done it, and says so only now."""
        self._process.spend(seconds)

    def _path(self, handle: int) -> str:
        return self._paths.get(handle, "?")

    # ---- bytes

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        self._call("open", f"{path} {size}" if create else path)
        handle = self._disk.open(path, create, size)
        self._paths[handle] = path
        return handle

    def close(self, handle: int) -> None:
        self._call("close", self._path(handle))
        self._disk.close(handle)
        self._paths.pop(handle, None)

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        data = b"".join(buffers)
        self._call("write_at", f"{self._path(handle)} {offset}+{summary(data)}", len(data))
        self._disk.write_at(handle, buffers, offset)

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        self._call("read_at", f"{self._path(handle)} {offset}+{size}", size)
        return self._disk.read_at(handle, size, offset)

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        self._call("read_warm", f"{self._path(handle)} {offset}+{size}", size)
        return self._disk.read_warm(handle, size, offset)

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        self._call("view_warm", f"{self._path(handle)} {offset}+{size}", size)
        return self._disk.view_warm(handle, size, offset)

    def next_data(self, handle: int, offset: int) -> int:
        self._call("next_data", f"{self._path(handle)} {offset}")
        return self._disk.next_data(handle, offset)

    def warm(self, path: str, offset: int, size: int) -> None:
        left = self._call("warm", f"{path} {offset}+{size}", size)
        self._disk.warm(path, offset, size)
        self._wait(left)

    def fetch(self, path: str, offset: int, size: int) -> bytes:
        self._call("fetch", f"{path} {offset}+{size}", size)
        return self._disk.fetch(path, offset, size)

    def scan(self, path: str, offset: int, size: int) -> bytes:
        self._call("scan", f"{path} {offset}+{size}", size)
        return self._disk.scan(path, offset, size)

    def datasync(self, handle: int) -> None:
        left = self._call("datasync", self._path(handle))
        self._disk.datasync(handle)
        self._wait(left)

    def sync_file_systems(self, folders: set[str]) -> bool:
        self._call("sync_file_systems", " ".join(sorted(folders)))
        return self._disk.sync_file_systems(folders)

    def reserve(self, handle: int, offset: int, size: int) -> None:
        self._call("reserve", f"{self._path(handle)} {offset}+{size}")
        self._disk.reserve(handle, offset, size)

    def reserve_new(self, handle: int, size: int) -> None:
        self._call("reserve_new", f"{self._path(handle)} {size}")
        self._disk.reserve_new(handle, size)

    def open_unnamed(self, folder: str) -> int:
        self._call("open_unnamed", folder)
        handle = self._disk.open_unnamed(folder)
        if handle >= 0:
            self._paths[handle] = f"{folder}/(unnamed)"
        return handle

    def link_unnamed(self, handle: int, path: str) -> bool:
        self._call("link_unnamed", path)
        linked = self._disk.link_unnamed(handle, path)
        if linked:
            self._paths[handle] = path
        return linked

    def truncate(self, handle: int, size: int) -> None:
        self._call("truncate", f"{self._path(handle)} {size}")
        self._disk.truncate(handle, size)

    # ---- names

    def sync_dir(self, path: str) -> None:
        left = self._call("sync_dir", path)
        self._disk.sync_dir(path)
        self._wait(left)

    def link(self, source: str, target: str) -> bool:
        self._call("link", f"{source} to {target}")
        return self._disk.link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._call("rename", f"{source} to {target}")
        self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self._call("remove", path)
        self._disk.remove(path)

    def make_dir(self, path: str) -> None:
        self._call("make_dir", path)
        self._disk.make_dir(path)

    def list_dir(self, path: str) -> list[str]:
        self._call("list_dir", path)
        return self._disk.list_dir(path)

    def size(self, path: str) -> int:
        self._call("size", path)
        return self._disk.size(path)

    def links(self, path: str) -> int:
        self._call("links", path)
        return self._disk.links(path)

    def modified_ms(self, path: str) -> int:
        self._call("modified_ms", path)
        return self._disk.modified_ms(path)

    def read_file(self, path: str) -> bytes | None:
        self._call("read_file", path)
        return self._disk.read_file(path)

    def write_file(self, path: str, data: bytes) -> None:
        left = self._call("write_file", f"{path} {summary(data)}", len(data))
        self._disk.write_file(path, data)
        self._wait(left)

    # ---- the rest

    def lock(self, path: str) -> int:
        self._call("lock", path)
        return self._disk.lock(path)

    def unlock(self, handle: int) -> None:
        self._call("unlock", str(handle))
        self._disk.unlock(handle)

    def disk_use(self, path: str) -> float:
        self._process.check()
        return self._disk.disk_use(path)

    def process_id(self) -> int:
        return self._process.number

    def boot_id(self, path: str) -> str:
        self._process.check()
        return self._disk.boot_id(path)

    def local_time(self, time_ms: int) -> str:
        return self._disk.local_time(time_ms)
