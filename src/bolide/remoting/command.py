"""One command of the remoting protocol: a request, or the response to one, and its bytes (RemotingCommand.java).

A frame is ``int32 length | byte type | int24 header length | header | body``. The length counts the bytes after it. The
header is JSON (type 0) or the binary form of RocketMQSerializable.java (type 1); any frame may use either.

Rules of this file:

1. A length is trusted only after a comparison with the number of bytes that follow.
2. The extension fields of a JSON header stay raw text until they are used (`Command.ext`). The fields of a binary
   header are read immediately, because a torn entry makes the whole frame invalid and must close the connection. An
   empty value is null there, so its entry is dropped: Java's maps do not distinguish it from an absent entry.
3. A header that the strict decoder rejects is re-read like Java reads it, and rejected only if that also fails.
"""

from __future__ import annotations

from typing import Any, Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64

from bolide.layout.limits import INT16_MAX
from bolide.remoting.codes import (
    BINARY_TYPE,
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    JSON_TYPE,
    OTHER,
    PYTHON,
    VERSION_5_5_0,
    language_code,
    language_name,
)
from bolide.remoting.envelope import ENVELOPE_DECODER, EXT_DECODER, JSON_ENCODER
from bolide.remoting.errors import BodyError, FrameError
from bolide.remoting.json import parse_lenient
from bolide.remoting.permit import Permit

BINARY_FIXED: Final = 21  # bytes of a binary header with neither remark nor extension fields
MAX_LENIENT_HEADER: Final = 256 * 1024  # bytes; Java writes strict JSON, so only other writers need the lenient reader
MAX_HEADER: Final = 0xFFFFFF  # maximum of a frame's int24

_NAMES: Final[dict[str, int]] = {
    name: language_code(name) for name in ("JAVA", "CPP", "DOTNET", "PYTHON", "GO", "RUST")
}


