"""Parses times on the command line, in the same format for all options."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from bolide.errors import ConfigError

FORMS: Final = "2026-01-31T12:00+01:00, 2026-01-31T11:00Z, or ms since 1970"


def moment_of(option: str, text: str) -> int | datetime:
    """Parse ms since 1970, or a time with its zone.

    Raises `ConfigError` if the text is not a time or lacks a zone, and `ArgumentError` for seconds since 1970.
    """
    text = text.strip()
    try:
        found = int(text) if text.isdecimal() and len(text) <= 13 else datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} {text!r} is not a time: write {FORMS}") from None
    if isinstance(found, datetime) and found.tzinfo is None:
        raise ConfigError(f"{option} {text!r} has no time zone: write {FORMS}")
    from bolide.client.messages.moment import moment_ms  # the daemons share this command line and need no client

    moment_ms(option, found)
    return found


def start_of(option: str, text: str) -> Literal["first", "last"] | int | datetime:
    """Parse a position in a topic: first, last, or a time. Raises the errors of `moment_of`."""
    if text == "first" or text == "last":
        return "first" if text == "first" else "last"
    try:
        return moment_of(option, text)
    except ConfigError as error:
        raise ConfigError(str(error).replace("write ", "write first, last, ", 1)) from None
