"""The remoting protocol by hand, on a plain socket: what the tests send is not built by the code they test.

A frame is `length(4) type(1) header_length(3) header body`; the header here is always RocketMQ's JSON form.
"""

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

_ANSWER_SECONDS = 60.0
_TOGETHER = 200
VERSION_5_5_0 = 513

SEND_MESSAGE_V2 = 310
PULL_MESSAGE = 11
QUERY_MESSAGE = 12
VIEW_MESSAGE_BY_ID = 33
GET_ROUTE = 105
SUCCESS = 0


@dataclass
class Answer:
    """One response frame."""

    code: int
    opaque: int
    remark: str | None
    ext: dict[str, str]
    body: bytes = b""
    header: dict[str, Any] = field(default_factory=dict)


def header(code: int, ext: dict[str, str] | None = None, opaque: int = 1, flag: int = 0) -> bytes:
    """The JSON header of a request, as a Java client of 5.5.0 writes it."""
    values: dict[str, Any] = {"code": code}
    if ext is not None:
        values["extFields"] = ext
    values |= {"flag": flag, "language": "JAVA", "opaque": opaque}
    values |= {"serializeTypeCurrentRPC": "JSON", "version": VERSION_5_5_0}
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()


def frame(head: bytes, body: bytes = b"", serialize_type: int = 0) -> bytes:
    """A whole frame around a header and a body."""
    mark = (serialize_type << 24) | len(head)
    return (4 + len(head) + len(body)).to_bytes(4, "big") + mark.to_bytes(4, "big") + head + body


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

    def __init__(self, port: int, seconds: float = _ANSWER_SECONDS) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self._rest = b""
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        """Send one request and wait for its answer; AssertionError if the peer closes instead."""
        self._opaque += 1
        self.socket.sendall(frame(header(code, ext, self._opaque), body))
        answer = self.read()
        assert answer is not None, f"the connection was closed in answer to request {code}"
        assert answer.opaque == self._opaque
        return answer

    def ask_all(self, requests: Sequence[tuple[int, dict[str, str], bytes]]) -> list[Answer]:
        """Send requests, `_TOGETHER` at a time before an answer; the answers, in the order of the requests."""
        found: dict[int, Answer] = {}
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

    def read(self) -> Answer | None:
        """The next frame of the peer, or None at the end of the stream."""
        start = self._take(4)
        if start is None:
            return None
        data = self._take(int.from_bytes(start, "big"))
        if data is None:
            return None
        length = int.from_bytes(data[1:4], "big")
        if data[0] == 1:  # the binary form: code(2) language(1) version(2) opaque(4) ...
            return Answer(int.from_bytes(data[4:6], "big"), int.from_bytes(data[9:13], "big"), None, {})
        values = json.loads(data[4 : 4 + length])
        ext = values.get("extFields") or {}
        return Answer(values["code"], values["opaque"], values.get("remark"), ext, data[4 + length :], values)

    def _take(self, size: int) -> bytes | None:
        while len(self._rest) < size:
            try:
                more = self.socket.recv(1 << 18)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self._rest += more
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
