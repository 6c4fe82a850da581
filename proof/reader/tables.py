"""JSON as Java's brokers write it, in bodies and in the files of tables: keys may be numbers and objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from proof.reader.errors import Unreadable

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
_TOKEN: Final = re.compile(r'\s*(?:([{}\[\],:])|"((?:[^"\\\0]|\\.)*)"|([^\s{}\[\],:"]+))', re.DOTALL | re.ASCII)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_WORDS: Final = {"null": None, "true": True, "false": False}
_END: Final = ("end", None, None)
_Tokens: TypeAlias = "list[tuple[str | None, ...]]"


def read_json(data: bytes) -> Value:
    """Read one value with nothing after it. Raises `Unreadable`."""
    text = data.decode("utf-8", "surrogateescape").strip()
    tokens: _Tokens = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise Unreadable(f"no JSON at {at}: {text[at : at + 40]!r}")
        tokens.append(found.groups())
        at = found.end()
    tokens = [_END, *reversed(tokens)]
    value = _value(tokens)
    _take(tokens, "end")
    return value


def _value(tokens: _Tokens) -> Value:
    mark, text, word = tokens.pop()
    if mark == "{":
        found: dict[str, Value] = {}
        for _ in _items(tokens, "}"):
            key = _value(tokens)
            _take(tokens, ":")
            found[key if isinstance(key, str) else canonical(key)] = _value(tokens)
        return found
    if mark == "[":
        return [_value(tokens) for _ in _items(tokens, "]")]
    if text is not None:
        return _ESCAPE.sub(_unescaped, text)
    if word in _WORDS:
        return _WORDS[word]
    try:
        return int(word) if word and word.lstrip("-").isdigit() else float(word or "")
    except ValueError:
        raise Unreadable(f"{mark or word!r} instead of a value") from None


def _items(tokens: _Tokens, end: str) -> Iterator[None]:
    """Yield before each item of an object or array; removes its commas and its end."""
    while tokens[-1][0] != end:
        yield
        if tokens[-1][0] != end:
            _take(tokens, ",")
    tokens.pop()


def _take(tokens: _Tokens, mark: str) -> None:
    if tokens.pop()[0] != mark:
        raise Unreadable(f"{mark!r} is missing in the JSON")


def _unescaped(found: re.Match[str]) -> str:
    code, byte, char = found.groups()
    return chr(int(code or byte, 16)) if char is None else _CONTROLS.get(char, char)


def canonical(value: Value) -> str:
    """Return one text for equal values, independent of the order of keys."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}={canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
