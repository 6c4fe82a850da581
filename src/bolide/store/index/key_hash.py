"""The hash of a key in the index: Java's String.hashCode of `topic#key`, without its sign."""

from __future__ import annotations

from mypy_extensions import i64


def continue_hash(start: i64, text: str) -> i64:
    """Return Java's String.hashCode of ``prefix + text`` as an unsigned 32-bit number. `start` is the hash of the
    prefix."""
    h: i64 = start
    n: i64 = len(text)
    i: i64 = 0
    while i < n:
        c: i64 = ord(text[i])
        if c > 0xFFFF:  # Java hashes the two UTF-16 units of such a character
            c -= 0x10000
            h = (31 * h + 0xD800 + (c >> 10)) & 0xFFFFFFFF
            c = 0xDC00 + (c & 0x3FF)
        h = (31 * h + c) & 0xFFFFFFFF
        i += 1
    return h


def key_hash(unsigned: i64) -> i64:
    """Return the hash stored in an entry: the absolute value of the signed 32-bit number, or 0 for the minimum, whose
    absolute value does not fit."""
    if unsigned < 0x80000000:
        return unsigned
    return 0 if unsigned == 0x80000000 else 0x100000000 - unsigned
