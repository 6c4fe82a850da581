"""JSON as RocketMQ's Java brokers and clients write it, which is not valid JSON.

fastjson (4.9) and fastjson2 (5.5) write maps with bare integer keys (``{0:"a:1"}``), and maps keyed by a MessageQueue
with the object itself as the key (``{{"brokerName":"b",...}:5}``). 4.9 also writes a repeated instance as
``{"$ref":"$.a.b"}``. Both also read single quotes, trailing commas, bare names and comments. This reader accepts all of
these, and is used only if the strict decoder fails; a key that is an object becomes an `ObjectKey`. It rejects text
after the value, and nesting deeper than `MAX_DEPTH` (a peer must not exhaust our stack).
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from bolide.remoting.errors import BodyError

MAX_DEPTH: Final = 100
MAX_KEY_TEXT: Final = 65_536
MAX_TEXT: Final = 1024 * 1024
MAX_ANSWER: Final = 64 * 1024 * 1024
"""Maximum length of a broker's response to a client's request: the limit of a frame."""
MAX_FILE: Final = 1 << 30
"""Maximum length of a file on the local disk."""

_SPACE: Final = re.compile(r"(?:[\s\ufeff]+|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_INT_KEY: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|(?<=[{,])(\s*+)(-?\d++)(?=\s*+:)', re.DOTALL)
_BARE: Final = re.compile(r"[A-Za-z_$][\w$.\-]*")
_PLAIN: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "NaN": None}


class ObjectKey(str):
    """A map key that was written as an object: its text is JSON, its `value` the decoded mapping."""

    __slots__ = ("value",)

    value: dict[str, Any]


def object_key(value: dict[str, Any]) -> ObjectKey:
    """Return the key for a mapping. Equal mappings have equal keys, whatever their order."""
    key = ObjectKey(msgspec.json.encode(value, order="sorted").decode())
    key.value = value
    return key


def parse_lenient(data: bytes | str, references: bool = True, limit: int = MAX_TEXT) -> Any:
    """Return the value that a Java peer would read from `data`; integers of any size stay exact.

    `references`: replace each ``$ref`` with its value (shared, not copied). `limit`: maximum length in bytes or
    characters, because this reader is a hundred times slower than the strict one and runs on the loop. Bytes that are
    not UTF-8 are read as U+FFFD, as in Java. Raises `BodyError` with the position of the error.
    """
    if len(data) > limit:
        raise BodyError(f"JSON of {len(data)} bytes is not strict and too long to be read leniently; send strict JSON")
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    value = _Reader(text).document()
    if references and ('"$ref"' in text or "'$ref'" in text):
        _resolve(value, value, [])
    return value


def parse_long(data: bytes, limit: int = MAX_FILE) -> Any:
    """Return the value of a local file, or of a response to a client's request (`MAX_ANSWER`), of any length.

    Tries strict JSON of any length; then, up to `limit` bytes, JSON with bare integer keys, which is the form of Java's
    long tables; then the lenient reader. Raises `BodyError`.
    """
    value = _strict(data)
    if value is None and len(data) <= limit:
        value = _strict(quoted_keys(data))
    if value is None:
        return parse_lenient(data, limit=limit)
    if b'"$ref"' in data:
        try:
            _resolve(value, value, [])
        except RecursionError:
            raise BodyError("JSON cannot be read: references in nesting as deep as this are not followed") from None
    return value


def _strict(data: bytes) -> Any:
    """Return the value of strict JSON, or None for anything else (and for null)."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):  # msgspec's errors are among these
        return None


def quoted_keys(data: bytes) -> bytes:
    """Add quotes around bare integer keys: ``{0:"a"}`` becomes ``{"0":"a"}``.

    Skips strings. If the result is strict JSON, the text was strict JSON except for bare keys: other lenient forms
    (single quotes, comments) are unchanged and still rejected.
    """
    return _INT_KEY.sub(lambda found: found.group() if found[2] is None else b'%b"%b"' % (found[1], found[2]), data)


