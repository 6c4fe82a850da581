"""The nodes of a compiled SQL92 filter, with the evaluation rules of RocketMQ's filter expressions.

Values are those of Java: null, Boolean, Integer, Long, Double and String are None, bool, int, int, float and str. An
int is an Integer if its magnitude fits in 31 bits, otherwise a Long (literals are not negative, so there is no other
case). Property values are always strings, and are converted to the type they are compared with; a failed conversion is
an error, and an error excludes the message.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

from mypy_extensions import mypyc_attr

from bolide.errors import PeerError
from bolide.layout.words import java_trim

MAX_INTEGER: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1

_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_DOUBLE: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_REMEMBERED: Final = 64
"""Texts recently read as numbers: one property is often compared many times, and may be long."""


@mypyc_attr(native_class=False)
class EvaluationError(PeerError):
    """A property cannot be read as the type it is compared with; the message is not delivered."""


@lru_cache(_REMEMBERED)
def read_whole(text: str, greatest: int) -> int:
    """Text as Java's Integer.valueOf (or Long.valueOf) reads it: sign and decimal digits of any script, no blanks."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    significant = digits.lstrip("0")
    if digits.isdecimal() and len(significant) <= 19 and all(ord(digit) < 0x10000 for digit in significant):
        value = int(text)
        if -greatest - 1 <= value <= greatest:
            return value
    raise EvaluationError(f"{text!r} is not a whole number up to {greatest}; compare it with a literal of its type")


@lru_cache(_REMEMBERED)
def read_double(text: str) -> float:
    """Text as Java's Double.valueOf reads it: trimmed, with d or f suffix, NaN, Infinity, hexadecimal with exponent."""
    trimmed = java_trim(text)
    if _DOUBLE.fullmatch(trimmed) is not None:
        return float(trimmed if trimmed[-1] in "yN" else trimmed.rstrip("fFdD"))
    found = _HEX_DOUBLE.fullmatch(trimmed)
    if found is None:
        raise EvaluationError(f"{text!r} is not a number; compare it with text")
    try:
        return float.fromhex(found.group(1))
    except OverflowError:
        return -math.inf if trimmed[0] == "-" else math.inf


def compare_doubles(left: float, right: float) -> int:
    """Order of Double.compareTo: NaN equals itself and is above all, -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        signs = math.copysign(1.0, left) - math.copysign(1.0, right)
        return 0 if left != 0.0 or signs == 0.0 else (-1 if signs < 0 else 1)
    return int(math.isnan(left)) - int(math.isnan(right))


def _order(left: int, right: int) -> int:
    return (left > right) - (left < right)


def compare(left: object, right: object) -> int:
    """Compare two values as Java does after converting one to the type of the other, or -1 if that fails."""
    if isinstance(left, bool):
        if isinstance(right, str):
            raise EvaluationError("TRUE and FALSE must be to the right of the property they are compared with")
        return _order(left, right) if isinstance(right, bool) else -1
    if isinstance(left, str):
        if isinstance(right, str):
            return 0 if left == right else -1
        if isinstance(right, bool):
            return _order(left.lower() == "true", right)
        if isinstance(right, int):
            return _order(read_whole(left, _limit(right)), right)
        if isinstance(right, float):
            return compare_doubles(read_double(left), right)
        return -1
    if isinstance(left, int):
        if isinstance(right, str):
            return _order(left, read_whole(right, _limit(left)))
        if isinstance(right, bool):
            return -1
        if isinstance(right, int):
            return _order(left, right)
        return compare_doubles(float(left), right) if isinstance(right, float) else -1
    if isinstance(left, float):
        if isinstance(right, str):
            return compare_doubles(left, read_double(right))
        if isinstance(right, bool):
            return -1
        if isinstance(right, int):
            return compare_doubles(left, float(right))
        return compare_doubles(left, right) if isinstance(right, float) else -1
    return -1


def _limit(number: int) -> int:
    return MAX_INTEGER if -MAX_INTEGER <= number <= MAX_INTEGER else MAX_LONG


class SqlNode:
    """Part of an expression. `depth` bounds how deep evaluation recurses."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def evaluate(self, properties: dict[str, str]) -> object:
        """The value for a message with these properties. Raises `EvaluationError`."""
        raise AssertionError("every node has its own rule")


class BooleanNode(SqlNode):
    """A part whose value is True, False or None."""


class Constant(SqlNode):
    """A number or text of the expression."""

    def __init__(self, value: object) -> None:
        super().__init__(1)
        self.value = value

    def evaluate(self, properties: dict[str, str]) -> object:
        """Itself."""
        return self.value


class BooleanConstant(BooleanNode):
    """TRUE, FALSE or NULL."""

    def __init__(self, value: bool | None) -> None:
        super().__init__(1)
        self.value = value

    def evaluate(self, properties: dict[str, str]) -> object:
        """Itself."""
        return self.value


