"""Reads of the loop that must not wait for the disk: what is not in memory is fetched by a thread and read again.

Between `begin` and `end` a read of the store's files gives bytes that are in memory or were fetched for this request
before. For other bytes it raises `ColdRead`, or, if the reader can continue without them, gives none and notes what is
missing. The reader then starts over once the missing bytes are there, so it must change nothing before its last read.
Outside `begin` and `end` a read waits for the disk: when the store opens and closes, and in its own upkeep.

"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from bolide.store.disk.extents import Extent
from bolide.store.disk.files import FileFailed, Files

PAGE: Final = 4096
WINDOW: Final = 16 * 1024
"""Least bytes fetched around what is missing: the next read is often beside it."""
MAX_MISSING: Final = 256
"""Most places noted at once; a request that misses more notes the others the next time."""


@mypyc_attr(native_class=False)
class ColdRead(Exception):
    """Bytes are not in memory, and the reader cannot continue without them."""


@final
class Fetched:
    """What was fetched for one request, and is kept until it is answered."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[tuple[Extent, bytes, str]]] = {}
        self.size: i64 = 0

    def add(self, extent: Extent, data: bytes, error: str = "") -> None:
        """Keep what an extent holds, or why it could not be read."""
        self._pieces.setdefault(extent.path, []).append((extent, data, error))
        self.size += len(data) + PAGE

    def find(self, path: str, size: i64, offset: i64) -> bytes | None:
        """Bytes of a file, fewer at its end; None when they were not fetched. Raises `FileFailed`."""
        pieces = self._pieces.get(path)
        if pieces is None:
            return None
        for extent, data, error in pieces:
            within = offset - extent.offset
            if within < 0 or within + size > extent.size:
                continue
            if error:
                raise FileFailed(error)
            return data[within : within + size]
        return None


@final
class Reads:
    """How one store's files are read."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.patient = True
        self._nothing = Fetched()
        self._fetched = self._nothing
        self._gather = False
        self._missing: list[Extent] = []

    def begin(self, fetched: Fetched, gather: bool) -> None:
        """Do not wait for the disk until `end`. With `gather` a read that misses gives no bytes, and others follow."""
        self.patient = False
        self._fetched = fetched
        self._gather = gather
        self._missing = []

    def end(self) -> list[Extent]:
        """Reads may wait again; what was missing."""
        self.patient = True
        self._fetched = self._nothing
        missing = self._missing
        self._missing = []
        return missing

    def read(self, handle: int, path: str, size: i64, offset: i64) -> bytes:
        """Bytes of a file that is open. Raises `ColdRead` and `FileFailed`."""
        data = self.files.read_warm(handle, int(size), int(offset))
        if data is None:
            data = self._fetched.find(path, size, offset)
        if data is not None:
            return data
        self._miss(path, size, offset)
        if not self._gather or len(self._missing) >= MAX_MISSING:
            raise ColdRead(f"{size} bytes at {offset} of {path} are not in memory")
        return b""

    def _miss(self, path: str, size: i64, offset: i64) -> None:
        for extent in self._missing:
            if extent.path == path and extent.offset <= offset and offset + size <= extent.offset + extent.size:
                return
        begin = offset - offset % PAGE
        whole: i64 = max(offset + size - begin, WINDOW)
        self._missing.append(Extent(path, int(begin), int(whole + (-whole) % PAGE)))
