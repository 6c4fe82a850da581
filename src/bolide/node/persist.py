"""The tables kept as files: config/<name>.json written atomically off the loop, its .bak read when it cannot be.

RocketMQ's ConfigManager; write and load rules in protocol/store.md 10.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from typing import Any

from bolide.store.errors import StoreDamaged
from bolide.store.files import Files

log = logging.getLogger("bolide.persist")


class Waiting:
    """Somebody who wants to know when so many tables are on disk."""

    def __init__(self, tables: int, then: Callable[[str], None]) -> None:
        self._left = tables
        self._errors: list[str] = []
        self._then = then
        if not tables:
            then("")

    def written(self, error: str) -> None:
        """One of them is; or is not."""
        self._left -= 1
        if error:
            self._errors.append(error)
        if not self._left:
            self._then("; ".join(self._errors))


def load_reason(table: Any, data: bytes) -> str:
    """Give a table its stored content; why it could not take it, "" when it did."""
    if not data.strip(b"\0 \r\n\t"):
        return "it is empty"
    try:
        table.load(data)
    except Exception as error:  # whatever is wrong with the bytes, the older copy may be right
        return f"{type(error).__name__}: {error}"
    return ""


class ConfigFiles:
    """The config/ folder of one store. `tables` is what `Services.persisted` found."""

    def __init__(self, files: Files, folder: str, tables: dict[str, Any], soon: Callable[[Callable[[], None]], object]):
        self._files = files
        self._folder = folder
        self._tables = tables
        self._soon = soon
        self._writing: dict[str, list[Waiting]] = {}
        self._again: dict[str, list[Waiting]] = {}

    def path(self, name: str) -> str:
        """The file of a table."""
        return f"{self._folder}/{name}.json"

    def load(self) -> list[str]:
        """Give every table its stored content; returns the names read. An unreadable file falls back to its .bak.

        Raises `StoreDamaged` for a table that is there and cannot be read: one that began empty would be written over
        it.
        """
        self._files.make_dir(self._folder)
        # A folder whose own name is not on disk is gone after a power cut, with every table in it.
        self._files.sync_dir(posixpath.dirname(self._folder))
        loaded = []
        for name, table in self._tables.items():
            older = getattr(table, "persisted_before", "")
            if self._load(name, table) or (older and self._load(older, table)):
                loaded.append(name)
        return loaded

    def _load(self, name: str, table: Any) -> bool:
        """False when there is no such file."""
        path = self.path(name)
        wrong = ""
        for candidate in (path, path + ".bak"):
            data = self._files.read_file(candidate)
            if data is None:
                continue
            reason = load_reason(table, data)
            if not reason:
                if wrong:
                    log.warning("%s: %s is used, the copy before it", wrong, candidate)
                return True
            wrong += f"{' and ' if wrong else ''}{candidate} cannot be read ({reason})"
        if wrong:
            raise StoreDamaged(f"{wrong}: put a good copy in its place, or move it away to start without what it holds")
        return False

    def write(self, names: set[str], pool: Pool, then: Callable[[str], None]) -> None:
        """Write these tables in the pool as they are now, then call `then(error)` on the loop; "" when all are on disk.

        A table that changes while it is written is written once more.
        """
        known = [name for name in names if name in self._tables]
        for name in names.difference(known):
            log.warning("no table is named %r: nothing was written", name)
        waiting = Waiting(len(known), then)
        for name in known:
            if name in self._writing:
                self._again.setdefault(name, []).append(waiting)
            else:
                self._start(name, [waiting], pool)

    def _start(self, name: str, waiting: list[Waiting], pool: Pool) -> None:
        self._writing[name] = waiting
        pool.submit(self._write_one, name, self._tables[name].encode(), pool)

    def write_all_now(self) -> None:
        """Write every table that has something to say, waiting for each: at shutdown, after the pool is closed."""
        for name, table in self._tables.items():
            try:
                if data := table.encode():
                    self._files.write_file(self.path(name), data)
            except Exception as error:  # the next table must still be written
                log.error("%s could not be written: %s", self.path(name), error)

    def _write_one(self, name: str, data: bytes, pool: Pool) -> None:
        error = ""
        try:
            self._files.write_file(self.path(name), data)
        except Exception as raised:  # those who wait are told
            error = f"{self.path(name)} could not be written: {raised}"
            log.error("%s", error)
        try:
            self._soon(lambda: self._written(name, error, pool))
        except RuntimeError:
            return  # the loop is closed: the shutdown writes every table itself

    def _written(self, name: str, error: str, pool: Pool) -> None:
        for waiting in self._writing.pop(name):
            waiting.written(error)
        again = self._again.pop(name, None)
        if again is not None:
            self._start(name, again, pool)