class Property(SqlNode):
    """A name: the text of the message's property, or None."""

    def __init__(self, name: str) -> None:
        super().__init__(1)
        self.name = name

    def evaluate(self, properties: dict[str, str]) -> object:
        """The property's text."""
        return properties.get(self.name)


class Cast(BooleanNode):
    """A bare name where a condition belongs: null stays null, any text is false, also "true"."""

    def __init__(self, name: str) -> None:
        super().__init__(1)
        self.name = name

    def evaluate(self, properties: dict[str, str]) -> object:
        """Return None or False."""
        return None if properties.get(self.name) is None else False


class Negate(SqlNode):
    """Unary minus: negates a number; null for anything else, even for text that reads as a number."""

    def __init__(self, operand: SqlNode) -> None:
        super().__init__(operand.depth + 1)
        self.operand = operand

    def evaluate(self, properties: dict[str, str]) -> object:
        """The negated number or None."""
        value = self.operand.evaluate(properties)
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return -value
        return -value if isinstance(value, float) else None


class Not(BooleanNode):
    """NOT: null stays null."""

    def __init__(self, operand: BooleanNode) -> None:
        super().__init__(operand.depth + 1)
        self.operand = operand

    def evaluate(self, properties: dict[str, str]) -> object:
        """The opposite."""
        value = self.operand.evaluate(properties)
        return None if value is None else value is False


class Chain(BooleanNode):
    """AND (`decides` False) or OR (`decides` True) over two or more operands, left to right.

    The first operand with the deciding value ends it; an error before that is an error of the whole; a null makes
    the rest null.
    """

    def __init__(self, operands: list[BooleanNode], decides: bool) -> None:
        super().__init__(1 + max([operand.depth for operand in operands]))
        self.operands = operands
        self.decides = decides

    def evaluate(self, properties: dict[str, str]) -> object:
        """Three-valued logic."""
        unknown = False
        for operand in self.operands:
            value = operand.evaluate(properties)
            if value is self.decides:
                return self.decides
            if value is None:
                unknown = True
        return None if unknown else not self.decides


class Equal(BooleanNode):
    """Equality, also for ``<>`` and IS NULL: null on the left alone is null, on the right alone false."""

    def __init__(self, left: SqlNode, right: SqlNode) -> None:
        super().__init__(1 + max(left.depth, right.depth))
        self.left = left
        self.right = right

    def evaluate(self, properties: dict[str, str]) -> object:
        """Whether both are the same."""
        left = self.left.evaluate(properties)
        right = self.right.evaluate(properties)
        if left is None:
            return True if right is None else None
        return right is not None and compare(left, right) == 0


class Ordered(BooleanNode):
    """``<``, ``<=``, ``>`` and ``>=``: null where either side is; two texts are compared as numbers."""

    def __init__(self, left: SqlNode, symbol: str, right: SqlNode) -> None:
        super().__init__(1 + max(left.depth, right.depth))
        self.left = left
        self.right = right
        self.below = symbol[0] == "<"
        self.equal = len(symbol) == 2

    def evaluate(self, properties: dict[str, str]) -> object:
        """Whether the order holds."""
        left = self.left.evaluate(properties)
        if left is None:
            return None
        right = self.right.evaluate(properties)
        if right is None:
            return None
        if isinstance(left, str) and isinstance(right, str):
            order = compare_doubles(read_double(left), read_double(right))
        else:
            order = compare(left, right)
        if order == 0:
            return self.equal
        return (order < 0) is self.below


class In(BooleanNode):
    """IN and NOT IN over texts: null where the property is missing."""

    def __init__(self, name: str, texts: frozenset[str], negated: bool) -> None:
        super().__init__(1)
        self.name = name
        self.texts = texts
        self.negated = negated

    def evaluate(self, properties: dict[str, str]) -> object:
        """Whether the property is one of the texts."""
        value = properties.get(self.name)
        return None if value is None else (value in self.texts) is not self.negated


class Search(BooleanNode):
    """CONTAINS, STARTSWITH and ENDSWITH of 5.x: never true for null, a value other than text, or an empty literal.

    That also applies to their NOT forms, which therefore are not the opposite of the plain ones.
    """

    def __init__(self, operand: SqlNode, word: str, sought: str, negated: bool) -> None:
        super().__init__(operand.depth + 1)
        self.operand = operand
        self.word = word
        self.sought = sought
        self.negated = negated

    def evaluate(self, properties: dict[str, str]) -> object:
        """Whether the text is found where the word says."""
        if not self.sought:
            return False  # without looking at the operand, whose error therefore does not count
        value = self.operand.evaluate(properties)
        if not isinstance(value, str):
            return False
        if self.word == "CONTAINS":
            found = self.sought in value
        elif self.word == "STARTSWITH":
            found = value.startswith(self.sought)
        else:
            found = value.endswith(self.sought)
        return found is not self.negated
