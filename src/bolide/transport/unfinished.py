"""Limits the memory for incomplete frames of all connections of one node.

A PROXY preamble, and the handshake and records of TLS, are treated as part of the frame that they precede or contain. A
frame normally arrives within a short time; one that stays incomplete belongs to a stalled peer. So the connection with
the oldest incomplete frame is closed if the limit is exceeded, and any connection whose frame takes too long. Compiled
by mypyc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final


@final
class Unfinished:
    """The limits of one node, over all its ports. `limit` is in bytes; `seconds` is the time allowed for one frame."""

    def __init__(self, limit: int, seconds: float, clock: Callable[[], float]) -> None:
        self.limit: int = limit
        self.seconds: float = seconds
        self.size: int = 0
        """Number of bytes stored now."""
        self._clock: Callable[[], float] = clock
        self._frames: dict[Any, tuple[int, float]] = {}
        """Connection -> (bytes, time when its frame started), the oldest frame first."""

    def note(self, connection: Any, size: int, begins: bool) -> None:
        """Record the bytes that a connection stores of an incomplete frame; `begins` is whether the frame is new."""
        known = self._frames.get(connection)
        began = -1.0
        if known is not None:
            self.size -= known[0]
            began = known[1]
            if begins or size == 0:
                del self._frames[connection]
                began = -1.0
        if size == 0:
            return
        self.size += size
        self._frames[connection] = (size, began if began >= 0.0 else self._clock())
        while self.size > self.limit:
            text = f"peers have sent {self.size} bytes of unfinished frames: maxUnfinishedBytes allows {self.limit}"
            self._cut_off_oldest(text)

    def close_late(self) -> None:
        """Close the connections whose frames have taken too long."""
        latest = self._clock() - self.seconds
        while self._frames and next(iter(self._frames.values()))[1] <= latest:
            self._cut_off_oldest(
                f"a frame or a handshake did not arrive whole within {self.seconds:g} s: maxFrameSeconds"
            )

    def _cut_off_oldest(self, text: str) -> None:
        oldest = next(iter(self._frames))
        self.size -= self._frames.pop(oldest)[0]
        oldest.cut_off(text)
