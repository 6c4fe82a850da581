"""Plans the tasks that write files from the parts of a log: bundles of queues, and pieces of index files."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bolide.layout.index_file import HEADER_SIZE, decode_index_header
from bolide.spark.dispatch.derived_files import QueueTask
from bolide.spark.dispatch.dispatch_parts import RUN, PartFiles, PartSummary
from bolide.spark.dispatch.dispatch_state import DerivedState, QueueEnd
from bolide.spark.dispatch.index_pieces import IndexPiece, plan_index
from bolide.store.disk.files import RealFiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.shape import StoreShape

_FILE_COST: Final = 10_000
"""Cost of a file, expressed in units."""


@dataclass
class WriteTask:
    """A task of the second stage: a piece of an index file, or queues."""

    piece: IndexPiece | None = None
    queues: list[QueueTask] = field(default_factory=list)

    @property
    def files(self) -> int:
        """Number of files, the unit of progress."""
        return self.piece.files if self.piece is not None else len(self.queues)


def bundles(parts: Sequence[PartSummary], ends: dict[tuple[str, int], QueueEnd], count: int) -> list[WriteTask]:
    """Return all queues of the parts in `count` tasks of about equal cost."""
    queues = queue_tasks(parts, ends)
    made = [WriteTask() for _ in range(min(len(queues), count))]
    lightest = [(0, number) for number in range(len(made))]
    for queue in sorted(queues, key=lambda queue: -queue.units):
        weight, number = heapq.heappop(lightest)
        made[number].queues.append(queue)
        heapq.heappush(lightest, (weight + _FILE_COST + queue.units, number))
    return made


def queue_tasks(parts: Sequence[PartSummary], ends: dict[tuple[str, int], QueueEnd]) -> list[QueueTask]:
    """Return the runs of each queue in log order. Sorts once for any number of queues and parts."""
    topics: dict[str, int] = {}
    tables = []
    for number, part in enumerate(parts):
        of_part = [topics.setdefault(topic, len(topics)) for topic in part.topics]
        table = np.empty(len(part.runs), [*RUN.descr, ("part", "i8")])
        for name in RUN.names or ():
            table[name] = part.runs[name]
        if len(table):
            table["topic"] = np.array(of_part, np.int64)[part.runs["topic"]]
        table["part"] = number
        tables.append(table)
    runs: NDArray[Any] = np.concatenate(tables) if tables else np.empty(0, [*RUN.descr, ("part", "i8")])
    runs = runs[np.lexsort((runs["part"], runs["queue_id"], runs["topic"]))]
    key = runs[["topic", "queue_id"]]
    cuts = np.flatnonzero(key[1:] != key[:-1]) + 1
    names = list(topics)
    found = []
    places = runs[["part", "first", "count", "begin"]]
    for group in np.split(np.arange(len(runs)), cuts) if len(runs) else []:
        topic, queue_id = names[int(runs["topic"][group[0]])], int(runs["queue_id"][group[0]])
        rows = np.array(places[group].tolist(), [("part", "i8"), ("first", "i8"), ("count", "i8"), ("begin", "i8")])
        found.append(QueueTask(topic, queue_id, rows, ends.get((topic, queue_id))))
    return found


def index_names(parts: Sequence[PartSummary], files: PartFiles, state: DerivedState, shape: StoreShape) -> list[str]:
    """Return the names of all index files: the local time of their first entry, in strictly ascending order.

    A broker uses the time at which it creates a file, which no file contains. A record after a full file starts the
    next one, even without keys. Such a file has no entry yet, and gets its name with its first entry.
    """
    most = shape.index_entries - 1
    total = state.entries + files.entries
    last = max((part.last_offset for part in parts), default=-1)
    last_entry = max([state.last_entry_offset, *(part.last_entry_offset for part in parts)])
    whole, rest = divmod(total, most)
    count = whole + (1 if rest or max(last, state.last_offset) > last_entry else 0)
    # The last existing file keeps its name unless it has no entry.
    names = state.index[: -(-state.entries // most)]
    for number in range(len(names), count):
        first = number * most - state.entries
        one = files.index_entries(first, first + 1)
        newest = max([state.last_timestamp, *(part.last_timestamp for part in parts)])
        name = RealFiles().local_time(int(one.times[0]) if len(one.times) else newest)
        names.append(name if not names or name > names[-1] else str(int(names[-1]) + 1).zfill(len(name)))
    return names


def index_tasks(
    files: PartFiles, state: DerivedState, names: Sequence[str], root: str, shape: StoreShape, pieces: int
) -> list[WriteTask]:
    """Return the pieces of the index files that the parts extend."""
    most = shape.index_entries - 1
    first = state.entries // most
    begin = (state.last_entry_timestamp, max(state.last_entry_offset, 0))
    if state.entries % most:
        if not files.entries:
            return []
        with open(f"{root}/index/{names[first]}", "rb") as file:
            header = decode_index_header(file.read(HEADER_SIZE))
        begin = (int(header.begin_timestamp), int(header.begin_physical_offset))
    found = plan_index(files, state.entries, names[first:], begin, shape, pieces)
    return [WriteTask(piece=piece) for piece in found]


def next_state(
    parts: Sequence[PartSummary],
    files: PartFiles,
    state: DerivedState,
    names: Sequence[str],
    ends: dict[tuple[str, int], QueueEnd],
    shape: StoreShape,
) -> DerivedState:
    """Return the state after writing the parts, with the new ends of queues."""
    added = files.entries
    total = state.entries + added
    newest = files.index_entries(added - 1, added) if added else None
    most = shape.index_entries - 1
    full = state.full_timestamp
    if total // most > state.entries // most:
        at = total // most * most - state.entries
        full = int(files.index_entries(at - 1, at).times[0])
    last = max(parts, key=lambda part: part.last_offset, default=None)
    moved = last is not None and last.records > 0
    return DerivedState(
        end_offset=max([state.end_offset, *(part.end_offset for part in parts)]),
        last_offset=last.last_offset if last is not None and moved else state.last_offset,
        last_timestamp=last.last_timestamp if last is not None and moved else state.last_timestamp,
        entries=total,
        last_entry_offset=state.last_entry_offset if newest is None else int(newest.offsets[0]),
        last_entry_timestamp=state.last_entry_timestamp if newest is None else int(newest.times[0]),
        full_timestamp=full,
        index=list(names),
        queues={**state.queues, **ends},
    )
