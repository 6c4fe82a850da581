"""What Spark stores of a stream's progress: how far each queue was read, and the last message read from it.

The JSON form is `{"queues": {topic: {broker: {queue: next offset}}}}`. Instead of the innermost object, a list has the
offsets of more than `MANY` queues, by queue id: it takes half the space. Spark stores only the end of a batch, and asks
again for the start of the first batch when it repeats it. An end therefore also contains, under `from`, where queues
begin that are new in the batch: the rows of a batch follow from its two offsets alone. `last` has the last messages
(`marks`).
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
    """The start or the end of a batch."""

    reached: Offsets
    """Next offset of each queue. Also contains queues that the options no longer select."""
    marks: Marks = field(default_factory=dict)
    """The messages before `reached`."""
    begins: Offsets = field(default_factory=dict)
    """Where the batch that ends here begins in queues whose begin its start may not contain."""
    initial: bool = False

    def to_json(self) -> dict[str, Any]:
        """The form in which Spark stores it."""
        found: dict[str, Any] = {INITIAL: True} if self.initial else {}
        found |= {_QUEUES: _short(self.reached), LAST: marks_to_json(self.marks)}
        if self.begins:
            found[_FROM] = _short(self.begins)
        return found


def read_offset(offset: Mapping[str, Any]) -> StreamOffset:
    """The offset that Spark stored. Raises OptionError if another source wrote it."""
    if _QUEUES not in offset:
        raise OptionError(FOREIGN_CHECKPOINT)
    reached, begins = (from_json(_long(offset.get(part, {})), _WHERE) for part in (_QUEUES, _FROM))
    return StreamOffset(reached, marks_of(offset), begins, INITIAL in offset)


def newest_json(newest: Offsets) -> dict[str, Any]:
    """The newest offsets as a query's progress shows them."""
    return {_QUEUES: _short(newest)}


def begins_of(start: StreamOffset, end: StreamOffset) -> Offsets:
    """Where the batch between two offsets begins, for each queue of its end."""
    # When a batch is repeated, Spark asks again for an initial start, so that one says nothing.
    known = {**({} if start.initial else start.reached), **end.begins}
    return {queue: known.get(queue, offset) for queue, offset in end.reached.items()}


def _short(offsets: Offsets) -> dict[str, Any]:
    """The JSON form."""
    return {
        topic: {broker: _listed(queues) for broker, queues in brokers.items()}
        for topic, brokers in to_json(offsets).items()
    }


def _listed(queues: dict[str, int]) -> dict[str, int] | list[int]:
    """The offsets of one broker; a list if its queue ids are 0, 1, 2 and so on."""
    # The ids are in ascending order, each once, so the last one says whether any is missing.
    return list(queues.values()) if len(queues) > MANY and [*queues][-1] == str(len(queues) - 1) else queues


def _long(nested: Any) -> Any:
    """The form of `to_json`, made from the JSON form. Leaves what is neither as it is, for `from_json` to reject."""
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
