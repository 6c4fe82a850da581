"""How much one callback of an event loop does, in units that a seed repeats: calls to the disk, and bytes.

What a turn takes on a real machine differs from run to run; these counts do not, and a callback that does more the more
is stored or waits shows in them. `Held` counts what a node keeps in memory for others, where the node knows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bolide.node.broker import BrokerNode

if TYPE_CHECKING:
    from proof.simulation.process import Process


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


@dataclass(frozen=True)
class Held:
    """What a broker keeps in memory for its peers now."""

    connections: int
    pulls: int
    answers: int
    """Sends that wait for the log."""
    unsent_bytes: int
    """Written to connections, and not taken by their kernel: the peers do not read."""
    most_unsent_bytes: int
    """The same, of the connection with the most."""

    @classmethod
    def of(cls, process: Process, node: BrokerNode) -> Held:
        """Count it."""
        channels = node.connections.channels.values()
        unsent = [end.get_write_buffer_size() for end in process.ends]
        return cls(
            connections=len(channels),
            pulls=sum(int(channel.held) for channel in channels),
            answers=int(node.waiting_sends),
            unsent_bytes=sum(unsent),
            most_unsent_bytes=max(unsent, default=0),
        )
