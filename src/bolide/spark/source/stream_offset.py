"""The progress of a stream that Spark stores: the next offset of each queue, and the last message read from it.

The JSON form is `{"queues": {topic: {broker: {queue: next offset}}}}`. For more than `MANY` queues, a list of offsets
by queue id replaces the innermost object and halves the size. Spark stores only the end of a batch, and requests the
start of the first batch again when it repeats it. An end therefore also contains, under `from`, the start offsets of
queues that are new in the batch, so that the two offsets of a batch determine its rows. `last` contains the last
messages (`marks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bolide.spark.errors import FOREIGN_CHECKPOINT, OptionError
from bolide.spark.older_stream import INITIAL
from bolide.spark.source.marks import LAST, Marks, marks_of, marks_to_json
from bolide.spark.source.queues import Offsets, from_json, to_json

MANY: Final = 64
_QUEUES: Final = "queues"
_FROM: Final = "from"
_WHERE: Final = "the checkpoint"


@dataclass(frozen=True)
class StreamOffset:
    """The start or end of a batch."""

    reached: Offsets
    """Next offset of each queue, including queues that the options no longer select."""
    marks: Marks = field(default_factory=dict)
    """The messages before `reached`."""
    begins: Offsets = field(default_factory=dict)
    """Start offsets of the batch that ends here, for queues that its start may lack."""
    initial: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form for Spark."""
        found: dict[str, Any] = {INITIAL: True} if self.initial else {}
        found |= {_QUEUES: _short(self.reached), LAST: marks_to_json(self.marks)}
        if self.begins:
            found[_FROM] = _short(self.begins)
        return found


def read_offset(offset: Mapping[str, Any]) -> StreamOffset:
    """Parse an offset that Spark stored. Raises `OptionError` if another source wrote it."""
    if _QUEUES not in offset:
        raise OptionError(FOREIGN_CHECKPOINT)
    reached, begins = (from_json(_long(offset.get(part, {})), _WHERE) for part in (_QUEUES, _FROM))
    return StreamOffset(reached, marks_of(offset), begins, INITIAL in offset)


def newest_json(newest: Offsets) -> dict[str, Any]:
    """Return the newest offsets in the form for a query's progress."""
    return {_QUEUES: _short(newest)}


def begins_of(start: StreamOffset, end: StreamOffset) -> Offsets:
    """Return the start offset of the batch between two offsets, for each queue of its end."""
    # Spark requests the initial start again when it repeats a batch, so that start is not reliable.
    known = {**({} if start.initial else start.reached), **end.begins}
    return {queue: known.get(queue, offset) for queue, offset in end.reached.items()}


def _short(offsets: Offsets) -> dict[str, Any]:
    """Return the JSON form of offsets."""
    return {
        topic: {broker: _listed(queues) for broker, queues in brokers.items()}
        for topic, brokers in to_json(offsets).items()
    }


def _listed(queues: dict[str, int]) -> dict[str, int] | list[int]:
    """Return the offsets of a broker, as a list if its queue ids are 0, 1, 2 and so on."""
    # The ids are in ascending order without duplicates, so the last id shows whether any is missing.
    return list(queues.values()) if len(queues) > MANY and [*queues][-1] == str(len(queues) - 1) else queues


def _long(nested: Any) -> Any:
    """Convert the JSON form to the form of `to_json`. Returns invalid values unchanged, for `from_json` to reject."""
    if not isinstance(nested, Mapping):
        return nested
    return {
        topic: {
            broker: {str(number): at for number, at in enumerate(queues)} if isinstance(queues, list) else queues
            for broker, queues in brokers.items()
        }
        if isinstance(brokers, Mapping)
        else brokers
        for topic, brokers in nested.items()
    }
