"""The state of the derived files of a store: the positions for the next records, and the values of the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bolide.layout.checkpoint import Checkpoint
from bolide.spark.errors import OptionError

if TYPE_CHECKING:
    from bolide.layout.shape import StoreShape
    from bolide.spark.dispatch.bitmaps import TopicFilter


@dataclass(frozen=True)
class QueueEnd:
    """One queue: the first byte of its files in the stream, the queue offset after its last unit, and the number of its
    extension units."""

    start: int
    units: int
    ext: int = 0


@dataclass
class DerivedState:
    """Physical offsets and store times in ms of the dispatched records; -1 and 0 without records."""

    end_offset: int = -1
    """Physical offset after the last processed byte of the log."""
    last_offset: int = -1
    last_timestamp: int = 0
    entries: int = 0
    """Number of index entries in all files."""
    last_entry_offset: int = -1
    last_entry_timestamp: int = 0
    full_timestamp: int = 0
    """Time of the last entry of the last full index file."""
    index: list[str] = field(default_factory=list)
    queues: dict[tuple[str, int], QueueEnd] = field(default_factory=dict)

    def checkpoint(self, shape: StoreShape) -> Checkpoint:
        """Return the checkpoint: queues are durable up to the last record, the index up to its last full file."""
        if self.last_offset < 0:
            return Checkpoint()
        return Checkpoint(
            physic_msg_timestamp=self.last_timestamp,
            logics_msg_timestamp=self.last_timestamp,
            index_msg_timestamp=self.full_timestamp,
            logics_physical_offset=self.last_offset if shape.queue_end_in_checkpoint else 0,
        )

    def inventory(self) -> bytes:
        """Return the inventory for Bolide's broker: the first byte and the end of each queue's files, and the index."""
        table: dict[str, dict[str, list[int]]] = {}
        for (topic, queue_id), end in sorted(self.queues.items()):
            table.setdefault(topic, {})[str(queue_id)] = [end.start, end.units]
        return json.dumps({"queues": table, "index": self.index}).encode()


def encode_state(state: DerivedState, shape: StoreShape, filters: Sequence[TopicFilter]) -> bytes:
    """Return the state as JSON, with the settings that must not change afterwards."""
    kept: dict[str, Any] = {name: value for name, value in vars(state).items() if name != "queues"}
    kept["queues"] = [[*key, end.start, end.units, end.ext] for key, end in state.queues.items()]
    return json.dumps({"shape": asdict(shape), "filters": [asdict(one) for one in filters], "state": kept}).encode()


def decode_state(data: bytes, shape: StoreShape, path: str) -> tuple[DerivedState, tuple[TopicFilter, ...]]:
    """Return the state and the filters in `data`. Raises `OptionError` if the store's shape has changed."""
    from bolide.spark.dispatch.bitmaps import TopicFilter

    found = json.loads(data)
    if found["shape"] != json.loads(json.dumps(asdict(shape))):
        changed = sorted(name for name, value in json.loads(json.dumps(asdict(shape))).items()
                         if found["shape"].get(name) != value)  # fmt: skip
        raise OptionError(
            f"{path} was started with other settings ({', '.join(changed)}): give the same broker.conf as then, or "
            "start again in an empty folder"
        )
    state = dict(found["state"])
    queues = {(topic, queue_id): QueueEnd(*end) for topic, queue_id, *end in state.pop("queues")}
    filters = tuple(TopicFilter(**{**one, "bit_positions": tuple(one["bit_positions"])}) for one in found["filters"])
    return DerivedState(**state, queues=queues), filters
