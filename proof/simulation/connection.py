"""One TCP connection: two ends, each with what its kernel and its process hold of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from proof.simulation.link import Link
from proof.simulation.owner import Owner
from proof.simulation.scheduler import Scheduler
from proof.simulation.trace import summary

WINDOW: Final = 256 * 1024
"""Bytes that are under way or wait unread in the kernel of the receiver."""
READ: Final = 256 * 1024
"""Bytes that one call of `data_received` gets at most."""
ACKNOWLEDGED: Final = WINDOW // 4
"""Bytes read since the last acknowledgement that are worth one; nothing else waits for them."""
HIGH: Final = 64 * 1024
GIVE_UP_S: Final = 924.0
"""How long Linux sends the same bytes again (net.ipv4.tcp_retries2 = 15)."""
LONGEST_RETRY_S: Final = 60.0


class Wires(Protocol):
    """The network, for its connections."""

    scheduler: Scheduler

    def link(self, source: str, target: str) -> Link:
        """Return the link from one address to another."""

    def ended(self, connection: Connection) -> None:
        """Drop a connection that neither side has any more."""


class Listening(Protocol):
    """A port that may accept connections."""

    accepted: Callable[[], Any] | None
    """Makes the protocol of a new connection; None while the port accepts none."""


class Connection:
    """`near` is the end that connected, `far` the one that accepted."""

    def __init__(self, network: Wires, number: int, near: Owner, far: Owner, near_port: int, far_port: int) -> None:
        self.number = number
        self.black_holed = False
        self.ips = (near.host.ip, far.host.ip)
        places = (near.host.ip, near_port), (far.host.ip, far_port)
        self.near = End(network, self, near, *places)
        self.far = End(network, self, far, *reversed(places))
        self.near.peer, self.far.peer = self.far, self.near
        self._text = f"#{number} {near.name}:{near_port} to {far.name}:{far_port}"

    def __str__(self) -> str:
        return self._text

    def healed(self) -> None:
        """A link under it works again."""
        for end in (self.near, self.far):
            end.send_again()

    def reset(self) -> None:
        """Something between the two ends it: both are told."""
        for end in (self.near, self.far):
            end.refused(ConnectionResetError(104, "Connection reset by peer"))


class End:
    """A transport of asyncio, with the socket under it."""

    peer: End

    def __init__(
        self, network: Wires, connection: Connection, process: Owner, own: tuple[str, int], other: tuple[str, int]
    ) -> None:
        self.process = process
        self.connection = connection
        self.protocol: Any = None
        self.gone = False
        """The process has closed it, or ended; its kernel answers what still arrives with RST."""
        self.unheard = False
        """Bytes of this end reached nobody."""
        self._network = network
        self._scheduler = network.scheduler
        self._names = {"sockname": own, "peername": other}
        self._link = network.link(own[0], other[0])
        self._window = WINDOW
        self._under_way = 0
        self._read = 0
        self._arrives = 0.0
        self._held_back: deque[tuple[str, bytes, int]] = deque()
        self._held_since = -1.0
        self._out: deque[bytes] = deque()
        self._out_size = 0
        self._high, self._low = HIGH, HIGH // 4
        self._choked = False
        self._closing = False
        self._lost = False
        self._paused = False
        self._inbox: deque[bytes] = deque()
        self._told = False
        self._eof = False
        self._error: OSError | None = None

    def begin(self, protocol: Any) -> None:
        """Give the end its protocol, in a turn of its process."""
        self.protocol = protocol
        self.process.ends[self] = None
        protocol.connection_made(self)
        self._look()

    def accept(self, port: Listening) -> None:
        """Wait in the backlog of a port."""
        process = self.process
        process.ends[self] = None

        def accepted() -> None:
            if port.accepted is None:
                self.abort_quietly()
            elif not self.gone:
                self.begin(port.accepted())

        process.loop.arrive(accepted)

    # ---- asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Addresses, and nothing of a socket."""
        return self._names.get(name, default)

    def set_protocol(self, protocol: Any) -> None:
        """Another protocol takes over."""
        self.protocol = protocol

    def get_protocol(self) -> Any:
        """The protocol."""
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When the protocol is told to pause."""
        self._high = HIGH if high is None else high
        self._low = self._high // 4 if low is None else low
        self._pause_protocol()

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel has not taken."""
        return self._out_size

    def is_closing(self) -> bool:
        """True once it is closed or lost."""
        return self._closing

    def write(self, data: Any) -> None:
        """Send, or keep what the kernel does not take."""
        self.process.check()
        if self._closing:
            return
        if self._error is not None:
            self._fail()
            return
        data = bytes(data)
        self.process.work.socket(len(data))
        if not self._out:
            data = self._send(data)
        if data:
            self._out.append(data)
            self._out_size += len(data)
            self._pause_protocol()

    def writelines(self, buffers: list[Any]) -> None:
        """Send all of them."""
        self.write(b"".join(buffers))

    def close(self) -> None:
        """Send what is kept, then close."""
        if not self._closing:
            self._closing = True
            if not self._out:
                self._finish(None)

    def abort(self) -> None:
        """Close at once. What the kernel has taken arrives all the same, and after it the end, as when a socket is
        closed: a peer that has not read it yet acts on it later.
        """
        if not self._lost:
            self._closing = True
            self._out.clear()
            self._out_size = 0
            self._finish(None)

    def pause_reading(self) -> None:
        """Deliver nothing."""
        self._paused = True

    def resume_reading(self) -> None:
        """Deliver again."""
        self._paused = False
        self._look()

    # ---- the process's side

    def _pause_protocol(self) -> None:
        if self._out_size > self._high and not self._choked:
            self._choked = True
            self.protocol.pause_writing()

    def _look(self) -> None:
        """The socket may have something to read."""
        if not self._told and not self.gone and (self._inbox or self._eof or self._error is not None):
            if self.protocol is not None and not self._paused:
                self._told = True
                self.process.loop.arrive(self._readable)

    def _readable(self) -> None:
        self._told = False
        if self._closing or self._paused or self.gone:
            return
        if self._inbox:
            data = self._take()
            self.process.work.socket(len(data))
            self.protocol.data_received(data)
            self._look()
        elif self._error is not None:
            self._fail()
        elif self._eof and not self.protocol.eof_received():
            self.close()

    def _take(self) -> bytes:
        inbox = self._inbox
        data = inbox.popleft()
        if inbox:
            parts, size = [data], len(data)
            while inbox and size + len(inbox[0]) <= READ:
                parts.append(inbox.popleft())
                size += len(parts[-1])
            data = b"".join(parts)
        self._read += len(data)
        if self._read >= ACKNOWLEDGED:
            self._signal("ack", size=self._read)
            self._read = 0
        return data

    def _writable(self) -> None:
        if self._lost or self.gone:
            return
        while self._out:
            data = self._out.popleft()
            rest = self._send(data)
            self._out_size -= len(data) - len(rest)
            if rest:
                self._out.appendleft(rest)
                break
        if self._choked and self._out_size <= self._low:
            self._choked = False
            self.protocol.resume_writing()
        if self._closing and not self._out:
            self._finish(None)

    def _fail(self) -> None:
        if not self._lost:
            self._closing = True
            self._finish(self._error)

    def _finish(self, error: OSError | None) -> None:
        if self._lost:
            return
        self._lost = True
        if error is None:
            self.leave()
        else:
            self._leave()
        self.process.loop.call_soon(self.protocol.connection_lost, error)

    # ---- the kernel's side

    def leave(self, reset: bool = False) -> None:
        """The process has closed the socket, or is gone: tell the peer."""
        if not self.gone:
            self._signal("reset" if reset or self._inbox else "end")
            self._leave()

    def abort_quietly(self) -> None:
        """Refuse a connection that waits in the backlog."""
        self.leave(reset=True)

    def power_off(self) -> None:
        """The machine is off: nobody is told."""
        self._leave()

    def _leave(self) -> None:
        self.gone = True
        self._inbox.clear()
        self.process.ends.pop(self, None)
        if self.peer.gone:
            self._network.ended(self.connection)

    def _send(self, data: bytes) -> bytes:
        """Send as much as the window takes; returns the rest."""
        room = self._window - self._under_way
        if len(data) > room:
            data, rest = data[:room], data[room:]
        else:
            rest = b""
        if data:
            self._under_way += len(data)
            for piece in self._link.pieces(data):
                self._signal("data", piece)
        return rest

    def _signal(self, kind: str, data: bytes = b"", size: int = 0) -> None:
        """Let the other kernel know something, in order."""
        if self._held_back or self._link.blocked or self.connection.black_holed:
            if not self._held_back:
                self._held_since = self._scheduler.now
                self._scheduler.after(GIVE_UP_S, partial(self._gave_up, self._held_since))
            self._held_back.append((kind, data, size))
            return
        now = max(self.process.strand.now, self._scheduler.now)
        self._arrives = max(self._arrives + 1e-9, self._link.arrival(now, len(data)))
        self._scheduler.at(self._arrives, partial(self.peer.arrived, kind, data, size))

    def send_again(self) -> None:
        """The link works again: TCP tries after a pause that has doubled each time since it was blocked."""
        if self._held_back and not self.connection.black_holed:
            since = self._scheduler.now - self._held_since
            pause = 0.2 + self._link.chance.random() * min(since, LONGEST_RETRY_S)
            self._scheduler.after(pause, self._try_again)

    def _try_again(self) -> None:
        if self._link.blocked or self.connection.black_holed:
            return
        held, self._held_back = self._held_back, deque()
        for kind, data, size in held:
            self._signal(kind, data, size)

    def _gave_up(self, since: float) -> None:
        if self._held_back and self._held_since == since:
            self._held_back.clear()
            self.refused(TimeoutError(110, "Connection timed out"))

    def arrived(self, kind: str, data: bytes, size: int) -> None:
        """Something of the peer is here."""
        process = self.process
        if self.connection.black_holed or not process.host.up:
            if kind == "data" and not self.peer.unheard:
                self.peer.unheard = True
                self._scheduler.after(GIVE_UP_S, self.peer.give_up)
            return
        if kind == "data":
            if self.gone:
                self._scheduler.at(
                    self._link.arrival(self._scheduler.now, 0),
                    partial(self.peer.refused, ConnectionResetError(104, "Connection reset by peer")),
                )
                return
            self._scheduler.trace.note(
                self._scheduler.now, process.name, "packet", f"#{self.connection.number} {summary(data)}"
            )
            self._inbox.append(data)
            self._look()
        elif kind == "ack":
            self._under_way -= size
            if self._out and not self.gone:
                process.loop.arrive(self._writable)
        elif kind == "end":
            self._eof = True
            self._look()
        else:
            self.refused(ConnectionResetError(104, "Connection reset by peer"))

    def give_up(self) -> None:
        """Bytes that nobody acknowledged for so long: the kernel ends the connection."""
        self.refused(TimeoutError(110, "Connection timed out"))

    def peer_is_up(self) -> None:
        """The machine of the peer runs again, and answers what is sent to it once more with RST."""
        if self.unheard:
            pause = 0.2 + self._link.chance.random() * LONGEST_RETRY_S
            error = ConnectionResetError(104, "Connection reset by peer")
            self._scheduler.after(pause, partial(self.refused, error))

    def refused(self, error: OSError) -> None:
        """The kernel knows that the connection is over; the process learns it when it reads or writes."""
        if self.gone or self._error is not None:
            return
        self._error = error
        if self.protocol is None:
            self._leave()
        elif self._out:
            self.process.loop.arrive(self._fail)
        else:
            self._look()
