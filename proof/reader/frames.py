"""Frames of the remoting protocol (docs/protocol/remoting.md 1 to 3): requests are written, responses are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from proof.reader.errors import Unreadable

JSON: Final = 0
BINARY: Final = 1
LANGUAGES: Final = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS")
RESPONSE: Final = 1
ONEWAY: Final = 2
VERSION_5_5_0: Final = 513


@dataclass
class Frame:
    """A frame of either direction."""

    code: int
    opaque: int
    flag: int = 0
    remark: str | None = None
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    language: str = ""
    version: int = 0
    form: int = JSON


@dataclass(frozen=True)
class Manner:
    """How a request is written: header form, language and version."""

    form: int = JSON
    language: str = "JAVA"
    version: int = VERSION_5_5_0
    flag: int = 0


AS_JAVA: Final = Manner()


def header(code: int, ext: dict[str, str] | None = None, opaque: int = 1, manner: Manner = AS_JAVA) -> bytes:
    """Return the header of a request, as a Java client of 5.5.0 writes it unless `manner` differs."""
    if manner.form == BINARY:
        return _binary_header(code, ext or {}, opaque, manner)
    values: dict[str, Any] = {"code": code}
    if ext is not None:
        values["extFields"] = ext
    values |= {"flag": manner.flag, "language": manner.language, "opaque": opaque}
    values |= {"serializeTypeCurrentRPC": "JSON", "version": manner.version}
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _binary_header(code: int, ext: dict[str, str], opaque: int, manner: Manner) -> bytes:
    pairs = b"".join(_sized(name, 2) + _sized(value, 4) for name, value in ext.items())
    language = LANGUAGES.index(manner.language)
    numbers = ((code & 0xFFFF, 2), (language, 1), (manner.version & 0xFFFF, 2), (opaque, 4), (manner.flag, 4), (0, 4))
    return b"".join(number.to_bytes(size) for number, size in numbers) + len(pairs).to_bytes(4) + pairs


def _sized(text: str, width: int) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return len(data).to_bytes(width) + data


def frame(head: bytes, body: bytes = b"", form: int = JSON) -> bytes:
    """Return a whole frame around a header and a body."""
    return (4 + len(head) + len(body)).to_bytes(4) + (form << 24 | len(head)).to_bytes(4) + head + body


def read_frame(data: bytes) -> Frame:
    """Read a frame without its first length. Raises `Unreadable`."""
    length = int.from_bytes(data[1:4])
    head, body = data[4 : 4 + length], data[4 + length :]
    if data[0] == BINARY:
        return _read_binary(head, body)
    try:
        values: dict[str, Any] = json.loads(head.decode("utf-8", "surrogateescape"))
        code, opaque = values["code"], values["opaque"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"a header of {length} bytes: {error!r}") from error
    ext = values.get("extFields") or {}
    if not all(isinstance(value, str) for value in ext.values()):
        raise Unreadable(f"fields that are not texts: {ext}")
    flag, language, version = values.get("flag", 0), values.get("language", ""), values.get("version", 0)
    return Frame(code, opaque, flag, values.get("remark"), ext, body, language, version)


def _read_binary(head: bytes, body: bytes) -> Frame:
    at = 0

    def number(size: int, signed: bool = False) -> int:
        nonlocal at
        at += size
        return int.from_bytes(head[at - size : at], signed=signed)

    def text(size: int) -> str:
        nonlocal at
        at += size
        return head[at - size : at].decode("utf-8", "surrogateescape")

    code, language, version, opaque, flag = number(2, True), number(1), number(2), number(4, True), number(4)
    remark, size = text(number(4)) or None, number(4)
    end, ext = at + size, {}
    while at < end:
        name = text(number(2))
        ext[name] = text(number(4))
    if not at == end == len(head):
        raise Unreadable(f"a binary header of {len(head)} bytes, with fields up to {at} instead of {end}")
    told = LANGUAGES[language] if language < len(LANGUAGES) else str(language)
    return Frame(code, opaque, flag, remark, ext, body, told, version, BINARY)


class Frames:
    """Splits a stream into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take the next bytes, and yield each frame that is complete."""
        self._rest += data
        while len(self._rest) >= 4:
            end = 4 + int.from_bytes(self._rest[:4])
            if len(self._rest) < end:
                return
            yield read_frame(bytes(self._rest[4:end]))
            del self._rest[:end]
