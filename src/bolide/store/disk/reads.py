"""Reads of the loop that must not wait for the disk: a thread fetches missing bytes, and the read is repeated.

Between `begin` and `end`, a read of the store's files returns bytes that are in memory or were fetched for this request
before. For other bytes, it records the missing range and raises `ColdRead`, or returns no bytes if the reader can
continue without them. The reader restarts once the bytes are fetched, so it must not change state before its last read.
Outside `begin` and `end`, a read waits for the disk: when the store opens and closes, and in its maintenance.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from bolide.store.disk.extents import Extent
from bolide.store.disk.files import FileFailed, Files

PAGE: Final = 4096
WINDOW: Final = 16 * 1024
"""Minimum number of bytes fetched around a missing range, because the next read is often adjacent."""
MAX_MISSING: Final = 256
"""Maximum number of recorded ranges. A request with more missing ranges records the others when it runs again."""


@mypyc_attr(native_class=False)
class ColdRead(Exception):
    """Bytes are not in memory, and the reader cannot continue without them."""


@final
class Fetched:
    """Bytes fetched for one request, until its response is sent."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[tuple[Extent, bytes, str]]] = {}
        self.size: i64 = 0

    def add(self, extent: Extent, data: bytes, error: str = "") -> None:
        """Add the content of an extent, or the reason why it could not be read."""
        self._pieces.setdefault(extent.path, []).append((extent, data, error))
        self.size += len(data) + PAGE

    def find(self, path: str, size: i64, offset: i64) -> bytes | None:
        """Return bytes of a file, fewer at its end, or None if they were not fetched. Raises `FileFailed`."""
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
    """Read mode of one store's files."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.patient = True
        self._nothing = Fetched()
        self._fetched = self._nothing
        self._gather = False
        self._missing: list[Extent] = []

    def begin(self, fetched: Fetched, gather: bool) -> None:
        """Do not wait for the disk until `end`. With `gather`, a read of missing bytes returns no bytes instead of
        raising `ColdRead`, so that one run records several ranges."""
        self.patient = False
        self._fetched = fetched
        self._gather = gather
        self._missing = []

    def end(self) -> list[Extent]:
        """Allow reads to wait again. Return the missing extents."""
        self.patient = True
        self._fetched = self._nothing
        missing = self._missing
        self._missing = []
        return missing

    def read(self, handle: int, path: str, size: i64, offset: i64) -> bytes:
        """Return bytes of an open file. Raises `ColdRead` and `FileFailed`."""
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
