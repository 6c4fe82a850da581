"""Address expressions in the files of ACL 1: lists, alternatives for the last part, ranges (docs/protocol/acl.md 2).

Rejects every expression that RocketMQ rejects, and two forms that RocketMQ accepts but then fails on at every request.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final, TypeAlias

Matches: TypeAlias = Callable[[str], bool]
EVERYBODY: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
MAPPED_IPV4: Final = "::ffff:"


class BadAddress(Exception):
    """An invalid address expression."""


def unmapped(address: str) -> str:
    """Return the IPv4 address in an IPv4-mapped IPv6 address. Return any other address unchanged."""
    return address.removeprefix(MAPPED_IPV4) if "." in address else address


def matcher(expression: str) -> Matches:
    """Return a function that tests whether an address (without port) matches the expression. Raises `BadAddress`."""
    text = expression.strip()
    if not text:
        return lambda address: False
    if text in EVERYBODY:
        return lambda address: True
    if text.endswith("}"):
        head, brace, tail = text[:-1].partition("{")
        if not brace:
            raise BadAddress(expression)
        return _one_of([head + part for part in tail.split(",")], expression)
    if "," in text:
        return _one_of(text.split(","), expression)
    if "*" in text or "-" in text:
        return _ranged(text)
    return _one_of([text], expression)


def _one_of(texts: list[str], expression: str) -> Matches:
    try:
        wanted = frozenset(map(ipaddress.ip_address, texts))
    except ValueError:
        raise BadAddress(expression) from None
    return lambda address: _parsed(address) in wanted


def _ranged(text: str) -> Matches:
    """Match the parts before the first `*` or range exactly, and ignore the parts after it, as in Java."""
    mark, count, most, base = (":", 8, 0xFFFF, 16) if ":" in text else (".", 4, 255, 10)
    parts = _expanded(text) if mark == ":" else text.split(mark)
    place = next(index for index, part in enumerate(parts) if part == "*" or "-" in part)
    try:
        bounds = [_bounds(part, most, base) for part in parts]
    except ValueError:
        raise BadAddress(text) from None
    if len(parts) != count or place == 0 or (mark == ":" and "*" in parts[:-1] and set(parts[place:]) != {"*"}):
        raise BadAddress(text)
    head = [low for low, _ in bounds[:place]]
    low, high = bounds[place]

    def matches(address: str) -> bool:
        parsed = _parsed(address)
        if parsed is None or (parsed.version == 6) != (mark == ":"):
            return False
        numbers = [int(part, base) for part in parsed.exploded.split(mark)]
        return numbers[:place] == head and low <= numbers[place] <= high

    return matches


def _bounds(part: str, most: int, base: int) -> tuple[int, int]:
    if part == "*":
        return 0, most
    first, dash, last = part.partition("-")
    if not all(word.isascii() and word.isalnum() for word in (first, last or first)) or (dash and not last):
        raise ValueError(part)
    low, high = int(first, base), int(last or first, base)
    if not low <= high <= most or (dash and high == 0):
        raise ValueError(part)
    return low, high


def _expanded(text: str) -> list[str]:
    """Return the groups of an IPv6 expression with `::` expanded to zeros. Raises `BadAddress` if `::` is misplaced."""
    head, double, tail = text.partition("::")
    front, back = [part.split(":") if part else [] for part in (head, tail)]
    if not double:
        return front
    missing = 8 - len(front) - len(back)
    if missing < 1 or "::" in tail:
        raise BadAddress(text)
    return [*front, *["0"] * missing, *back]


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None