@final
class Command:
    """A request or a response.

    `code`: request or response code, depending on `flag`. `opaque`: matches a response to its request (int32). `flag`:
    bit 0 response, bit 1 oneway. `language`: code of codes.LANGUAGES. `version`: ordinal of the sender's release.
    `remark`: free text or None. `body`: may be b"". `serialize_type`: 0 JSON, 1 binary. `raw_ext`: received JSON text
    of the extension fields, b"" if there are no extension fields, or if they were passed as `ext`.
    """

    def __init__(
        self,
        code: int,
        *,
        opaque: int,
        flag: int,
        serialize_type: int,
        body: bytes = b"",
        remark: str | None = None,
        raw_ext: bytes = b"",
        ext: dict[str, str] | None = None,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.language = PYTHON
        self.version = VERSION_5_5_0
        self.remark = remark
        self.body = body
        self.serialize_type = serialize_type
        self.raw_ext = raw_ext
        self._ext = ext
        # set by a broker's authorizer, for objects that a handler finds; None allows every object
        self.permit: Permit | None = None
        # Java writes an empty extFields for a header object without values, and a Java producer requires it.
        self._writes_empty_ext = ext is not None

    @property
    def is_response(self) -> bool:
        """Whether this is a response."""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether the receiver must not respond to this request, not even with an error."""
        return self.flag & FLAG_ONEWAY != 0

    def ext(self) -> dict[str, str]:
        """Return the extension fields, decoded on the first call; added entries are sent with the command.

        Values other than strings are converted as in Java (5 is "5", true is "true"); null entries are omitted.
        """
        known = self._ext
        if known is None:
            known = decode_ext(self.raw_ext)
            self._ext = known
            self._writes_empty_ext = len(self.raw_ext) > 0
        return known

    def __repr__(self) -> str:
        kind = "response" if self.flag & FLAG_RESPONSE else "request"
        return f"<{kind} code={self.code} opaque={self.opaque} body={len(self.body)}B remark={self.remark!r}>"


def make_request(
    code: int,
    opaque: int,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
    oneway: bool = False,
    serialize_type: int = JSON_TYPE,
    language: int = PYTHON,
    version: int = VERSION_5_5_0,
) -> Command:
    """Return a request to send. `opaque` must be unique among the requests in flight on its connection."""
    flag = FLAG_ONEWAY if oneway else 0
    command = Command(code, opaque=opaque, flag=flag, serialize_type=serialize_type, body=body, ext=ext)
    command.language = language
    command.version = version
    return command


def make_response(
    request: Command, code: int, remark: str | None = None, ext: dict[str, str] | None = None, body: bytes = b""
) -> Command:
    """Return a response to `request`, in the serialize type of the request."""
    return Command(
        code,
        opaque=request.opaque,
        flag=FLAG_RESPONSE,
        serialize_type=request.serialize_type,
        body=body,
        remark=remark,
        ext=ext,
    )


def decode_ext(raw: bytes) -> dict[str, str]:
    """Decode extension fields from their JSON text, like Java. Raises `FrameError` if the text is not an object."""
    if not raw:
        return {}
    try:
        ready: dict[str, str] = EXT_DECODER.decode(raw)
        return ready
    except (ValueError, RecursionError):  # msgspec.DecodeError, invalid UTF-8, nesting
        return _coerced_ext(_lenient(raw))


def _coerced_ext(value: object) -> dict[str, str]:
    """Convert every extension field to a string like Java; null entries are omitted."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FrameError("extFields of a header must be an object; the connection is closed")
    fields: dict[str, str] = {}
    for key, item in value.items():
        if item is None:
            continue
        if isinstance(item, str):
            fields[str(key)] = item
        else:
            fields[str(key)] = JSON_ENCODER.encode(item).decode()
    return fields


def _lenient(raw: bytes) -> Any:
    try:
        return parse_lenient(raw, references=False, limit=MAX_LENIENT_HEADER)
    except BodyError as error:
        raise FrameError(f"header cannot be read: {error}") from None


def decode_json_header(header: bytes, body: bytes) -> Command:
    """Decode a command from its JSON header. Raises `FrameError`."""
    try:
        envelope: Any = ENVELOPE_DECODER.decode(header)
    except (ValueError, RecursionError):
        return _decode_json_slowly(header, body)
    raw_ext = bytes(envelope.extFields)
    if raw_ext and raw_ext[0] != 0x7B:  # not '{'
        if raw_ext != b"null":
            raise FrameError("extFields of a header must be an object; the connection is closed")
        raw_ext = b""
    name: str = envelope.language
    language = _NAMES.get(name, -1)
    if language < 0:
        language = language_code(name)
    command = Command(
        envelope.code,
        opaque=envelope.opaque,
        flag=envelope.flag,
        serialize_type=JSON_TYPE,
        body=body,
        remark=envelope.remark,
        raw_ext=raw_ext,
    )
    command.language = language
    command.version = envelope.version
    return command


def _decode_json_slowly(header: bytes, body: bytes) -> Command:
    """Decode the header as leniently as Java: numbers as text, language by ordinal, single quotes."""
    value: Any = _lenient(header)
    if not isinstance(value, dict):
        raise FrameError("a header must be a JSON object; the connection is closed")
    language_value = value.get("language")
    if isinstance(language_value, str):
        language = language_code(language_value)
    elif isinstance(language_value, int):
        language = language_value if 0 <= language_value <= 127 else OTHER
    else:
        language = 0  # absent: a Java command object starts as JAVA
    remark = value.get("remark")
    command = Command(
        _header_int(value, "code"),
        opaque=_header_int(value, "opaque"),
        flag=_header_int(value, "flag"),
        serialize_type=JSON_TYPE,
        body=body,
        remark=None if remark is None else str(remark),
        ext=_coerced_ext(value.get("extFields")),
    )
    command.language = language
    command.version = _header_int(value, "version")
    return command


def _header_int(header: dict[str, Any], key: str) -> int:
    """Return an int32 of a leniently read header, or 0 if it is absent, because Java's field then has its default."""
    value = header.get(key)
    if value is None or value == "":
        return 0
    try:
        number = int(value)
    except (ValueError, TypeError, OverflowError):
        raise FrameError(f"header field {key} must be a number; the connection is closed") from None
    if not -(2**31) <= number < 2**31:
        raise FrameError(f"header field {key} is beyond int32; the connection is closed")
    return number


def decode_binary_header(header: bytes, body: bytes) -> Command:
    """Decode a command from its binary header. Raises `FrameError` if a length exceeds the header."""
    end: i64 = len(header)
    if end < BINARY_FIXED:
        raise FrameError(f"a binary header has at least {BINARY_FIXED} bytes, this one {len(header)}")
    remark: str | None = None
    at: i64 = 13
    size: i64 = i64(read_i32_be(header, at))
    at += 4
    if size > 0:
        if size > end - at - 4:
            raise FrameError("the remark of a binary header is longer than the header; the connection is closed")
        remark = header[int(at) : int(at + size)].decode("utf-8", "replace")
        at += size
    size = i64(read_i32_be(header, at))
    at += 4
    ext: dict[str, str] = {}
    if size > 0:
        if size > end - at:
            raise FrameError("the fields of a binary header are longer than the header; the connection is closed")
        _read_binary_ext(header, at, at + size, ext)
    code: i64 = i64(read_i16_be(header, 0))
    version: i64 = i64(read_i16_be(header, 3))
    opaque: i64 = i64(read_i32_be(header, 5))
    flag: i64 = i64(read_i32_be(header, 9))
    command = Command(
        int(code),
        opaque=int(opaque),
        flag=int(flag),
        serialize_type=BINARY_TYPE,
        body=body,
        remark=remark,
        ext=ext,
    )
    command.language = header[2]
    command.version = int(version)
    return command


def _read_binary_ext(header: bytes, at: i64, end: i64, ext: dict[str, str]) -> None:
    """Read entries ``int16 key length | key | int32 value length | value``. Omits entries with an empty key or
    value."""
    while at < end:
        if end - at < 2:
            raise FrameError("a field of a binary header is truncated; the connection is closed")
        key_size: i64 = i64(read_i16_be(header, at))
        at += 2
        if key_size < 0 or key_size > end - at - 4:
            raise FrameError("a field name of a binary header is truncated; the connection is closed")
        key = header[int(at) : int(at + key_size)]
        at += key_size
        size: i64 = i64(read_i32_be(header, at))
        at += 4
        if size < 0 or size > end - at:
            raise FrameError("a field value of a binary header is truncated; the connection is closed")
        if key_size > 0 and size > 0:
            ext[key.decode("utf-8", "replace")] = header[int(at) : int(at + size)].decode("utf-8", "replace")
        at += size


def encode(command: Command) -> bytes:
    """Return the whole frame of a command, in its serialize type. Raises `FrameError` if a length does not fit."""
    return encode_head(command, len(command.body)) + command.body


def encode_head(command: Command, body_size: int) -> bytes:
    """Return the frame of a command up to its body of `body_size` bytes, which the caller sends afterwards."""
    if command.serialize_type == BINARY_TYPE:
        return frame_head(_binary_header(command), BINARY_TYPE, body_size)
    return frame_head(_json_header(command), JSON_TYPE, body_size)


def frame_head(header: bytes, serialize_type: int, body_size: int) -> bytes:
    """Return eight bytes of lengths and type, and the header."""
    header_size = len(header)
    if header_size > MAX_HEADER:
        raise FrameError(f"a header of {header_size} bytes does not fit its 24-bit length; send fewer properties")
    w = BytesWriter()
    write_i32_be(w, i32(4 + header_size + body_size))
    write_i32_be(w, i32(serialize_type << 24 | header_size))
    w.write(header)
    return w.getvalue()


def _json_header(command: Command) -> bytes:
    """Return the JSON header, with keys in Java's order, and without the keys that Java omits."""
    ext = command._ext
    if ext or (ext is not None and command._writes_empty_ext):
        fields: bytes = b'"extFields":%b,' % JSON_ENCODER.encode(ext)
    elif command.raw_ext:
        fields = b'"extFields":%b,' % command.raw_ext
    else:
        fields = b""
    remark = command.remark
    said: bytes = b"" if remark is None else b'"remark":%b,' % JSON_ENCODER.encode(remark)
    return b'{"code":%d,%b"flag":%d,"language":"%b","opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}' % (
        command.code,
        fields,
        command.flag,
        language_name(command.language).encode(),
        command.opaque,
        said,
        command.version,
    )


def _binary_header(command: Command) -> bytes:
    """Return the binary header. A code above 32767 loses its upper bits, as in Java: such requests must be sent as
    JSON."""
    w = BytesWriter()
    write_i16_be(w, i16((command.code & 0x7FFF) - (command.code & 0x8000)))
    w.append(command.language & 0xFF)
    write_i16_be(w, i16((command.version & 0x7FFF) - (command.version & 0x8000)))
    write_i32_be(w, i32(command.opaque))
    write_i32_be(w, i32(command.flag))
    remark = command.remark
    text = b"" if remark is None else remark.encode("utf-8", "replace")
    write_i32_be(w, i32(len(text)))
    w.write(text)
    entries = BytesWriter()
    for key, value in command.ext().items():
        name = key.encode("utf-8", "replace")
        if len(name) > INT16_MAX:
            raise FrameError(f"a field name of {len(name)} bytes does not fit the binary header; shorten it")
        data = value.encode("utf-8", "replace")
        write_i16_be(entries, i16(len(name)))
        entries.write(name)
        write_i32_be(entries, i32(len(data)))
        entries.write(data)
    fields = entries.getvalue()
    write_i32_be(w, i32(len(fields)))
    w.write(fields)
    return w.getvalue()
