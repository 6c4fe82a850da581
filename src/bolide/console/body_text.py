"""Formats the first `MOST` bytes of a body for display: as text, JSON, decoded by a schema, or in hexadecimal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from bolide.bodies.decoding import as_text
from bolide.bodies.registry import RegistryError, UnfitBody
from bolide.client.messages.received import ReceivedMessage
from bolide.console.render import as_json
from bolide.console.topic_schemas import BodySchema
from bolide.errors import BolideError

MOST: Final = 64 * 1024
"""Maximum number of bytes of a body that a page shows."""
FORMS: Final = ("text", "json", "hex")
DECODED: Final = "decoded"
"""An additional form, for bodies with a schema."""
PREVIEW: Final = 120
"""Characters of a body in a list."""
LINE: Final = 16


@dataclass(frozen=True, slots=True)
class BodyText:
    """A body in one of the `FORMS`, or DECODED. `size` is in bytes. `note` describes any difference from the body."""

    form: str
    text: str
    size: int
    note: str = ""


def body_text(message: ReceivedMessage, form: str, schema: BodySchema | None = None) -> BodyText:
    """Return the body in this form; "" selects a suitable form. `schema` decodes the body, which may call a registry
    and block."""
    try:
        body = message.body
    except BolideError as error:
        return BodyText("hex", hex_lines(message.record.body[:MOST]), len(message.record.body), str(error))
    note = f"the first {MOST:,} bytes of {len(body):,}" if len(body) > MOST else ""
    if schema is not None and form in ("", DECODED):
        try:
            if len(body) > MOST:
                raise UnfitBody(f"{len(body):,} bytes are too long to be decoded here")
            return BodyText(DECODED, as_text(schema.decode(body), indent=2), len(body))
        except (UnfitBody, RegistryError) as error:
            if schema.certain or form == DECODED or isinstance(error, RegistryError):
                note = "; ".join(filter(None, (f"{error}: shown as text", note)))
            form = "text" if schema.certain or form == DECODED else ""
    if form not in FORMS:
        form = _fitting(body)
    if form == "hex":
        return BodyText(form, hex_lines(body[:MOST]), len(body), note)
    if form == "json":
        try:
            if len(body) > MOST:
                raise ValueError("too long")
            return BodyText(form, as_json(json.loads(body)), len(body))
        except (ValueError, RecursionError):
            note = "; ".join(filter(None, ("this is not JSON: shown as text", note)))
    return BodyText(form, printed(body[:MOST].decode("utf-8", "replace")), len(body), note)


def _fitting(body: bytes) -> str:
    if body[:1] in (b"{", b"[") and len(body) <= MOST:
        try:
            json.loads(body)
        except (ValueError, RecursionError):
            return "text"
        return "json"
    try:
        text = body[:MOST].decode("utf-8")
    except UnicodeDecodeError:
        return "hex" if b"\0" in body or len(body) <= MOST else "text"
    return "hex" if "\0" in text else "text"


def printed(text: str) -> str:
    """Replace unprintable characters, except newlines and tabs, with escapes."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )


def hex_lines(body: bytes) -> str:
    """Return a hex dump with 16 bytes per line: offset, bytes, and the printable ASCII characters."""
    lines = []
    for at in range(0, len(body), LINE):
        part = body[at : at + LINE]
        shape = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {shape}")
    return "\n".join(lines)


def preview(message: ReceivedMessage) -> str:
    """Return the start of a body on one line, at most `PREVIEW` characters."""
    try:
        body = message.body
    except BolideError as error:
        return f"({error})"
    try:
        text = body[: PREVIEW * 4].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(body[: PREVIEW * 4]) - 3:
            return body[: PREVIEW // 3].hex(" ")
        text = body[: error.start].decode("utf-8")
    line = printed(" ".join(text.split()))
    return line[:PREVIEW] + ("…" if len(line) > PREVIEW or len(body) > PREVIEW * 4 else "")