class _Reader:
    """Reads a text in one pass. `at` is the next position."""

    __slots__ = ("at", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> Any:
        value = self.value(0)
        if self.peek():
            raise self.wrong("text after the value")
        return value

    def wrong(self, what: str) -> BodyError:
        return BodyError(f"JSON cannot be read: {what} at character {self.at}; send one well-formed value")

    def peek(self) -> str:
        """Return the next significant character, or "" at the end."""
        found = _SPACE.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self.wrong(f"nesting deeper than {MAX_DEPTH}")
        first = self.peek()
        if first == "{":
            return self.mapping(depth)
        if first == "[":
            return self.sequence(depth)
        if first in ('"', "'") and first:
            return self.string(first)
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            return self.number(number)
        word = _BARE.match(self.text, self.at)
        if word is None or word.group() not in _WORDS:
            raise self.wrong("no value")
        self.at = word.end()
        return _WORDS[word.group()]

    def number(self, found: re.Match[str]) -> int | float:
        text = found.group()
        if len(text) > 400:  # int() of millions of digits takes minutes
            raise self.wrong("a number of more than 400 characters")
        self.at = found.end()
        if self.text[self.at : self.at + 1] in ("L", "l", "B", "S"):  # fastjson's type suffixes
            self.at += 1
        return float(text) if any(mark in text for mark in ".eE") else int(text)

    def string(self, quote: str) -> str:
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN[quote].match(self.text, self.at)
            assert plain is not None  # the pattern matches an empty text
            parts.append(plain.group())
            self.at = plain.end()
            mark = self.text[self.at : self.at + 1]
            if not mark:
                raise self.wrong("a text without its closing quote")
            self.at += 1
            if mark == quote:
                break
            parts.append(self.escape())
        text = "".join(parts)
        # Two \u escapes may make one character; a half alone is read as Java writes it in UTF-8.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _has_surrogate(text) else text

    def escape(self) -> str:
        mark = self.text[self.at : self.at + 1]
        self.at += 1
        if mark == "u" or mark == "x":
            digits = self.text[self.at : self.at + (4 if mark == "u" else 2)]
            self.at += len(digits)
            try:
                return chr(int(digits, 16))
            except ValueError:
                raise self.wrong("an escape without its hex digits") from None
        return _ESCAPES.get(mark, mark)

    def sequence(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while True:
            mark = self.peek()
            if mark == "]":
                self.at += 1
                return items
            items.append(self.value(depth + 1))
            self.after_item("]")

    def mapping(self, depth: int) -> dict[str, Any]:
        self.at += 1
        items: dict[str, Any] = {}
        while True:
            mark = self.peek()
            if mark == "}":
                self.at += 1
                return items
            key = self.key(depth)
            if self.peek() != ":":
                raise self.wrong("a key without its colon")
            self.at += 1
            items[key] = self.value(depth + 1)
            self.after_item("}")

    def after_item(self, end: str) -> None:
        mark = self.peek()
        if mark == ",":
            self.at += 1
        elif mark != end:
            raise self.wrong(f"neither a comma nor {end}")

    def key(self, depth: int) -> str:
        first = self.peek()
        if first in ('"', "'") and first:
            return self.string(first)
        if first == "{":
            start = self.at
            value = self.value(depth + 1)
            if self.at - start > MAX_KEY_TEXT:
                raise self.wrong(f"a key of more than {MAX_KEY_TEXT} characters")
            return object_key(value)
        found = _NUMBER.match(self.text, self.at) or _BARE.match(self.text, self.at)
        if found is None:
            raise self.wrong("no key")
        self.at = found.end()
        return found.group()


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _resolve(value: Any, root: Any, above: list[int]) -> None:
    """Replace every ``$ref`` below `value`, in place and in the order in which fastjson wrote them.

    A reference without a target is read as null, as in fastjson. A reference to an enclosing container is also read as
    null: it would create a cycle, and RocketMQ's bodies do not contain it.
    """
    above.append(id(value))
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        if isinstance(item, dict) and len(item) == 1 and "$ref" in item:
            found = _lookup(root, str(item["$ref"]))
            value[key] = None if id(found) in above or (isinstance(found, dict) and "$ref" in found) else found
        elif isinstance(item, (dict, list)):
            _resolve(item, root, above)
    above.pop()


def _lookup(root: Any, path: str) -> Any:
    """Return the target of ``$.a.b[0]``; RocketMQ's bodies do not contain the relative forms ``..`` and ``@``."""
    here = root
    for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
        if name and isinstance(here, dict):
            here = here.get(name)
        elif index and isinstance(here, list) and int(index) < len(here):
            here = here[int(index)]
        else:
            return None
    return here
