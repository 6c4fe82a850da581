"""The commit decisions of a query: a folder that outlives the driver, with one file per batch.

The file of a batch lists its half messages. It is created atomically, under a name that can be created only once: a
repeated batch, or an old driver that still runs, must follow the first decision. Half messages are committed only after
that. When all are committed, a short note replaces the file. The committing process holds the lock of the folder. The
kernel releases it when the process ends, so a new driver waits for a committer that is still running.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from bolide.spark.errors import ClusterUnavailable
from bolide.spark.sink.half_handles import Handles
from bolide.spark.source.queues import Offsets, from_json, to_json
from bolide.spark.synced_folders import sync_folder

KEPT: Final = 100
"""Number of files to keep before the newest batch, like Spark (spark.sql.streaming.minBatchesToRetain)."""
SUFFIX: Final = ".batch"
LOCK: Final = "lock"
SWEPT: Final = "swept.json"
LOCK_PAUSE_S: Final = 0.1


@dataclass
class BatchDecision:
    """The half messages of a batch, and the ends of their queues before the first became visible."""

    handles: Handles
    tails: Offsets
    dead: list[str] = field(default_factory=list)
    """Names of the staged files of rejected rows."""
    done: bool = False
    topic: str | None = None
    """The topic of the options of the write, or None if an earlier version wrote the decision."""


@dataclass(frozen=True)
class Swept:
    """Offsets up to which the half queues were swept for abandoned half messages, and the run that did it."""

    run: str
    topics: list[str]
    """Topics that the query has written to. Their routes contain the brokers."""
    ends: dict[str, int]


class BatchLog:
    """The folder of a query. Call methods that write only inside `locked`."""

    def __init__(self, folder: str, query: str) -> None:
        self._folder = Path(folder) / query

    @contextmanager
    def locked(self, patience: float) -> Iterator[BatchLog]:
        """Lock the folder for a commit. Raises `ClusterUnavailable` if another process holds the lock for `patience`
        seconds."""
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            until = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise ClusterUnavailable(
                            f"{self._folder} is locked by another commit of this query: check if two drivers run it"
                        ) from None
                    time.sleep(LOCK_PAUSE_S)
            yield self
        finally:
            os.close(handle)  # releases the lock

    def decided(self, batch: int) -> BatchDecision | None:
        """Return the decision for a batch, or None."""
        try:
            data = (self._folder / f"{batch}{SUFFIX}").read_bytes()
        except FileNotFoundError:
            return None
        value: dict[str, Any] = msgspec.msgpack.decode(data)
        tails = from_json(value["tails"], "the log of batches")
        return BatchDecision(Handles.unpack(value["halves"]), tails, value["dead"], value["done"], value.get("topic"))

    def decide(self, batch: int, decision: BatchDecision) -> bool:
        """Record the decision for a batch. Returns False if there is an earlier one, which then remains valid."""
        target = self._folder / f"{batch}{SUFFIX}"
        staged = self._write(decision, batch)
        try:
            # A crash before this line leaves an unused staged file. After it, the decision is valid.
            os.link(staged, target)
        except FileExistsError:
            return False
        finally:
            staged.unlink()
        sync_folder(self._folder)
        return True

    def finish(self, batch: int, topic: str | None = None) -> None:
        """Record that all messages of a batch are visible, and remove its half messages and old batches. `topic` is the
        decision's."""
        done = self._write(BatchDecision(Handles(), {}, done=True, topic=topic), batch)
        # A crash before this line leaves the decision unchanged: the replay finds all messages visible.
        os.replace(done, self._folder / f"{batch}{SUFFIX}")
        sync_folder(self._folder)
        for old in self._batches():
            if old < batch - KEPT:
                (self._folder / f"{old}{SUFFIX}").unlink(missing_ok=True)

    def swept(self) -> Swept | None:
        """Return the progress of the sweep for abandoned half messages, or None if it is unknown."""
        try:
            value = msgspec.json.decode((self._folder / SWEPT).read_bytes())
            return Swept(value["run"], value["topics"], value["ends"])
        except (FileNotFoundError, msgspec.DecodeError, KeyError):
            return None  # it only saves work: without it, this commit does not sweep

    def note_swept(self, swept: Swept) -> None:
        """Store the progress of the sweep. Does not sync: an older position only makes the next sweep longer."""
        staged = self._folder / f".{SWEPT}.{os.getpid()}"
        staged.write_bytes(msgspec.json.encode(swept))
        os.replace(staged, self._folder / SWEPT)

    def _batches(self) -> list[int]:
        names = (path.name.removesuffix(SUFFIX) for path in self._folder.glob(f"*{SUFFIX}"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _write(self, decision: BatchDecision, batch: int) -> Path:
        staged = self._folder / f".{batch}.{os.getpid()}"
        value = {
            "halves": decision.handles.pack(),
            "tails": to_json(decision.tails),
            "dead": decision.dead,
            "done": decision.done,
            "topic": decision.topic,
        }
        with staged.open("wb") as file:
            file.write(msgspec.msgpack.encode(value))
            file.flush()
            os.fsync(file.fileno())
        return staged


def decided_batches(folder: str) -> frozenset[tuple[str, int]]:
    """Return the newest decided batches of every query in a folder. Tasks need not write them again."""
    found: set[tuple[str, int]] = set()
    try:
        queries = [path for path in Path(folder).iterdir() if path.is_dir()]
    except FileNotFoundError:
        return frozenset()
    for path in queries:
        batches = BatchLog(folder, path.name)._batches()
        found.update((path.name, batch) for batch in batches[-2:])
    return frozenset(found)
