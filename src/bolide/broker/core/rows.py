"""Encodes a long table as JSON, row by row. A row that has not changed since it was last encoded is reused.

Tables in config/ have one `Rows` for each of their JSON objects. So the cost of encoding depends on the number of
changes, not on the size of the table, and the node encodes in steps between the turns of its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, final

import msgspec

JOINED_AT_ONCE: Final = 1000


@final
class Rows:
    """Encoded members of one JSON object. `encode(name)` returns the value of one member, or b"" if it was removed."""

    def __init__(self, encode: Callable[[str], bytes]) -> None:
        self._encode = encode
        self._done: dict[str, bytes] = {}
        self._stale: dict[str, None] = {}  # in order, so that the same changes give the same file
        self._wanted: list[str] = []

    def touch(self, name: str) -> None:
        """Mark a row as stale: the next write encodes it again, or omits it if it was removed."""
        self._stale[name] = None

    def follow(self, names: Iterable[str]) -> None:
        """Set the names of all rows, if the caller does not know which ones changed."""
        there = dict.fromkeys(names)
        self._stale.update((name, None) for name in there if name not in self._done)
        self._stale.update((name, None) for name in self._done if name not in there)

    def begin(self) -> None:
        """Let `step` encode the changes so far. Later changes belong to the next write."""
        self._wanted[:0] = reversed(self._stale)
        self._stale = {}

    def step(self, most: int) -> bool:
        """Encode at most `most` rows. Return True once all rows are encoded."""
        wanted = self._wanted
        while wanted and most > 0:
            self._one(wanted[-1])
            wanted.pop()  # only now, so that a row that could not be encoded is retried
            most -= 1
        return not wanted

    def all(self) -> list[bytes]:
        """Return every row in its current state."""
        self.finish()
        return list(self._done.values())

    def some(self, names: Iterable[str]) -> list[bytes]:
        """Return the current state of these rows, without those that do not exist."""
        self.finish()
        return [self._done[name] for name in names if name in self._done]

    def encoded(self) -> list[bytes]:
        """Return every row as it was last encoded."""
        return list(self._done.values())

    def finish(self) -> None:
        """Encode all changes, without a time limit."""
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
    """A JSON object of tables, in pieces. The pieces are added on the loop and joined in a thread."""

    def __init__(self) -> None:
        self._pieces: list[bytes | list[bytes]] = []

    def member(self, name: str, value: bytes) -> None:
        """Add a member that is already encoded."""
        self._pieces.append(b"%b\n%b:%b" % (b"," if self._pieces else b"{", msgspec.json.encode(name), value))

    def rows(self, name: str, rows: list[bytes]) -> None:
        """Add a member that is an object of rows, one per line for readability."""
        self._pieces.append(b"%b\n%b:{\n" % (b"," if self._pieces else b"{", msgspec.json.encode(name)))
        self._pieces.append(rows)
        self._pieces.append(b"}")

    def join(self) -> bytes:
        """Return the whole text, joined in parts, so that the loop's thread can run in between."""
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
