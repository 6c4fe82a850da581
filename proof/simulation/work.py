"""How much one callback of an event loop does, in units that a seed repeats: calls to the disk, and bytes.

What a turn takes on a real machine differs from run to run; these counts do not, and a callback that does more the more
is stored or waits shows in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Most:
    """The largest count of one kind, and what ran then."""

    count: int = 0
    callback: str = ""

    def __str__(self) -> str:
        return f"{self.count} in {self.callback}"


class Work:
    """The work of one process on its loop; jobs of its threads do not count."""

    def __init__(self) -> None:
        self.start_again()

    def start_again(self) -> None:
        """Count from here on: a node that starts reads its whole store in one callback, before it serves anyone."""
        self.counts = True
        """False once a node stops: it writes its tables then, however long that takes."""
        self.calls = Most()
        """Calls to the disk in one callback."""
        self.disk_bytes = Most()
        """Bytes that they wrote or asked for."""
        self.socket_bytes = Most()
        """Bytes that one callback received and sent."""
        self._calls = self._disk_bytes = self._socket_bytes = 0

    def disk(self, size: int) -> None:
        """The loop makes a call to the disk."""
        self._calls += 1
        self._disk_bytes += size

    def socket(self, size: int) -> None:
        """The loop receives or sends bytes."""
        self._socket_bytes += size

    def ended(self, handle: Any) -> None:
        """A callback has returned; `handle` is the loop's."""
        if self._calls == self._socket_bytes == 0 or not self.counts:
            return
        if self._calls > self.calls.count:
            self.calls = Most(self._calls, name_of(handle._callback))
        if self._disk_bytes > self.disk_bytes.count:
            self.disk_bytes = Most(self._disk_bytes, name_of(handle._callback))
        if self._socket_bytes > self.socket_bytes.count:
            self.socket_bytes = Most(self._socket_bytes, name_of(handle._callback))
        self._calls = self._disk_bytes = self._socket_bytes = 0

    def __str__(self) -> str:
        return (
            f"most disk calls: {self.calls}; most bytes of the disk: {self.disk_bytes}; "
            f"most bytes of sockets: {self.socket_bytes}"
        )


def name_of(callback: Any) -> str:
    """What a callback is called: a function, a method with its class, or the coroutine of a task."""
    while hasattr(callback, "func"):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    coroutine = getattr(owner, "get_coro", None)
    if coroutine is not None:
        return str(getattr(coroutine(), "__qualname__", "a task"))
    name = str(getattr(callback, "__qualname__", None) or getattr(callback, "__name__", "a callback"))
    return name if "." in name or owner is None else f"{type(owner).__name__}.{name}"
