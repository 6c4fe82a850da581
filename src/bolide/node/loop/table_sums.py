"""Checksums of the tables' files, each in a file next to its table: config/topics.json.crc for config/topics.json.

RocketMQ ignores this file. It lists the checksums of the last contents, newest first, and ends with its own checksum:

    <size>-<CRC-32> <size>-<CRC-32> ... <CRC-32 of the text before>

It is written before the table, with the checksums of the new content, of the previous content, and of the `.bak`. So a
crash between the two writes leaves a table whose checksum is listed. A table that matches no listed checksum is
damaged, unless it is indented: Bolide does not indent, but RocketMQ and editors do, so one of them has written it
since. Startup compares nothing if the file is missing or damaged.
"""

from __future__ import annotations

import logging
import re
import zlib
from typing import Final

from bolide.store.disk.files import Files
from bolide.store.disk.overwrite import overwrite

SIZE: Final = 128
"""Bytes of the file, within one sector: it is overwritten in place."""
_INDENTED: Final = re.compile(rb"\{\r?\n[\t ]")
log = logging.getLogger("bolide.persist")


class TableSums:
    """The checksums of one folder's tables. `path` is the file of a table. Calls for one table must not overlap."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._listed: dict[str, list[str]] = {}
        """By path: the list in the file, or an empty one."""
        self._stored: dict[str, list[str]] = {}
        """By path: the checksums of the table and of its .bak, where they are known."""

    def mismatch(self, path: str, data: bytes) -> str:
        """Return why `data`, read from `path` or its `.bak`, is damaged, or "" if it is not."""
        listed = self._list(path)
        if not listed or _sum(data) in listed:
            return ""
        if _INDENTED.match(data):
            self._listed[path] = []
            return ""
        return (
            f"its checksum is not in {_file(path)}; delete that file if someone has edited the table on purpose, or if "
            f"a build of Bolide from before 0.1.0 has used this store since"
        )

    def write(self, path: str, data: bytes) -> None:
        """Write a table after its checksum. Raises `FileFailed`; the table has the old content or the new one then."""
        stored = self._stored.pop(path, None)
        if stored is None:
            stored = self._look(path)
        listed = [_sum(data), *stored]
        # After a crash here, the table has its previous content, whose checksum is listed. A power failure during this
        # write may leave a torn file of checksums; the next start then compares nothing.
        self._write_sums(_file(path), listed)
        self._listed[path] = listed
        self._files.write_file(path, data)
        self._stored[path] = listed[:2]

    def _look(self, path: str) -> list[str]:
        """Return the checksums of a table and its .bak, except a damaged one."""
        listed = self._list(path)
        found = [self._files.read_file(each) for each in (path, path + ".bak")]
        sums = [_sum(data) for data in found if data is not None]
        return [each for each in sums if not listed or each in listed]

    def _list(self, path: str) -> list[str]:
        listed = self._listed.get(path)
        if listed is None:
            listed = self._listed[path] = self._read(path)
        return listed

    def _write_sums(self, path: str, sums: list[str]) -> None:
        text = " ".join(sums)
        overwrite(self._files, path, f"{text} {_own(text)}".ljust(SIZE - 1).encode() + b"\n")

    def _read(self, path: str) -> list[str]:
        data = self._files.read_file(_file(path))
        if data is None:
            return []
        text, _, own = data.decode("ascii", "replace").strip().rpartition(" ")
        if not text or own != _own(text):
            log.warning("%s is damaged: %s is read without a check", _file(path), path)
            return []
        return text.split(" ")


def _file(path: str) -> str:
    return path + ".crc"


def _sum(data: bytes) -> str:
    return f"{len(data)}-{zlib.crc32(data):08x}"


def _own(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
