"""Stores tables as files: config/<name>.json is written atomically off the loop. Its .bak is loaded if the file is
unreadable or does not match its checksum (`table_sums`).

Corresponds to RocketMQ's ConfigManager. docs/protocol/store.md 10 lists the rules of writing and loading.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Mapping
from concurrent.futures import Executor as Pool
from functools import partial
from typing import Final

from bolide.broker.core.rows import Text
from bolide.broker.core.service import Table
from bolide.broker.core.stats import Durations
from bolide.node.loop.table_sums import TableSums
from bolide.store.disk.files import Files
from bolide.store.errors import StoreDamaged
from bolide.world.real import THE_WORLD

STEP_S: Final = 0.003
"""Maximum time the loop encodes a table before it serves its sockets again."""
ROWS_AT_ONCE: Final = 16
FIRST_PAUSE_S: Final = 0.5
LAST_PAUSE_S: Final = 10.0
"""Pause before the first retry of a failed write, and the maximum pause. The pause doubles with each retry."""
log = logging.getLogger("bolide.persist")


class PersistWaiter:
    """Calls `then(error)` once `tables` tables are written or have failed. `error` is "" on success."""

    def __init__(self, tables: int, then: Callable[[str], None]) -> None:
        self._left = tables
        self._errors: list[str] = []
        self._then = then
        if not tables:
            then("")

    def written(self, error: str) -> None:
        """Record that one table was written, or why it could not be."""
        self._left -= 1
        if error:
            self._errors.append(error)
        if not self._left:
            self._then("; ".join(self._errors))


def load_reason(table: Table, data: bytes) -> str:
    """Load stored content into a table. Return the reason of a failure, or ""."""
    if not data.strip(b"\0 \r\n\t"):
        return "it is empty"
    try:
        table.load(data)
    except Exception as error:  # whatever is wrong with the bytes, the older copy may be good
        return f"{type(error).__name__}: {error}"
    return ""


class ConfigFiles:
    """The config/ folder of one store. `tables`: `Services.persisted`."""

    def __init__(
        self,
        files: Files,
        folder: str,
        tables: Mapping[str, Table],
        soon: Callable[[Callable[[], None]], object],
        later: Callable[[float, Callable[[], None]], object] | None = None,
        clock: Callable[[], float] = THE_WORLD.monotonic,
    ) -> None:
        """`soon` calls on the loop from any thread, `later` after a delay in seconds. Without `later` failed writes are
        not retried."""
        self._clock = clock
        self._later = later if later is not None else lambda pause, then: None
        self._pauses: dict[str, float] = {}
        self._said: dict[str, str] = {}
        self._stopped = False
        self._files = files
        self._sums = TableSums(files)
        self._folder = folder
        self._tables = tables
        self._soon = soon
        self._writing: dict[str, list[PersistWaiter]] = {}
        self._again: dict[str, list[PersistWaiter]] = {}
        self._began: dict[str, float] = {}
        self.writes: Durations = Durations()
        """Durations of successful table writes, from the change to the file."""
        self.failed_writes: int = 0
        self.damaged: int = 0
        """Number of tables that `load` read from their .bak, because the file was unreadable or did not match its
        checksum."""

    def path(self, name: str) -> str:
        """Return the path of a table's file."""
        return f"{self._folder}/{name}.json"

    def load(self) -> list[str]:
        """Load every table from its file, or from its .bak if the file is unreadable. Return the loaded names.

        Raises `StoreDamaged` for a table that exists and cannot be read: starting empty would overwrite it.
        """
        self._files.make_dir(self._folder)
        # Without a durable name, the folder and all its tables would be lost in a power failure.
        self._files.sync_dir(posixpath.dirname(self._folder))
        loaded = []
        for name, table in self._tables.items():
            older = table.persisted_before
            if self._load(name, table) or (older and self._load(older, table)):
                loaded.append(name)
        return loaded

    def _load(self, name: str, table: Table) -> bool:
        """Load a table from its file or its .bak. Return False if neither exists."""
        path = self.path(name)
        wrong = ""
        for candidate in (path, path + ".bak"):
            data = self._files.read_file(candidate)
            if data is None:
                continue
            reason = self._sums.mismatch(path, data) or load_reason(table, data)
            if not reason:
                if wrong:
                    self.damaged += 1
                    log.warning("%s: %s is used, the copy before it", wrong, candidate)
                return True
            wrong += f"{' and ' if wrong else ''}{candidate} cannot be read ({reason})"
        if wrong:
            raise StoreDamaged(f"{wrong}: replace it with an intact copy, or move it away to start without its content")
        return False

    def write(self, names: set[str], pool: Pool, then: Callable[[str], None]) -> None:
        """Write the current content of these tables in the pool, then call `then(error)` on the loop. `error` is "" on
        success.

        A table that changes during its write is rewritten once for all changes. A failed write is retried until it
        succeeds.
        """
        known = [name for name in sorted(names) if name in self._tables]
        for name in sorted(names.difference(known)):
            log.warning("no table is named %r: not writing", name)
        waiting = PersistWaiter(len(known), then)
        for name in known:
            if name in self._writing:
                self._again.setdefault(name, []).append(waiting)
            else:
                self._start(name, [waiting], pool)

    def stop(self) -> None:
        """Start no more writes. The pool is about to close, and `write_all_now` writes the rest."""
        self._stopped = True

    def write_now(self, name: str) -> None:
        """Write a table and wait for the disk. Used at startup. Raises `FileFailed`."""
        self._sums.write(self.path(name), self._tables[name].encode())

    def write_all_now(self) -> None:
        """Write every changed table and wait for the disk. Used at shutdown, after the pool is closed."""
        for name, table in self._tables.items():
            try:
                if data := table.encode():
                    self._sums.write(self.path(name), data)
            except Exception as error:  # the next table must still be written
                log.error("%s could not be written: %s", self.path(name), error)

    def _start(self, name: str, waiting: list[PersistWaiter], pool: Pool) -> None:
        self._writing[name] = waiting
        self._began[name] = self._clock()
        self._tables[name].begin()
        self._encode(name, pool)

    def _encode(self, name: str, pool: Pool) -> None:
        """Encode changes in steps of one per turn, so that a long table does not block the loop."""
        try:
            content = self._encoded(self._tables[name])
        except Exception as raised:  # reported to the waiters
            error = f"{self.path(name)} could not be encoded: {type(raised).__name__}: {raised}"
            self._soon(lambda: self._written(name, error, pool))
            return
        if content is None:
            self._soon(partial(self._encode, name, pool))
        else:
            self._submit(name, pool, content)

    def _encoded(self, table: Table) -> bytes | Text | None:
        """Return the text of a table, or None if it needs another step."""
        end = self._clock() + STEP_S
        while not table.step(ROWS_AT_ONCE):
            if self._clock() >= end:
                return None
        return table.text()

    def _submit(self, name: str, pool: Pool, content: bytes | Text) -> None:
        if not self._stopped:
            pool.submit(self._write_one, name, content, pool)

    def _write_one(self, name: str, content: bytes | Text, pool: Pool) -> None:
        error = ""
        try:
            self._sums.write(self.path(name), content if isinstance(content, bytes) else content.join())
        except Exception as raised:  # reported to the waiters
            error = f"{self.path(name)} could not be written: {raised}"
        try:
            self._soon(lambda: self._written(name, error, pool))
        except RuntimeError:
            return  # the loop is closed: the shutdown writes every table itself

    def _written(self, name: str, error: str, pool: Pool) -> None:
        began = self._began.pop(name)
        if not error:
            self._tables[name].written()
            self.writes.add(int((self._clock() - began) * 1000))
        else:
            self.failed_writes += 1
        self._tell(name, error)
        for waiting in self._writing.pop(name):
            waiting.written(error)
        again = self._again.pop(name, None)
        if again is not None:
            self._start(name, again, pool)
        elif error:
            pause = min(self._pauses.get(name, FIRST_PAUSE_S / 2) * 2, LAST_PAUSE_S)
            self._pauses[name] = pause
            self._later(pause, partial(self._try_again, name, pool))

    def _tell(self, name: str, error: str) -> None:
        """Log once when a table cannot be written, and once when it can again."""
        before = self._said.pop(name, "")
        if error:
            self._said[name] = error
            if error != before:
                log.error("%s; retrying until it succeeds", error)
        elif before:
            self._pauses.pop(name, None)
            log.info("%s was written: the earlier error is resolved", self.path(name))

    def _try_again(self, name: str, pool: Pool) -> None:
        if name in self._said and name not in self._writing and not self._stopped:
            self._start(name, [], pool)
