"""The client side of a remoting connection with blocking sockets and no event loop, for Spark workers and simple tools.

It has the interface of `bolide.transport.client` and the same rules (in `bolide.remoting.connection`). Several requests
may be pending: `start` sends, `Pending.result` reads until its response arrives and stores other responses. While a
caller waits, requests of the peer are passed to `on_request`. Use a connection from one thread at a time.
"""

from __future__ import annotations

import socket
import ssl as ssl_module
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.remoting.command import Command
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import FrameError
from bolide.transport.address import split_address
from bolide.transport.reasons import cannot_connect, is_tls_alert, lost, no_connection_in_time, reason_of, tls_failed

CONNECT_TIMEOUT: Final = 3.0
MAX_FRAME: Final = 16 * 1024 * 1024
MAX_QUEUED: Final = 64 * 1024 * 1024
READ_SIZE: Final = 256 * 1024
MAX_OPAQUE: Final = 0x7FFFFFFF

OnRequest = Callable[["ClientConnection", Command], None]


class Pending:
    """A request that was sent. `deadline` is a time of `time.monotonic`."""

    __slots__ = ("_answer", "_connection", "_error", "deadline", "opaque")

    def __init__(self, connection: ClientConnection, opaque: int, deadline: float) -> None:
        self.opaque = opaque
        self.deadline = deadline
        self._connection = connection
        self._answer: Command | None = None
        self._error: BolideError | None = None

    @property
    def done(self) -> bool:
        """Whether `result` would return without reading."""
        return self._answer is not None or self._error is not None

    def result(self) -> Command:
        """Wait for the response until the deadline. Raises `RequestTimeout` or `ConnectionLost`."""
        if not self.done:
            self._connection.read_until(self)
        if self._answer is None:
            raise self._error or ConnectionLost(f"the connection to {self._connection.address} is closed")
        return self._answer

    def settle(self, answer: Command | None, error: BolideError | None) -> None:
        """Called once by the connection, with the response or the error."""
        self._answer, self._error = answer, error


class PendingRun:
    """Requests with successive opaques that were sent together. `deadline` is a time of `time.monotonic`."""

    __slots__ = ("_answers", "_connection", "_error", "_left", "deadline", "opaque")

    def __init__(self, connection: ClientConnection, opaque: int, count: int, deadline: float) -> None:
        """`opaque` is the opaque of the first request."""
        self.opaque = opaque
        self.deadline = deadline
        self._connection = connection
        self._answers: list[Command | None] = [None] * count
        self._left = count
        self._error: BolideError | None = None

    @property
    def done(self) -> bool:
        """Whether `results` would return without reading."""
        return self._left <= 0

    def results(self) -> tuple[list[Command | None], BolideError | None]:
        """Wait for the responses until the deadline.

        Returns the responses in the order of the requests, with None for each that did not arrive, and the error if one
        did not arrive: `RequestTimeout` or `ConnectionLost`.
        """
        if not self.done:
            self._connection.read_until(self)
        return self._answers, self._error

    def settle(self, answer: Command | None, error: BolideError | None) -> None:
        """Called by the connection once for each response, or once with the error that ends all remaining requests."""
        if answer is None:
            self._left, self._error = 0, error
        elif self._left > 0:
            self._answers[answer.opaque - self.opaque] = answer
            self._left -= 1


