"""Converts the text of an option: numbers, switches, lists of names, times. Each error names the option."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from bolide.errors import ConfigError
from bolide.layout.words import java_trim
from bolide.spark.errors import OptionError
from bolide.transport.address import split_address

_TRUE: Final = frozenset({"true", "1", "yes"})
_FALSE: Final = frozenset({"false", "0", "no"})


def whole_number(least: int, most: int) -> Callable[[str, str], int]:
    """Return a reader of options that are whole numbers from `least` to `most`. It raises `OptionError`."""

    def parse(name: str, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise OptionError(f"option {name} must be a whole number from {least} to {most}, not {text!r}")
        return value

    return parse


def as_it_is(name: str, text: str) -> str:
    """Return the text of an option unchanged."""
    return text


def either(words: Sequence[str]) -> str:
    """Join the words as in a sentence: "a, b or c"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def one_of(*words: str) -> Callable[[str, str], str]:
    """Return a reader of options that are one of these words. It raises `OptionError`."""
    allowed = either(words)

    def parse(name: str, text: str) -> str:
        if text not in words:
            raise OptionError(f"option {name} must be {allowed}, not {text!r}")
        return text

    return parse


def true_or_false(name: str, text: str) -> bool:
    """Parse a boolean option. Raises `OptionError`."""
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise OptionError(f"option {name} must be true or false, not {text!r}")


def comma_names(name: str, text: str) -> tuple[str, ...]:
    """Parse an option that lists names. Raises `OptionError` if it is empty."""
    names = tuple(part for part in map(java_trim, text.replace(";", ",").split(",")) if part)
    if not names:
        raise OptionError(f"option {name} is empty; give at least one name")
    return names


def addresses(name: str, text: str) -> tuple[str, ...]:
    """Parse an option that lists addresses. Raises `OptionError`."""
    found = comma_names(name, text)
    for address in found:
        try:
            host, _ = split_address(address)
        except ConfigError as error:
            raise OptionError(f"option {name}: {error}") from None
        if "/" in host:
            raise OptionError(f"option {name}: {address!r} is a URL, write host:port")
    return found


def client_name(name: str, text: str) -> str:
    """Parse an option with the name of a group, or its start. Raises `OptionError`."""
    if not re.fullmatch(r"[%|\w-]{1,200}", text, re.ASCII):
        raise OptionError(f"option {name} takes up to 200 letters, digits and % | - _ only, not {text!r}")
    return text


def moment(name: str, text: str) -> int:
    """Return a time in ms since the epoch, given such a number or ISO 8601 with a zone. Raises `OptionError`."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return whole_number(0, 1 << 62)(name, text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise OptionError(
            f"option {name} must be ms since 1970 or a time with a zone such as 2026-03-01T00:00:00Z, not {text!r}"
        )
    return round(parsed.timestamp() * 1000)


def milliseconds(name: str, text: str) -> int:
    """Return a duration in ms, given a number of ms or a number with a unit as in 90s, 15m, 2h. Raises
    `OptionError`."""
    text = text.strip()
    for unit, factor in (("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)):
        number = text.removesuffix(unit).strip()
        if number != text and number.isascii() and number.isdigit():
            return int(number) * factor
    if not (text.isascii() and text.isdigit()):
        raise OptionError(f"option {name} must be a duration such as 90s, 15m or 2h, or ms, not {text!r}")
    return int(text)


def mounted_folder(text: str, name: str) -> str:
    """Return a local or mounted folder without the scheme `file:`. Raises `OptionError` for another scheme."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", text)
    if scheme is None:
        return text.rstrip("/") if len(text) > 1 else text
    if scheme.group(1).lower() != "file":
        advice = "set commitLog to such a folder" if name == "checkpointLocation" else "mount it, or give another"
        raise OptionError(
            f"option {name} must be a folder that is mounted here, with renames and locks, not {text}: {advice}"
        )
    return "/" + text[scheme.end() :].strip("/")
