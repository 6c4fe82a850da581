"""Files mapped into memory. Only pages that the kernel reports as resident are accessed.

Part of `store.disk.files`. Reading a page that is not in memory would make the loop wait for the disk. So mincore is
called before each view, and None is returned if a page is missing. If the kernel evicts a page between mincore and the
copy, some microseconds later, the copy reads it from the disk. Memory past the current length of the file is never
accessed, because that would kill the process. Only Linux's mincore supports files, so other systems have no maps.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Final, final

from bolide.store.disk.system_calls import is_resident_call, map_calls

MOST_MAPS: Final = 256
"""Maximum number of mapped files. They use address space, but no memory except page tables (1/512 of the bytes
read)."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Maximum length of a view."""
_PAGE: Final = mmap.PAGESIZE
_THERE: Final = 1
_FIXED: Final = 0x10
"""MAP_FIXED, the same number on every processor that Linux runs on."""
_NO_RESERVE: Final[int] = getattr(mmap, "MAP_NORESERVE", 0)


@final
class FileMaps:
    """The maps of one `RealFiles`, by handle. Use them only on the loop's thread."""

    def __init__(self) -> None:
        calls = map_calls()
        self._map: Callable[[int, int, int, int, int, int], int | None] | None = calls[0] if calls else None
        self._mincore: Callable[[int, int, int], int] | None = calls[1] if calls else None
        self._is_resident: Callable[[int, int, int, int, int], bool] | None = is_resident_call()
        self._maps: dict[int, tuple[memoryview, int, int] | None] = {}
        """View, address and length, or None for a file that cannot be mapped."""
        self._pages = bytearray(MOST_BYTES // _PAGE + 2)
        self._pages_at = _address(self._pages)

    def view(self, handle: int, size: int, offset: int, length: int) -> memoryview | None:
        """Return a view of a range of a file, for immediate use, or None if a part is not in memory or the file is not
        mapped.

        `length`: current length of the file. It is needed because a resident page may extend past it.
        """
        found = self._maps.get(handle)
        mincore = self._mincore
        if found is None or mincore is None:
            return None
        view, address, mapped = found
        end = offset + size
        if size <= 0 or size > MOST_BYTES or end > mapped or end > length:
            return None
        first = offset - offset % _PAGE
        pages = (end - first + _PAGE - 1) // _PAGE
        if mincore(address + first, end - first, self._pages_at) != 0:
            return None
        if self._pages.count(_THERE, 0, pages) != pages:
            return None
        return view[offset:end]

    def view_now(self, handle: int, size: int, offset: int) -> memoryview | None:
        """Like `view`, but also determines the length of the file. Requires `can_view_now`; raises `OSError`."""
        found = self._maps.get(handle)
        resident = self._is_resident
        if found is None or resident is None:
            return None
        view, address, mapped = found
        if size <= 0 or size > MOST_BYTES or offset + size > mapped:
            return None
        if not resident(handle, address, offset, size, _PAGE):
            return None
        return view[offset : offset + size]

    def can_view_now(self, handle: int) -> bool:
        """Return whether `add` was called for this handle, so that `view_now` is allowed."""
        return self._is_resident is not None and handle in self._maps

    def knows(self, handle: int) -> bool:
        """Return whether `add` was called for this handle, or is not needed because maps are not supported."""
        return self._map is None or handle in self._maps

    def add(self, handle: int, length: int) -> None:
        """Map a file of this length. Drops the oldest map if there are too many."""
        if len(self._maps) >= MOST_MAPS:
            del self._maps[next(iter(self._maps))]
        self._maps[handle] = self._mapped(handle, length)

    def forget(self, handle: int) -> None:
        """Drop the map of a handle that is being closed. Its memory is released with its last view."""
        self._maps.pop(handle, None)

    def _mapped(self, handle: int, length: int) -> tuple[memoryview, int, int] | None:
        if length <= 0 or self._map is None:
            return None
        try:
            # Owns the addresses and releases them when unused. mmap of the file itself would keep a second descriptor
            # open.
            owner = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | _NO_RESERVE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        except (OSError, ValueError):
            return None  # a limit of this process: reads copy, as without maps
        address = _address(owner)
        if self._map(address, length, mmap.PROT_READ, mmap.MAP_SHARED | _FIXED, handle, 0) != address:
            return None
        return memoryview(owner).toreadonly(), address, length


def _address(of: bytearray | mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(of))
