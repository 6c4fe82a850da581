r"""The text format of java.util.Properties: configuration files, and the bodies of codes 25, 26, 318 and 319.

RocketMQ writes ``key=value`` lines without any escaping (MixAll.java, properties2String), and reads them with Java's
reader. Bytes are Latin-1, ``\\`` escapes, ``#`` and ``!`` start a comment line, and ``=``, ``:`` or whitespace ends a
key. Whitespace after a value belongs to it, and a trailing ``\\`` joins the next line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "f": "\f"}
_WRITTEN: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\f": "\\f"})
_HEX: Final = re.compile(r"[0-9a-fA-F]{4}")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_HALVES: Final = re.compile("[\ud800-\udfff]")


def write_properties(properties: Mapping[str, str]) -> bytes:
    """Return the body that RocketMQ writes: one unescaped line per entry, in UTF-8."""
    return "".join(f"{key}={value}\n" for key, value in properties.items()).encode("utf-8", "replace")


def read_properties(data: bytes) -> dict[str, str]:
    r"""Return what java.util.Properties loads from `data`; the last of equal keys wins. Raises `ValueError` for an
    invalid ``\\u``."""
    return dict(_entry(line) for line in _lines(data.decode("latin-1")))


def read_properties_utf8(data: bytes) -> dict[str, str]:
    """Like `read_properties`, but UTF-8, for Bolide's own files that people edit."""
    return dict(_entry(line) for line in _lines(data.decode("utf-8", "replace")))


def written_value(value: str) -> str:
    """Return the value as one line that is read back unchanged."""
    return value.translate(_WRITTEN)


def lines_of(text: str) -> list[str]:
    """Return the lines as Java's reader splits them: at CR, LF or both, but not at other Unicode line ends."""
    return _LINE_END.split(text)


def _lines(text: str) -> Iterator[str]:
    """Yield logical lines, without leading blanks, comments and empty lines. Joins continued lines."""
    joined = ""
    joining = False
    for line in lines_of(text):
        line = line.lstrip(_BLANKS)
        if not joining and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        joining = backslashes % 2 == 1
        joined += line[:-1] if joining else line
        if not joining:
            yield joined
            joined = ""
    if joined:
        yield joined


def _entry(line: str) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in "=:" and line[at] not in _BLANKS:
        at += 2 if line[at] == "\\" else 1
    key = line[:at]
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return _unescape(key), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        mark = text[at]
        at += 1
        if mark != "\\" or at >= len(text):
            out.append(mark if mark != "\\" else "")
            continue
        mark = text[at]
        at += 1
        if mark == "u":
            digits = text[at : at + 4]
            if not _HEX.fullmatch(digits):
                raise ValueError(f"the escape \\u{digits} is not four hex digits; write \\uXXXX")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(mark, mark))
    found = "".join(out)
    if _HALVES.search(found) is None:
        return found
    # Two escapes may make one character; a half alone cannot be encoded, and is read as Java would write it.
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
