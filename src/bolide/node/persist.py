"""The tables kept as files: config/<name>.json written atomically off the loop, its .bak read when it cannot be.

RocketMQ's ConfigManager; write and load rules in protocol/store.md 10.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from typing import Any

from bolide.store.files import Files

log = logging.getLogger("bolide.persist")


class ConfigFiles:
    """The config/ folder of one store. `tables` is what `Services.persisted` found."""

    def __init__(self, files: Files, folder: str, tables: dict[str, Any], soon: Callable[[Callable[[], None]], object]):
        self._files = files
        self._folder = folder
        self._tables = tables
        self._soon = soon
        self._writing: set[str] = set()
        self._again: set[str] = set()

    def path(self, name: str) -> str:
        """The file of a table."""
        return f"{self._folder}/{name}.json"

    def load(self) -> list[str]:
        """Give every table its stored content; returns the names read. An unreadable file falls back to its .bak."""
        self._files.make_dir(self._folder)
        loaded = []
        for name, table in self._tables.items():
            older = getattr(table, "persisted_before", "")
            for path in (self.path(name), self.path(name) + ".bak", *([self.path(older)] if older else [])):
                data = self._files.read_file(path)
                if not data or not data.strip(b"\0 \r\n\t"):
                    continue
                try:
                    table.load(data)
                except Exception as error:  # whatever is wrong with the bytes, the older copy may be right
                    log.warning(
                        "%s cannot be read (%s: %s): trying the copy before it", path, type(error).__name__, error
                    )
                    continue
                loaded.append(name)
                break
        return loaded

    def write(self, names: set[str], pool: Pool) -> None:
        """Write these tables in the pool. A table that changes while it is written is written once more."""
        for name in names:
            if name not in self._tables:
                log.warning("no table is named %r: nothing was written", name)
            elif name in self._writing:
                self._again.add(name)
            else:
                self._writing.add(name)
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
        try:
            self._files.write_file(self.path(name), data)
        except Exception as error:  # nobody waits for this result
            log.error("%s could not be written: %s", self.path(name), error)
        try:
            self._soon(lambda: self._written(name, pool))
        except RuntimeError:
            self._writing.discard(name)  # the loop is closed: the shutdown writes every table itself

    def _written(self, name: str, pool: Pool) -> None:
        self._writing.discard(name)
        if name in self._again:
            self._again.discard(name)
            self.write({name}, pool)
