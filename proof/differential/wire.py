"""A remoting client by hand, in both header forms: what is sent and read here is not built by the code under test."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from typing import Final

JSON: Final = 0
BINARY: Final = 1
LANGUAGES: Final = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS")
RESPONSE: Final = 1
ONEWAY: Final = 2


class Closed(Exception):
    """The peer closed the connection."""


@dataclass
class Frame:
    """A frame of either direction."""

    code: int
    opaque: int
    flag: int
    remark: str | None
    ext: dict[str, str]
    body: bytes
    language: str = ""
    version: int = 0
    form: int = JSON


@dataclass(frozen=True)
class Manner:
    """How a request is written: header form, language and version."""

    form: int = JSON
    language: str = "JAVA"
    version: int = 513
    oneway: bool = False


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def write_frame(code: int, opaque: int, ext: dict[str, str] | None, body: bytes, manner: Manner) -> bytes:
    """The bytes of a request."""
    flag = ONEWAY if manner.oneway else 0
    if manner.form == JSON:
        values: dict[str, object] = {"code": code}
        if ext is not None:
            values["extFields"] = ext
        values |= {"flag": flag, "language": manner.language, "opaque": opaque}
        values |= {"serializeTypeCurrentRPC": "JSON", "version": manner.version}
        head = json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    else:
        pairs = b"".join(
            len(_bytes(name)).to_bytes(2, "big") + _bytes(name) + len(_bytes(value)).to_bytes(4, "big") + _bytes(value)
            for name, value in (ext or {}).items()
        )
        head = (
            (code & 0xFFFF).to_bytes(2, "big")
            + bytes([LANGUAGES.index(manner.language)])
            + (manner.version & 0xFFFF).to_bytes(2, "big")
            + opaque.to_bytes(4, "big")
            + flag.to_bytes(4, "big")
            + (0).to_bytes(4, "big")
            + len(pairs).to_bytes(4, "big")
            + pairs
        )
    mark = (manner.form << 24) | len(head)
    return (4 + len(head) + len(body)).to_bytes(4, "big") + mark.to_bytes(4, "big") + head + body


def read_frame(data: bytes) -> Frame:
    """A frame without its first length."""
    length = int.from_bytes(data[1:4], "big")
    head, body = data[4 : 4 + length], data[4 + length :]
    if data[0] == JSON:
        values = json.loads(_text(head))
        ext = {str(name): str(value) for name, value in (values.get("extFields") or {}).items()}
        flag, remark = values.get("flag", 0), values.get("remark")
        language, version = values.get("language", ""), values.get("version", 0)
        return Frame(values["code"], values["opaque"], flag, remark, ext, body, language, version, JSON)
    size = int.from_bytes(head[13:17], "big")
    remark = _text(head[17 : 17 + size]) if size else None
    at = 17 + size + 4
    ext = {}
    while at < len(head):
        width = int.from_bytes(head[at : at + 2], "big")
        name = _text(head[at + 2 : at + 2 + width])
        at += 2 + width
        width = int.from_bytes(head[at : at + 4], "big")
        ext[name] = _text(head[at + 4 : at + 4 + width])
        at += 4 + width
    return Frame(
        int.from_bytes(head[:2], "big", signed=True),
        int.from_bytes(head[5:9], "big", signed=True),
        int.from_bytes(head[9:13], "big"),
        remark,
        ext,
        body,
        LANGUAGES[head[2]] if head[2] < len(LANGUAGES) else str(head[2]),
        int.from_bytes(head[3:5], "big"),
        BINARY,
    )


@dataclass
class Connection:
    """A connection to one server. Answers are kept until they are asked for; so are the requests of the server."""

    address: str
    requests: list[Frame] = field(default_factory=list)
    _answers: dict[int, Frame] = field(default_factory=dict)
    _rest: bytes = b""
    _opaque: int = 0
    _closed: bool = False

    def __post_init__(self) -> None:
        host, port = self.address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.own_address = "{}:{}".format(*self._socket.getsockname()[:2])

    def send(self, code: int, ext: dict[str, str] | None, body: bytes, manner: Manner) -> int:
        """Send a request; its opaque, by which `answer` finds the answer. Raises `Closed`."""
        self._opaque += 1
        self._socket.settimeout(60)
        try:
            self._socket.sendall(write_frame(code, self._opaque, ext, body, manner))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error
        return self._opaque

    def take(self, opaque: int) -> Frame | None:
        """The answer to a request, if it was read."""
        return self._answers.pop(opaque, None)

    def reply(self, opaque: int, body: bytes) -> None:
        """Answer a request of the server with success."""
        values = {"code": 0, "flag": RESPONSE, "language": "JAVA", "opaque": opaque, "version": 513}
        head = json.dumps({**values, "serializeTypeCurrentRPC": "JSON"}).encode()
        self._socket.settimeout(60)
        self._socket.sendall(
            (4 + len(head) + len(body)).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head + body
        )

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def read(self) -> None:
        """Read what has come. Raises `Closed` at the end."""
        try:
            data = self._socket.recv(1 << 18)
        except ConnectionResetError as error:
            raise Closed from error
        if not data:
            raise Closed
        self._rest += data
        while len(self._rest) >= 4:
            size = int.from_bytes(self._rest[:4], "big")
            if len(self._rest) < 4 + size:
                return
            frame = read_frame(self._rest[4 : 4 + size])
            self._rest = self._rest[4 + size :]
            if frame.flag & RESPONSE:
                self._answers[frame.opaque] = frame
            else:
                self.requests.append(frame)
