"""New inputs from old ones: what the plain engine tries, the same for the same random numbers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

from proof.fuzz.choices import NUMBERS

_DECIMAL: Final = re.compile(rb"-?\d+")
_WIDTHS: Final = (1, 2, 4, 8)
MOST_CHANGES: Final = 6


def mutated(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes], largest: int) -> bytes:
    """`data` after one to six changes; `others` are pieces to splice in, `words` those of its language."""
    for _ in range(min(chance.getrandbits(3) % MOST_CHANGES + 1, 1 + chance.getrandbits(3))):
        change = chance.choice(_CHANGES)
        data = change(data, chance, others, words)
    return data[:largest]


Change = Callable[[bytes, random.Random, Sequence[bytes], Sequence[bytes]], bytes]


def _place(data: bytes, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _flip(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    if not data:
        return bytes([chance.getrandbits(8)])
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _set(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    at = _place(data, chance)
    return data[:at] + bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.getrandbits(8)))]) + data[at + 1 :]


def _insert(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    at = _place(data, chance)
    return data[:at] + chance.randbytes(chance.choice((1, 1, 2, 4, 8, 20))) + data[at:]


def _cut(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    at, end = sorted((_place(data, chance), _place(data, chance)))
    return data[:at] + data[min(end, at + 32) :]


def _truncate(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    return data[: _place(data, chance)]


def _repeat(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    at, end = sorted((_place(data, chance), _place(data, chance)))
    piece = data[at:end][:64]
    return data[:end] + piece * chance.choice((1, 1, 2, 10, 100)) + data[end:]


def _splice(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    if not others:
        return data
    other = chance.choice(others)
    return data[: _place(data, chance)] + other[_place(other, chance) :]


def _word(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    if not words:
        return _insert(data, chance, others, words)
    at, word = _place(data, chance), chance.choice(words)
    return data[:at] + word + data[at + (len(word) if chance.getrandbits(1) else 0) :]


def _decimal(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    found = list(_DECIMAL.finditer(data))
    if not found:
        return _binary(data, chance, others, words)
    match = chance.choice(found)
    return data[: match.start()] + b"%d" % chance.choice(NUMBERS) + data[match.end() :]


def _binary(data: bytes, chance: random.Random, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    width = chance.choice(_WIDTHS)
    if len(data) < width:
        return data
    at = chance.randrange(len(data) - width + 1)
    number = int.from_bytes(data[at : at + width], "big") + chance.randrange(-2, 3)
    if chance.getrandbits(1):
        number = chance.choice((*NUMBERS, len(data), len(data) - at))
    return data[:at] + (number & (1 << 8 * width) - 1).to_bytes(width, "big") + data[at + width :]


_CHANGES: Final[tuple[Change, ...]] = (
    *(_flip, _flip, _set, _set, _insert, _cut, _truncate, _repeat, _splice, _word, _word, _decimal, _binary, _binary),
)