class ClientConnection:
    """One TCP connection to a name server or broker. Created by `connect`. A context manager, which closes the
    connection."""

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        on_request: OnRequest | None = None,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.address = address
        self.closed = False
        self._socket = sock
        self._core = FramedConnection(max_frame, MAX_QUEUED)
        self._on_request = on_request
        self._waiting: dict[int, Pending | PendingRun] = {}
        self._opaque = 0
        self._answered = False

    @classmethod
    def connect(
        cls,
        address: str,
        timeout: float = CONNECT_TIMEOUT,
        *,
        on_request: OnRequest | None = None,
        ssl: ssl_module.SSLContext | None = None,
        max_frame: int = MAX_FRAME,
    ) -> Self:
        """Connect to ``host:port``. Raises `ConnectionLost` if that fails or takes longer than `timeout` seconds."""
        host, port = split_address(address)
        try:
            sock = _connected(host, port, timeout)
        except TimeoutError:
            raise no_connection_in_time(address, timeout) from None
        except OSError as error:
            raise cannot_connect(address, error) from error
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if ssl is not None:
                sock = ssl.wrap_socket(sock, server_hostname=host)  # the socket's timeout limits the whole handshake
        except OSError as error:
            sock.close()
            raise tls_failed(address, error) from error
        return cls(sock, address, on_request, max_frame)

    # -- requests

    @property
    def in_flight(self) -> int:
        """Number of requests without a response so far."""
        return len(self._waiting)

    def start(self, command: Command, timeout: float) -> Pending:
        """Send a request; `Pending.result` returns the response. Overwrites the command's opaque."""
        command.opaque = self._next_opaque()
        pending = Pending(self, command.opaque, time.monotonic() + timeout)
        if self.closed:
            pending.settle(None, ConnectionLost(f"the connection to {self.address} is closed"))
            return pending
        self._core.send(command)
        self._waiting[command.opaque] = pending
        self._flush(pending.deadline)
        return pending

    def start_run(self, frames: Callable[[int], list[bytes]], count: int, timeout: float) -> PendingRun:
        """Send `count` requests in one write. `frames` encodes them; its argument is the opaque of the first
        request."""
        if self._opaque + count > MAX_OPAQUE:
            self._opaque = 0
        first = self._opaque + 1
        self._opaque += count
        run = PendingRun(self, first, count, time.monotonic() + timeout)
        if self.closed:
            run.settle(None, ConnectionLost(f"the connection to {self.address} is closed"))
            return run
        self._core.send_frame(b"".join(frames(first)))
        self._waiting.update(dict.fromkeys(range(first, first + count), run))
        self._flush(run.deadline)
        return run

    def request(self, command: Command, timeout: float) -> Command:
        """Send `command` and return its response. Raises `RequestTimeout` after `timeout` seconds, and `ConnectionLost`
        if the connection is closed."""
        return self.start(command, timeout).result()

    def oneway(self, command: Command, timeout: float = CONNECT_TIMEOUT) -> None:
        """Send a request without a response. Raises `ConnectionLost` if the connection is closed."""
        if self.closed:
            raise ConnectionLost(f"the connection to {self.address} is closed")
        command.opaque = self._next_opaque()
        self._core.send(command)
        self._flush(time.monotonic() + timeout)
        if self.closed:
            raise ConnectionLost(f"the connection to {self.address} was lost")

    def reply(self, command: Command, timeout: float = CONNECT_TIMEOUT) -> None:
        """Respond to a request of the peer; does nothing if the connection is closed."""
        if not self.closed:
            self._core.send(command)
            self._flush(time.monotonic() + timeout)

    def close(self) -> None:
        """Close the socket; every pending request fails with `ConnectionLost`. A second call does nothing."""
        self._end(ConnectionLost(f"the connection to {self.address} was closed by us"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside

    def read_until(self, pending: Pending | PendingRun) -> None:
        """Read and pass on responses until `pending` is settled or its deadline has passed."""
        while not pending.done:
            left = pending.deadline - time.monotonic()
            if left <= 0:
                self._waiting = {opaque: each for opaque, each in self._waiting.items() if each is not pending}
                pending.settle(None, RequestTimeout(f"{self.address} did not answer within the time allowed"))
                return
            self._read(left)

    def _read(self, timeout: float) -> None:
        try:
            self._socket.settimeout(timeout)
            data = self._socket.recv(READ_SIZE)
        except TimeoutError:
            return
        except OSError as error:
            self._end(self._lost_by(f"lost: {reason_of(error)}"))
            return
        if not data or (not self._answered and is_tls_alert(data)):
            self._end(self._lost_by("closed by the peer"))
            return
        self._answered = True
        try:
            commands = self._core.receive(data)
        except FrameError as error:
            self._take(error.before)
            self._end(error)
            return
        self._take(commands)

    def _take(self, commands: list[Command]) -> None:
        for command in commands:
            if command.is_response:
                pending = self._waiting.pop(command.opaque, None)
                if pending is not None:  # ignore a response after its timeout
                    pending.settle(command, None)
            elif self._on_request is not None:
                self._on_request(self, command)

    def _flush(self, deadline: float) -> None:
        try:
            for buffer in self._core.data_to_send():
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                self._socket.sendall(buffer)
        except OSError as error:
            # A frame may have been sent in part, and the peer could not decode later frames.
            self._end(self._lost_by(f"lost: {reason_of(error)}"))

    def _lost_by(self, reason: str) -> ConnectionLost:
        encrypted = isinstance(self._socket, ssl_module.SSLSocket)
        return lost(self.address, reason, answered=self._answered, encrypted=encrypted)

    def _next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) & MAX_OPAQUE
        return self._opaque

    def _end(self, error: BolideError) -> None:
        if not self.closed:
            self.closed = True
            self._socket.close()
        waiting, self._waiting = self._waiting, {}
        for pending in waiting.values():
            pending.settle(None, error)


def _connected(host: str, port: int, timeout: float) -> socket.socket:
    """Return a connected blocking socket. The addresses are tried in order and share the `timeout` in seconds.

    Raises the first address's `OSError` if no address is reachable.
    """
    end = time.monotonic() + timeout
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    left = list(dict.fromkeys((family, kind, protocol, place) for family, kind, protocol, _, place in found))
    failure: OSError | None = None
    while left:
        family, kind, protocol, address = left.pop(0)
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(max(0.001, (end - time.monotonic()) / (len(left) + 1)))
            sock.connect(address)
            sock.settimeout(timeout)
        except OSError as error:
            sock.close()
            failure = failure or error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError("the name has no address")


class ConnectionPool:
    """At most one live connection per address. A context manager, which closes all connections."""

    def __init__(
        self,
        on_request: OnRequest | None = None,
        ssl: ssl_module.SSLContext | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self._on_request = on_request
        self._ssl = ssl
        self._connect_timeout = connect_timeout
        self._live: dict[str, ClientConnection] = {}

    def live(self, address: str) -> ClientConnection | None:
        """Return the open connection to `address`, or None."""
        connection = self._live.get(address)
        return connection if connection is not None and not connection.closed else None

    def get(self, address: str) -> ClientConnection:
        """Return the connection to `address`; connect if it does not exist. Raises `ConnectionLost`."""
        connection = self.live(address)
        if connection is None:
            connection = ClientConnection.connect(
                address, self._connect_timeout, on_request=self._on_request, ssl=self._ssl
            )
            self._live[address] = connection
        return connection

    def drop(self, address: str) -> None:
        """Close the connection to `address`, if there is one."""
        connection = self._live.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        live, self._live = list(self._live.values()), {}
        for connection in live:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
