"""Stores the decisions of a controller in one local file: safe from crashes, but not from the loss of the host.

The file is replaced atomically and synced before a decision is valid. Its previous copy `.bak` is never read: it could
restore an older epoch, and so allow a second master.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
import zlib
from typing import Final

import msgspec
from msgspec import Struct

from bolide.controller.consensus import Kept, Leadership, LeadershipLost, Member, StoreUnavailable
from bolide.controller.replica_set import FORMAT, ReplicaSet, StateDamaged, decode_set, encode_set
from bolide.errors import BolideError
from bolide.node.machine.node_world import NodeWorld

log = logging.getLogger("bolide.controller")
NOT_AVAILABLE: Final = (
    "the controller stores its decisions in %s on this host only: it is not highly available. While it is down, no "
    "master is elected, and running brokers continue. Use etcd (controllerStore = etcd:URL) for more than one "
    "controller"
)


class _Entry(Struct, frozen=True):
    revision: int
    set: msgspec.Raw


class _File(Struct, frozen=True):
    format: int
    sets: dict[str, _Entry]
    crc: int | None = None
    """CRC-32 of the sets (`_crc`), or None in a file of an older version."""


class FileStore:
    """Implements `controller.consensus.ConsensusStore` for a single controller, which is the leader from the start.

    `start` raises `FileLocked` if another process uses the folder, and `StateDamaged` for an unreadable file.
    """

    def __init__(self, world: NodeWorld, path: str, me: Member) -> None:
        self._world = world
        self._path = path
        self._me = me
        self._lock = -1
        self._sets: dict[str, tuple[int, bytes]] = {}
        self._certain = False
        """Whether the content in memory is known to equal the content on disk."""
        self._failed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._job: asyncio.Future[None] | None = None
        """A write, which continues in its thread even if its caller is cancelled."""

    async def start(self) -> None:
        """Lock the folder and read the file."""
        await self._world.in_thread(self._open)
        log.warning(NOT_AVAILABLE, self._path)

    @property
    def leadership(self) -> Leadership:
        """This controller as the leader, without peers."""
        return Leadership(self._me, (self._me,))

    @property
    def leads(self) -> bool:
        """Whether the last write succeeded."""
        return self._certain

    @property
    def reached(self) -> bool:
        """Whether the last write succeeded."""
        return self._certain

    async def lead(self) -> None:
        """Write the content in memory and wait for it. After a failed write the disk may contain either version."""
        async with self._writing:
            await self._written(self._sets)
        self._failed.clear()
        self._certain = True

    async def deposed(self) -> None:
        """Wait until a write fails."""
        await self._failed.wait()

    async def load(self) -> dict[str, Kept]:
        """Return all sets by name."""
        return {
            name: Kept(decode_set(data, f"{name} in {self._path}"), revision)
            for name, (revision, data) in self._sets.items()
        }

    async def change(self, value: ReplicaSet, expected: int) -> int:
        """Store a set if its revision in the file is `expected`. Return the new revision."""
        async with self._writing:
            if not self._certain:
                raise LeadershipLost(f"{self._path} could not be written: no decision is made until it can be")
            now, _ = self._sets.get(value.name, (0, b""))
            if now != expected:
                raise LeadershipLost(f"{value.name} has revision {now}, not {expected}")
            wanted = {**self._sets, value.name: (now + 1, encode_set(value))}
            try:
                await self._written(wanted)
            except BaseException:
                self._certain = False
                self._failed.set()
                raise
            self._sets = wanted
            return now + 1

    async def stop(self) -> None:
        """Unlock the folder."""
        self._certain = False
        if self._job is not None:
            await asyncio.gather(self._job, return_exceptions=True)
        if self._lock >= 0:
            self._world.files.unlock(self._lock)
            self._lock = -1

    async def _written(self, sets: dict[str, tuple[int, bytes]]) -> None:
        if self._job is not None:
            await asyncio.gather(self._job, return_exceptions=True)
        self._job = asyncio.ensure_future(self._world.in_thread(self._write, sets))
        await asyncio.shield(self._job)

    def _open(self) -> None:
        files = self._world.files
        folder = posixpath.dirname(self._path)
        missing: list[str] = []
        above = folder
        while posixpath.basename(above) and posixpath.basename(above) not in files.list_dir(posixpath.dirname(above)):
            missing.append(above)
            above = posixpath.dirname(above)
        files.make_dir(folder)
        for made in missing:  # otherwise a power failure could remove the new folder with the file
            files.sync_dir(posixpath.dirname(made))
        self._lock = files.lock(f"{self._path}.lock")
        try:
            data = files.read_file(self._path)
            if data is None and files.size(f"{self._path}.bak") >= 0:
                raise StateDamaged(
                    f"{self._path} is missing, and {self._path}.bak exists: restore the file. The .bak is older, and "
                    "decisions based on it could give an epoch a second master"
                )
            self._sets = {} if data is None else _read(data, self._path)
        except BaseException:
            files.unlock(self._lock)
            self._lock = -1
            raise

    def _write(self, sets: dict[str, tuple[int, bytes]]) -> None:
        entries = {name: _Entry(revision, msgspec.Raw(data)) for name, (revision, data) in sets.items()}
        try:
            self._world.files.write_file(self._path, msgspec.json.encode(_File(FORMAT, entries, _crc(entries))))
        except (BolideError, OSError) as error:
            raise StoreUnavailable(f"{self._path} could not be written: {error}") from error


def _read(data: bytes, path: str) -> dict[str, tuple[int, bytes]]:
    """Return revision and bytes of each set. Raises `StateDamaged`."""
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateDamaged(f"{path} cannot be read: {error}; replace it with an intact copy") from None
    if file.format != FORMAT:
        raise StateDamaged(f"{path} has format {file.format}, and this controller reads {FORMAT}: run a newer one")
    if file.crc is not None and file.crc != _crc(file.sets):
        raise StateDamaged(f"{path} does not match its checksum: replace it with an intact copy")
    found = {name: (entry.revision, bytes(entry.set)) for name, entry in file.sets.items()}
    for name, (_, one) in found.items():
        decode_set(one, f"{name} in {path}")
    return found


def _crc(sets: dict[str, _Entry]) -> int:
    """Return the CRC-32 of names, revisions and sets, in the order of the names."""
    crc = 0
    for name, entry in sorted(sets.items()):
        crc = zlib.crc32(f"{name}\n{entry.revision}\n".encode() + bytes(entry.set), crc)
    return crc
