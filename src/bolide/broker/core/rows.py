"""A long table as JSON, row by row: a row that did not change since it was last encoded is not encoded again.

Tables that are written to config/ have one `Rows` for each of their JSON objects. Encoding then costs as much as what
changed, not as the whole table, and the node does it in steps between the turns of its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, final

import msgspec

JOINED_AT_ONCE: Final = 1000


@final
class Rows:
    """The members of one JSON object, encoded. `encode(name)` is the value of one, b"" when it is gone."""

    def __init__(self, encode: Callable[[str], bytes]) -> None:
        self._encode = encode
        self._done: dict[str, bytes] = {}
        self._stale: dict[str, None] = {}  # in order, so that the same changes give the same file
        self._wanted: list[str] = []

    def touch(self, name: str) -> None:
        """This row changed, came or went."""
        self._stale[name] = None

    def follow(self, names: Iterable[str]) -> None:
        """These are all the rows: for a caller that does not know what changed."""
        there = dict.fromkeys(names)
        self._stale.update((name, None) for name in there if name not in self._done)
        self._stale.update((name, None) for name in self._done if name not in there)

    def begin(self) -> None:
        """Let `step` encode what has changed until now; later changes are for the next write."""
        self._wanted[:0] = reversed(self._stale)
        self._stale = {}

    def step(self, most: int) -> bool:
        """Encode so many rows at most; True when no more are wanted."""
        wanted = self._wanted
        while wanted and most > 0:
            self._one(wanted[-1])
            wanted.pop()  # only now: what could not be encoded is still wanted
            most -= 1
        return not wanted

    def all(self) -> list[bytes]:
        """Every row as it is now."""
        self.finish()
        return list(self._done.values())

    def some(self, names: Iterable[str]) -> list[bytes]:
        """These rows as they are now, without those that do not exist."""
        self.finish()
        return [self._done[name] for name in names if name in self._done]

    def encoded(self) -> list[bytes]:
        """Every row as it was when it was last encoded."""
        return list(self._done.values())

    def finish(self) -> None:
        """Encode all that changed, however long it takes."""
        self.begin()
        self.step(len(self._wanted))

    def _one(self, name: str) -> None:
        value = self._encode(name)
        if value:
            self._done[name] = b"%b:%b" % (msgspec.json.encode(name), value)
        else:
            self._done.pop(name, None)


@final
class Text:
    """A JSON object of such tables, in pieces: put together on the loop, joined in a thread."""

    def __init__(self) -> None:
        self._pieces: list[bytes | list[bytes]] = []

    def member(self, name: str, value: bytes) -> None:
        """A member that is encoded already."""
        self._pieces.append(b"%b\n%b:%b" % (b"," if self._pieces else b"{", msgspec.json.encode(name), value))

    def rows(self, name: str, rows: list[bytes]) -> None:
        """A member that is an object of rows: a line each, so that a person finds one."""
        self._pieces.append(b"%b\n%b:{\n" % (b"," if self._pieces else b"{", msgspec.json.encode(name)))
        self._pieces.append(rows)
        self._pieces.append(b"}")

    def join(self) -> bytes:
        """The whole text, joined in parts, so that the loop gets the interpreter in between."""
        parts: list[bytes] = []
        for piece in self._pieces:
            if isinstance(piece, bytes):
                parts.append(piece)
                continue
            for first in range(0, len(piece), JOINED_AT_ONCE):
                if first:
                    parts.append(b",\n")
                parts.append(b",\n".join(piece[first : first + JOINED_AT_ONCE]))
        parts.append(b"\n}")
        return b"".join(parts)
