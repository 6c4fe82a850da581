"""A connection of the differential tests: requests in flight, in both header forms, and requests of the server."""

from __future__ import annotations

from proof.kit.wire import Wire
from proof.reader.frames import RESPONSE, Frame, Manner, frame, header


class Closed(Exception):
    """The peer closed the connection."""


class Connection(Wire):
    """A connection to one server. Stores responses until `take`, and the server's requests in `requests`."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        super().__init__(int(port), host=host)
        self.own_address = "{}:{}".format(*self.socket.getsockname()[:2])
        self.requests: list[Frame] = []
        self._answers: dict[int, Frame] = {}

    def send(self, code: int, ext: dict[str, str] | None, body: bytes, manner: Manner) -> int:
        """Send a request, and return its opaque, by which `take` finds the response. Raises `Closed`."""
        self._opaque += 1
        try:
            self.socket.sendall(frame(header(code, ext, self._opaque, manner), body, manner.form))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error
        return self._opaque

    def take(self, opaque: int) -> Frame | None:
        """Remove and return the response to a request, or None if it has not arrived."""
        return self._answers.pop(opaque, None)

    def reply(self, opaque: int, body: bytes) -> None:
        """Send a successful response to a request of the server."""
        self.socket.sendall(frame(header(0, None, opaque, Manner(flag=RESPONSE)), body))

    def fileno(self) -> int:
        """Return the descriptor, for `select`."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def read_arrived(self) -> None:
        """Wait for bytes, and sort the frames in them. Raises `Closed` at the end of the stream."""
        arrived = self.receive()
        if arrived is None:
            raise Closed
        for found in arrived:
            if found.flag & RESPONSE:
                self._answers[found.opaque] = found
            else:
                self.requests.append(found)
