"""Base classes of tables with many rows. A file is encoded row by row between turns of the loop (core/rows.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from mypy_extensions import mypyc_attr

from bolide.broker.core.data_version import DataVersion
from bolide.broker.core.effects import Effects
from bolide.broker.core.rows import Rows, Text
from bolide.broker.core.service import Table


@mypyc_attr(allow_interpreted_subclasses=True)
class RowTable(Table):
    """A table whose file contains a version, and rows that subclasses add by `add_rows`."""

    def __init__(self, persist_name: str, effects: Effects, now: int, persisted_before: str = "") -> None:
        """`persisted_before`: name of the file to load if there is no file of `persist_name`."""
        super().__init__(persist_name, persisted_before)
        self.data_version: DataVersion = DataVersion(now, 0, 0)
        self._effects: Effects = effects
        self._all_rows: list[Rows] = []
        self._version_text: bytes = b""
        """The version as of `begin`, so that it is never newer than the content of the file."""

    def add_rows(self, encode: Callable[[str], bytes]) -> Rows:
        """Add an object of rows to the file. `encode(name)` returns the value of a row, or b"" if it was removed."""
        rows = Rows(encode)
        self._all_rows.append(rows)
        return rows

    def encode(self) -> bytes:
        """Return the file's text: one line per row."""
        for rows in self._all_rows:
            rows.finish()
        self.note_state()
        return self.text().join()

    def begin(self) -> None:
        """Start a write of the file. It contains the table as of now."""
        for rows in self._all_rows:
            rows.begin()
        self.note_state()

    def note_state(self) -> None:
        """Copy the version, and any other state that is not in rows, for the next `text`."""
        self._version_text = msgspec.json.encode(self.data_version.to_json())

    def step(self, most: int) -> bool:
        """Encode at most `most` rows. Return True once the text is complete."""
        return all(rows.step(most) for rows in self._all_rows)

    def text(self) -> Text:
        """Return the file's text, to be joined in a thread."""
        text = Text()
        text.member("dataVersion", self._version_text)
        self.add_members(text)
        return text

    def add_members(self, text: Text) -> None:
        """Add the other members of the file to its text."""

    def repeated(self) -> None:
        """Delay the response to a repeated request until its first write is on disk."""
        self._effects.persist_unsaved(self.persist_name)


class Config(Protocol):
    """The settings in one row."""

    @property
    def name(self) -> str:
        """Name of the row."""

    def to_json(self) -> dict[str, object]:
        """Return the fields by Java's names."""


C = TypeVar("C", bound=Config)


@mypyc_attr(allow_interpreted_subclasses=True)
class ConfigTable(RowTable, Generic[C]):
    """A table of settings by name: topics or consumer groups."""

    def __init__(self, persist_name: str, effects: Effects, now: int, most: int) -> None:
        """`most`: maximum number of rows."""
        super().__init__(persist_name, effects, now)
        self.table: dict[str, C] = {}
        self._most: int = most
        self._rows: Rows = self.add_rows(self._row)

    def _row(self, name: str) -> bytes:
        config = self.table.get(name)
        return b"" if config is None else msgspec.json.encode(config.to_json())

    def rows_of(self, names: Iterable[str]) -> list[bytes]:
        """Return these rows, encoded."""
        return self._rows.some(names)

    def encode(self) -> bytes:
        """Return the file's text: one line per row."""
        self._rows.follow(self.table)
        return super().encode()

    def take(self, configs: Iterable[C]) -> int:
        """Apply these rows of the master, and call `taken` with each that differs. Return how many exceeded the
        limit."""
        left_out = 0
        for config in configs:
            known = self.table.get(config.name)
            if known is not None and known.to_json() == config.to_json():
                continue
            if known is None and len(self.table) >= self._most:
                left_out += 1
                continue
            self.table[config.name] = config
            self._rows.touch(config.name)
            self.taken(config)
        return left_out

    def taken(self, config: C) -> None:
        """Called with each row of the master that was new or different here."""

    def take_version(self, gone: Iterable[str], version: Mapping[str, Any]) -> None:
        """Remove these rows, which the master lacks, and adopt its version. Raises `ValueError` and `TypeError` for an
        invalid version."""
        for name in gone:
            del self.table[name]
            self._rows.touch(name)
        self.data_version.assign(version)
        self._effects.persist(self.persist_name)
