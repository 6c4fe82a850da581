"""Parses the fields of a URL or form that a browser sends, as text and as typed values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from bolide.console.errors import PageRefused

MAX_FORM: Final = 1024 * 1024
"""Maximum size of a form in bytes."""
MAX_FIELDS: Final = 500
FORM: Final = "application/x-www-form-urlencoded"
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


class Fields:
    """Names and values. If a name occurs several times, `all` returns each value, other methods return the last."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = list(pairs)
        self._last = dict(self._pairs)

    def text(self, name: str, default: str = "") -> str:
        """Return the value without surrounding white space, or `default` if the field is missing."""
        return self._last.get(name, default).strip()

    def raw(self, name: str) -> str:
        """Return the value unstripped, with each CRLF of a text area replaced by a newline."""
        return self._last.get(name, "").replace("\r\n", "\n")

    def all(self, name: str) -> list[str]:
        """Return all values of a name."""
        return [value for each, value in self._pairs if each == name]

    def needed(self, name: str, what: str) -> str:
        """Return a required value. Raises `PageRefused` with "`what` is missing" if it is empty."""
        value = self.text(name)
        if not value:
            raise PageRefused(f"{what} is missing")
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**62) -> int:
        """Return an integer, or `default` if the field is empty. Raises `PageRefused` if it is not in the range."""
        text = self.text(name)
        if not text:
            return default
        if not _WHOLE.fullmatch(text.removeprefix("-")) or not least <= int(text) <= most:
            raise PageRefused(f"{name} is {text[:40]!r}: give a whole number from {least:,} to {most:,}")
        return int(text)

    def maybe_number(self, name: str, *, least: int = 0, most: int = 2**31 - 1) -> int | None:
        """Return an integer, or None if the field is empty. Raises `PageRefused` if it is not in the range."""
        return self.number(name, 0, least=least, most=most) if self.text(name) else None

    def on(self, name: str) -> bool:
        """Return whether a checkbox is checked."""
        return self.text(name) == "on"

    def moment(self, name: str) -> int | None:
        """Return a UTC time in ms since 1970, or None if the field is empty. The field contains an ISO date, with or
        without a time, or the number of ms. Raises `PageRefused` if it is invalid."""
        text = self.text(name)
        if not text:
            return None
        if _WHOLE.fullmatch(text):
            return int(text)
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise PageRefused(f"{name} is {text[:40]!r}: give a time like 2026-11-23T09:30, in UTC") from None
        return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)

    def chosen(self, name: str, choices: Iterable[str], default: str) -> str:
        """Return the value if it is one of `choices`, otherwise `default`."""
        value = self.text(name)
        return value if value in choices else default


async def form_of(request: Request) -> Fields:
    """Return the fields of a form. Raises `PageRefused` if its content type is wrong, or it is invalid or too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise PageRefused(f"the content type of a form must be {FORM}", 415)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM:
            raise PageRefused(f"the form is longer than {MAX_FORM:,} bytes", 413)
    try:
        return Fields(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
        )
    except ValueError:
        raise PageRefused("the form cannot be read: it has too many fields, or is not UTF-8") from None
