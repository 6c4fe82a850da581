"""Progress of all delay levels, as stored in config/delayOffset.json (docs/protocol/store.md 10)."""

from __future__ import annotations

from typing import Any, Final, final

from bolide.broker.core.data_version import DataVersion
from bolide.broker.delay.damaged_delays import MOST, DamagedDelays
from bolide.broker.delay.delay_level import Level
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.json import parse_long

_DAMAGED: Final = "bolideDamaged"


def _places(stored: Any) -> list[tuple[int, int]]:
    """Return the positions of damaged records. Raises `ValueError` if they are invalid or too many."""
    told = [(int(offset), int(size)) for offset, size in stored.get(_DAMAGED) or ()]
    if len(told) > 2 * MOST or not all(0 <= offset < 1 << 62 and 0 < size < 1 << 31 for offset, size in told):
        raise ValueError(f"{_DAMAGED} has {len(told)} entries that are not all [offset, size] of a record")
    return told


@final
class DelayProgress:
    """The delay levels, and the offset of each level in the file."""

    def __init__(self, levels: list[Level], damaged: DamagedDelays, start: int) -> None:
        """The file also contains the positions of `damaged`."""
        self._damaged: DamagedDelays = damaged
        self.levels: list[Level] = levels
        self.persisted: list[int] = [0] * len(levels)
        self._version: DataVersion = DataVersion(start, 0, 0)

    def encode(self) -> bytes:
        """Return the file's text, with the confirmed offset of each level."""
        table = {str(level.level): level.progress.confirmed for level in self.levels if level.progress.confirmed > 0}
        told: dict[str, Any] = {"dataVersion": self._version.to_json(), "offsetTable": table}
        if self._damaged.count:  # RocketMQ ignores it
            told[_DAMAGED] = self._damaged.places()
        return encode_body(told)

    def load(self, data: bytes) -> bool:
        """Load a delayOffset.json written by Java or Bolide. Return whether the damaged positions differ."""
        stored: Any = parse_long(data)
        offsets = {int(key) - 1: int(offset) for key, offset in (stored.get("offsetTable") or {}).items()}
        places = _places(stored)
        # The last step that can fail; nothing is changed before it.
        self._version.assign(stored.get("dataVersion") or {})
        for index, offset in offsets.items():
            if 0 <= index < len(self.levels):
                self.levels[index].progress.reset(offset)
                self.persisted[index] = offset
        return self._damaged.take(places)

    def take_back(self, data: bytes) -> None:
        """Apply the progress of an acting slave (45). An offset never moves back, nor past the end of its queue."""
        stored: Any = parse_long(data)
        for key, offset in (stored.get("offsetTable") or {}).items():
            index = int(key) - 1
            if 0 <= index < len(self.levels):
                level = self.levels[index]
                told = min(int(offset), level.end)
                if told > level.offset:
                    level.progress.reset(told)
        self._damaged.take_more(_places(stored))

    def cut(self, now: int) -> bool:
        """Clamp progress to the ends of queues. Return whether any changed."""
        found = False
        for index, level in enumerate(self.levels):
            if level.offset > level.end:
                level.progress.reset(level.end)
                self.persisted[index] = level.offset
                found = True
        if found:
            self._version.next(now)
        return found

    def changed(self, now: int) -> bool:
        """Mark the confirmed offsets as persisted. Return True if one has changed, so that the file must be written."""
        progress = [level.progress.confirmed for level in self.levels]
        if progress == self.persisted:
            return False
        self.persisted = progress
        self._version.next(now)
        return True
