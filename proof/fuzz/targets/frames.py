"""The bytes of a connection: frames in both serializations, and the header of every request code."""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterable
from typing import Any, Final

from bolide.errors import ProtocolError
from bolide.remoting import headers
from bolide.remoting.codes import BINARY_TYPE, JSON_TYPE
from bolide.remoting.command import Command, encode, frame_head, make_request
from bolide.remoting.connection import FramedConnection
from bolide.remoting.envelope import JSON_ENCODER
from bolide.remoting.errors import FrameError, HeaderError
from bolide.remoting.headers import decode_header
from bolide.remoting.headers.base import BOOL, INT32, INT64, Header
from bolide.remoting.headers.decode import lenient_header
from bolide.remoting.signature import signature_holds, signed_content
from bolide.replication.errors import NotReplicated
from bolide.replication.frames import ReportReader, TransferReader, encode_header, encode_report
from bolide.transport.proxy_preamble import may_begin, read_preamble
from proof.fuzz import seeds
from proof.fuzz.choices import Choices
from proof.fuzz.target import KIB, MIB, Broken, Limits, Target

MAX_FRAME: Final = 64 * KIB
WORDS: Final = (
    *(b'"extFields":{', b'"code":', b'"opaque":', b'"flag":1', b'"language":"GO"', b'"remark":null', b'"version":513'),
    *(b"\x00\x00\x00\x04\x00\x00\x00\x00", b"\x01\x00\x00\x15", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\\ud800"),
    *(
        b"1e999",
        b"99999999999999999999",
        b"'a':1,",
        b"null",
        b"{}",
        b"[1]",
        b"PROXY TCP4 ",
        b"\x80",
        b"\xf0\x9f\x98\x80",
    ),
)


_LOOSE_NUMBER: Final = re.compile(r"[+-]?[0-9]*([.][0-9]*|[.]?[0-9]*[eE][+-]?[0-9]+)")


@functools.cache
def header_kinds() -> tuple[type[Header], ...]:
    """Every header struct, in the order of the names."""
    for module in pkgutil.iter_modules(headers.__path__, headers.__name__ + "."):
        importlib.import_module(module.name)
    return tuple(sorted(Header.__subclasses__(), key=lambda kind: kind.__name__))


@functools.cache
def header_of() -> dict[int, type[Header]]:
    """The header of each request code that has one here."""
    by_name = {kind.__name__: kind for kind in header_kinds()}
    found: dict[int, type[Header]] = {}
    for entry in seeds.requests():
        kind = by_name.get((entry.get("request_header") or {}).get("class", ""))
        if kind is not None:
            found[int(entry["code"])] = kind
    return found


def frame(data: bytes) -> None:
    """Any bytes, whole and in pieces: the same commands, or the same refusal; written again they are the same."""
    whole, error = _received([data])
    size = data[0] % 7 + 1 if data else 1
    pieces = [data[at : at + size] for at in range(0, min(len(data), 64), size)] + [data[64:]]
    parts, other = _received([piece for piece in pieces if piece])
    if [_facts(command) for command in whole] != [_facts(command) for command in parts] or (not error) != (not other):
        raise Broken(f"whole: {whole} {error}; in pieces: {parts} {other}")
    for command in whole:
        _use(command)


def _received(pieces: list[bytes]) -> tuple[list[Command], str]:
    connection = FramedConnection(MAX_FRAME)
    commands: list[Command] = []
    for piece in pieces:
        try:
            commands += connection.receive(piece)
        except FrameError as error:
            return commands + error.before, str(error)
        if connection.buffered_bytes > MAX_FRAME:
            raise Broken(f"{connection.buffered_bytes} bytes are kept of one frame")
    return commands, ""


def _facts(command: Command) -> tuple[Any, ...]:
    return (command.code, command.flag, command.language, command.opaque, command.version, command.remark, command.body)


def _use(command: Command) -> None:
    """What a server does with a command, whatever its code is."""
    try:
        ext = dict(command.ext())
    except FrameError:
        return
    kind = header_of().get(command.code)
    if kind is not None:
        with contextlib.suppress(HeaderError):
            decode_header(command, kind).to_ext()
    signed_content(ext, command.body)
    signature_holds(ext, command.body, "secret", command.version)
    repr(command)
    for serialize_type in (JSON_TYPE, BINARY_TYPE):
        again = Command(
            command.code, opaque=command.opaque, flag=command.flag, serialize_type=serialize_type, body=command.body,
            remark=command.remark, ext=ext,
        )  # fmt: skip
        try:
            written = encode(again)
        except FrameError:
            continue
        (found,) = FramedConnection().receive(written)
        if found.ext() != _travelling(ext, serialize_type) or found.body != command.body:
            raise Broken(f"{ext!r:.150} is read as {found.ext()!r:.150} in serialization {serialize_type}")


def _travelling(ext: dict[str, str], serialize_type: int) -> dict[str, str]:
    """The binary form has no empty name and no empty value."""
    if serialize_type == JSON_TYPE:
        return ext
    return {key: value for key, value in ext.items() if key and value}


def header(data: bytes) -> None:
    """The header of each code, of fields that are odd, missing or of another type, in both serializations.

    The fast reader and the one that goes by Java's rules agree.
    """
    choices = Choices(data)
    codes = sorted(header_of())
    code = codes[choices.below(len(codes))]
    kind = header_of()[code]
    ext = {field.name: _odd(choices, field.kind) for field in kind.fields() if choices.byte() % 8}
    if choices.flag():
        ext[_clean(choices.text())] = _clean(choices.text())
    if choices.flag():
        values: dict[str, Any] = {key: _json_value(value, choices) for key, value in ext.items()}
        text = JSON_ENCODER.encode(values)
        command = Command(code, opaque=1, flag=0, serialize_type=JSON_TYPE, raw_ext=text)
    else:
        command = make_request(code, 1, ext, serialize_type=choices.below(2))
        with contextlib.suppress(FrameError):
            (command,) = FramedConnection().receive(encode(command))
    if any(_LOOSE_NUMBER.fullmatch(value) for value in command.ext().values()):
        return  # the fast reader takes 1e5 and 1.0 for numbers, where Java reads null; no peer writes them
    fast = _read(decode_header, command, kind)
    slow = _read(lenient_header, command, kind)
    if fast != slow:
        raise Broken(f"{kind.__name__} of {command.ext()!r:.200}: fast {fast!r:.200}, by Java's rules {slow!r:.200}")
    if isinstance(fast, Header):
        again = make_request(code, 1, fast.to_ext())
        if _read(decode_header, again, kind) != fast:
            raise Broken(f"{fast!r:.200} is read as {_read(decode_header, again, kind)!r:.200}")


def _odd(choices: Choices, kind: str) -> str:
    if choices.byte() % 4 == 0:
        return _clean(choices.text())
    if kind in (INT32, INT64):
        return str(choices.number())
    return choices.pick(("true", "false", "TRUE", "1", "0", "yes", "")) if kind == BOOL else _clean(choices.text())


def _clean(text: str) -> str:
    """Without halves of characters, which no frame can hold."""
    return text.encode("utf-8", "replace").decode()


def _json_value(text: str, choices: Choices) -> Any:
    kind = choices.byte() % 8
    if kind == 0:
        return None
    if kind == 1 and text.isascii() and text.lstrip("-").isdecimal() and len(text) < 18:
        return int(text)
    return [text] if kind == 2 else text


def _read(reader: Any, command: Command, kind: type[Header]) -> Header | str:
    try:
        found: Header = reader(command, kind)
    except HeaderError as error:
        return str(error)
    except FrameError:
        return "frame"
    return found


def replication(data: bytes) -> None:
    """Both directions of the stream to a slave, in pieces of any size."""
    size = data[0] % 9 + 1 if data else 1
    reports, transfers = ReportReader(), TransferReader()
    with contextlib.suppress(NotReplicated):
        for at in range(1, len(data), size):
            offset = reports.receive(data[at : at + size])
            if offset is not None and ReportReader().receive(encode_report(offset)) != offset:
                raise Broken(f"the report {offset}")
    with contextlib.suppress(NotReplicated):
        for at in range(1, len(data), size):
            for piece in transfers.receive(data[at : at + size]):
                if TransferReader().receive(encode_header(piece.offset, len(piece.data)) + piece.data) != [piece]:
                    raise Broken(f"the transfer {piece!r:.100}")


def preamble(data: bytes) -> None:
    """What a load balancer writes first: whole, refused, or not whole yet, and then never longer than its limits."""
    kept = b""
    for byte in data:
        kept += bytes([byte])
        if not may_begin(kept):
            return
        try:
            found = read_preamble(kept)
        except ProtocolError:
            return
        if found is not None:
            if found.size != len(kept) or not 0 <= found.port <= 0xFFFF:
                raise Broken(f"{kept!r} has {found.size} bytes and port {found.port}")
            return
        if len(kept) > 4 * KIB:
            raise Broken("a preamble without end is kept")


def _frames() -> Iterable[bytes]:
    found = seeds.frames()
    yield from found
    yield b"".join(found[:3])
    yield frame_head(b"{}", JSON_TYPE, 3) + b"abc"
    yield frame_head(b"{'code':'310','extFields':{'a':1,'b':null,'c':true},'language':3}", JSON_TYPE, 0)


def _headers() -> Iterable[bytes]:
    for number in range(len(header_of())):
        yield bytes([number]) + bytes(range(1, 60))
        yield bytes([number]) + bytes([5, 130, 1] * 20)


def _preambles() -> Iterable[bytes]:
    yield b"PROXY TCP4 10.1.2.3 10.1.2.4 5678 10911\r\n"
    yield b"PROXY TCP6 2001:db8::1 ::1 5678 10911\r\n"
    yield b"PROXY UNKNOWN\r\n"
    signature = b"\r\n\r\n\0\r\nQUIT\n"
    yield signature + b"\x21\x11\x00\x0c" + bytes(range(12))
    yield signature + b"\x21\x21\x00\x24" + bytes(range(36))
    yield signature + b"\x20\x00\x00\x00"


def _replicated() -> Iterable[bytes]:
    yield b"\x01" + encode_report(5) + encode_report(1 << 40)
    yield b"\x03" + encode_header(7, 3) + b"abc" + encode_header(10, 0)


TARGETS: Final = (
    Target("frame", frame, _frames, Limits(memory=8 * MIB, memory_per_byte=2000, steps_per_byte=400), words=WORDS),
    Target("header", header, _headers, largest=1024),
    Target("replication", replication, _replicated),
    Target("preamble", preamble, _preambles, largest=4096),
)
