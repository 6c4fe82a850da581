"""What a browser sends: fields of an address or of a form, as text and as what the text means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from bolide.console.errors import PageRefused

MAX_FORM: Final = 1024 * 1024
"""Bytes of a form."""
MAX_FIELDS: Final = 500
FORM: Final = "application/x-www-form-urlencoded"
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


class Fields:
    """Names and values; of a name that occurs twice `all` gives both, the others give the last."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = list(pairs)
        self._last = dict(self._pairs)

    def text(self, name: str, default: str = "") -> str:
        """The value without blanks around it."""
        return self._last.get(name, default).strip()

    def raw(self, name: str) -> str:
        """The value as it was typed, with the line ends of a text area as one character."""
        return self._last.get(name, "").replace("\r\n", "\n")

    def all(self, name: str) -> list[str]:
        """Every value of a name."""
        return [value for each, value in self._pairs if each == name]

    def needed(self, name: str, what: str) -> str:
        """A value that must be there. Raises `PageRefused`, which says that `what` is missing."""
        value = self.text(name)
        if not value:
            raise PageRefused(f"{what} is missing")
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**62) -> int:
        """A whole number; `default` where there is none. Raises `PageRefused`."""
        text = self.text(name)
        if not text:
            return default
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            raise PageRefused(f"{name} is {text[:40]!r}: give a whole number from {least:,} to {most:,}")
        return int(text)

    def maybe_number(self, name: str, *, least: int = 0, most: int = 2**31 - 1) -> int | None:
        """The same, None where nothing was typed."""
        return self.number(name, 0, least=least, most=most) if self.text(name) else None

    def on(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.text(name) == "on"

    def moment(self, name: str) -> int | None:
        """A time in UTC as ms since 1970: a date, a date with a time, or that number. Raises `PageRefused`."""
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
        """One of the choices; `default` for anything else."""
        value = self.text(name)
        return value if value in choices else default


async def form_of(request: Request) -> Fields:
    """The fields of a form. Raises `PageRefused` for another type, or too much."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise PageRefused(f"a form of type {FORM} is wanted", 415)
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
