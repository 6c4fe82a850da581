"""A client of the remoting protocol on a plain socket, so that tests do not build requests with the code under test."""

import socket
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from proof.reader.frames import Frame, Frames, frame, header

_ANSWER_SECONDS = 60.0
_TOGETHER = 200

SEND_MESSAGE_V2 = 310
PULL_MESSAGE = 11
QUERY_MESSAGE = 12
VIEW_MESSAGE_BY_ID = 33
GET_ROUTE = 105
SUCCESS = 0


def send_ext(topic: str, **changed: str) -> dict[str, str]:
    """The fields of SEND_MESSAGE_V2 (310); `changed` replaces fields by their one-letter names."""
    fields = {"a": "wire_producer", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    fields |= {"g": "1795269600000", "h": "0", "i": "", "j": "0", "k": "false", "m": "false", "n": "broker-a"}
    return fields | changed


def pull_ext(topic: str, queue_id: int, offset: int, count: int = 32, **changed: str) -> dict[str, str]:
    """The fields of PULL_MESSAGE (11) with the subscription `*` in it and no holding."""
    fields = {"consumerGroup": "wire_consumer", "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset)}
    fields |= {"maxMsgNums": str(count), "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    fields |= {"subscription": "*", "subVersion": "0", "expressionType": "TAG"}
    return fields | changed


def query_ext(topic: str, key: str, **changed: str) -> dict[str, str]:
    """The fields of QUERY_MESSAGE (12) over all times."""
    fields = {"topic": topic, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str((1 << 63) - 1)}
    return fields | changed


class Wire:
    """A connection. `ask` sends a request and returns its answer; `read` returns None once the peer has closed."""

    def __init__(self, port: int, seconds: float = _ANSWER_SECONDS, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = Frames()
        self._ready: deque[Frame] = deque()
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Frame:
        """Send one request and wait for its answer; AssertionError if the peer closes instead."""
        self._opaque += 1
        self.socket.sendall(frame(header(code, ext, self._opaque), body))
        answer = self.read()
        assert answer is not None, f"the connection was closed in answer to request {code}"
        assert answer.opaque == self._opaque
        return answer

    def ask_all(self, requests: Sequence[tuple[int, dict[str, str], bytes]]) -> list[Frame]:
        """Send requests, `_TOGETHER` at a time before an answer; the answers, in the order of the requests."""
        found: dict[int, Frame] = {}
        first = self._opaque + 1
        for at in range(0, len(requests), _TOGETHER):
            part = requests[at : at + _TOGETHER]
            heads = [header(code, ext, first + at + number) for number, (code, ext, _) in enumerate(part)]
            self.socket.sendall(b"".join(frame(head, body) for head, (_, _, body) in zip(heads, part, strict=True)))
            for _ in part:
                answer = self.read()
                assert answer is not None, "the connection was closed before the last answer"
                found[answer.opaque] = answer
        self._opaque += len(requests)
        return [found[first + number] for number in range(len(requests))]

    def deliver(self, data: bytes, *, eof: bool = False) -> None:
        """Send bytes as they are; a peer that closes before the last of them is no error here."""
        try:
            self.socket.sendall(data)
            if eof:
                self.socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            return

    def read(self) -> Frame | None:
        """The next frame of the peer, or None at the end of the stream."""
        while not self._ready:
            arrived = self.receive()
            if arrived is None:
                return None
            self._ready.extend(arrived)
        return self._ready.popleft()

    def receive(self) -> list[Frame] | None:
        """Wait for bytes of the peer, and return the frames that are complete; None at the end of the stream."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            return None
        return list(self._frames.feed(data)) if data else None
