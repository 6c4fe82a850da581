"""Decodes the typed header of a command like a Java server.

Usually msgspec decodes the raw JSON text directly into the struct, with numbers from strings. If it fails, or would
accept more than Java (it reads "1" as true and "null" as no value), the fields are read one by one. Java's rules
(RemotingCommand.java) then apply: an invalid number is null, and only the word "true", ignoring case, is true. A
missing required field raises an error that names it; Java logs it and fails later, with the same response code 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, final

import msgspec

from bolide.remoting.codes import request_name
from bolide.remoting.command import Command
from bolide.remoting.errors import HeaderError
from bolide.remoting.headers.base import BOOL, INT32, TEXT, Header

H = TypeVar("H", bound=Header)
Peer = TypeVar("Peer")
Answer = TypeVar("Answer")

_decoders: dict[type[Header], Any] = {}
_flags: dict[type[Header], tuple[str, ...]] = {}


def decode_header(command: Command, header: type[H]) -> H:
    """Decode the header of `command`. Raises `HeaderError`, which names the field, if a required field is missing."""
    decoder = _decoders.get(header)
    if decoder is None:
        decoder = _prepare(header)
    raw = command.raw_ext
    try:
        # A binary header has no JSON text; its fields were read with the frame.
        ready: Any = decoder.decode(raw) if raw else msgspec.convert(command.ext(), header, strict=False)
    except (ValueError, RecursionError):
        return lenient_header(command, header)
    for name in _flags[header]:
        value = getattr(ready, name)
        if value is True or (value is None and _says_null(command)):
            return lenient_header(command, header)
    decoded: H = ready
    return decoded


@final
class Decoded(Generic[Peer, H, Answer]):
    """A handler that is called with the decoded header."""

    def __init__(self, header: type[H], handler: Callable[[Peer, Command, H, int], Answer]) -> None:
        self._header: type[H] = header
        self._handler: Callable[[Peer, Command, H, int], Answer] = handler

    def answer(self, peer: Peer, command: Command, now: int) -> Answer:
        """Decode the header and call the handler. Raises `HeaderError`, which names the field, if a required field is
        missing."""
        return self._handler(peer, command, decode_header(command, self._header), now)


def _prepare(header: type[Header]) -> Any:
    decoder = msgspec.json.Decoder(header, strict=False)
    _flags[header] = tuple(field.attribute for field in header.fields() if field.kind == BOOL)
    _decoders[header] = decoder
    return decoder


def lenient_header(command: Command, header: type[H]) -> H:
    """Decode the header from the extension fields as strings, by Java's rules. Raises `HeaderError`."""
    ext = command.ext()
    values: dict[str, Any] = {}
    for field in header.fields():
        text = ext.get(field.name)
        value: Any = None
        if text is not None:
            if field.kind == TEXT:
                value = text
            elif field.kind == BOOL:
                value = text.lower() == "true"
            else:
                value = java_int(text, 31 if field.kind == INT32 else 63)
        if value is None and field.required:
            raise HeaderError(_missing(command, header, field.name, text))
        values[field.attribute] = field.default if value is None else value
    return header(**values)


def _says_null(command: Command) -> bool:
    """Return whether a field may be the word null, which msgspec reads as no value, and Java as a false flag."""
    raw = command.raw_ext
    if raw:
        return b"null" in raw.lower()
    return any(text.lower() == "null" for text in command.ext().values())


def _missing(command: Command, header: type[Header], name: str, text: str | None) -> str:
    of = f"{request_name(command.code)} ({header.__name__})"
    if text is None:
        return f"the field {name} of {of} is missing; send it in extFields"
    return f"the field {name} of {of} cannot be {text[:40]!r}; send a decimal number in range"


def java_int(text: str, bits: int) -> int | None:
    """Parse an integer like Integer.parseInt (`bits` 31) or Long.parseLong (63). Return None if the text is not a
    number in range."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal() or len(digits) > 100:  # the bound keeps int() cheap; Java allows leading zeros
        return None
    number = int(text)
    return number if -(1 << bits) <= number < 1 << bits else None
