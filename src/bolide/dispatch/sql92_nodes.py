"""The nodes of a compiled SQL92 filter, with the evaluation rules of RocketMQ's filter expressions.

Java's null, Boolean, Integer, Long, Double and String are represented by None, bool, int, int, float and str. An int is
an Integer if its magnitude fits in 31 bits, otherwise a Long (literals are not negative, so there is no other case).
Property values are always strings, and are converted to the type they are compared with. A failed conversion is an
error, and an error excludes the message.
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
"""Number of cached conversions of texts to numbers. A filter often compares one property several times."""


@mypyc_attr(native_class=False)
class EvaluationError(PeerError):
    """A property cannot be converted to the type it is compared with. The message is not delivered."""


@lru_cache(_REMEMBERED)
def read_whole(text: str, greatest: int) -> int:
    """Convert a text as Java's Integer.valueOf or Long.valueOf does: sign and decimal digits of any script, no blanks.

    Raises `EvaluationError` if the text is not such a number, or is above `greatest` or below `-greatest - 1`.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    significant = digits.lstrip("0")
    if digits.isdecimal() and len(significant) <= 19 and all(ord(digit) < 0x10000 for digit in significant):
        value = int(text)
        if -greatest - 1 <= value <= greatest:
            return value
    raise EvaluationError(f"{text!r} is not a whole number up to {greatest}; compare it with a literal of its type")


@lru_cache(_REMEMBERED)
def read_double(text: str) -> float:
    """Convert a text as Java's Double.valueOf does.

    Accepts blanks at both ends, a suffix d or f, NaN, Infinity, and hexadecimal numbers with an exponent. Raises
    `EvaluationError` if the text is not such a number.
    """
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
    """Compare like Java's Double.compareTo: NaN equals itself and is above all numbers, -0.0 is below 0.0."""
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
    """Compare two values as Java does, after converting a string to the type of the other value.

    Return a negative number, 0 or a positive number, and always -1 if the types cannot be compared. Raises
    `EvaluationError` if the conversion fails, or if `left` is a bool and `right` is a string.
    """
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
    """Part of an expression. `depth` is the number of nested nodes, and thus the recursion depth of `evaluate`."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def evaluate(self, properties: dict[str, str]) -> object:
        """Return the value for a message with these properties. Raises `EvaluationError`."""
        raise AssertionError("every node has its own rule")


class BooleanNode(SqlNode):
    """A node whose value is True, False or None."""


class Constant(SqlNode):
    """A number or text of the expression."""

    def __init__(self, value: object) -> None:
        super().__init__(1)
        self.value = value

    def evaluate(self, properties: dict[str, str]) -> object:
        return self.value


class BooleanConstant(BooleanNode):
    """TRUE, FALSE or NULL."""

    def __init__(self, value: bool | None) -> None:
        super().__init__(1)
        self.value = value

    def evaluate(self, properties: dict[str, str]) -> object:
        return self.value


class Property(SqlNode):
    """The name of a property. Its value is the property's text, or None if it is absent."""

    def __init__(self, name: str) -> None:
        super().__init__(1)
        self.name = name

    def evaluate(self, properties: dict[str, str]) -> object:
        return properties.get(self.name)


class Cast(BooleanNode):
    """A bare name used as a condition: null if the property is absent, otherwise false, even for "true"."""

    def __init__(self, name: str) -> None:
        super().__init__(1)
        self.name = name

    def evaluate(self, properties: dict[str, str]) -> object:
        return None if properties.get(self.name) is None else False


class Negate(SqlNode):
    """Unary minus of a number. Null for any other value, even for a text that contains a number."""

    def __init__(self, operand: SqlNode) -> None:
        super().__init__(operand.depth + 1)
        self.operand = operand

    def evaluate(self, properties: dict[str, str]) -> object:
        value = self.operand.evaluate(properties)
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return -value
        return -value if isinstance(value, float) else None


class Not(BooleanNode):
    """NOT. Null if the operand is null."""

    def __init__(self, operand: BooleanNode) -> None:
        super().__init__(operand.depth + 1)
        self.operand = operand

    def evaluate(self, properties: dict[str, str]) -> object:
        value = self.operand.evaluate(properties)
        return None if value is None else value is False


class Chain(BooleanNode):
    """AND (`decides` False) or OR (`decides` True) over two or more operands, left to right.

    Evaluation stops at the first operand with the deciding value. An earlier error is an error of the chain. If no
    operand has the deciding value, the chain is null if any operand is null.
    """

    def __init__(self, operands: list[BooleanNode], decides: bool) -> None:
        super().__init__(1 + max([operand.depth for operand in operands]))
        self.operands = operands
        self.decides = decides

    def evaluate(self, properties: dict[str, str]) -> object:
        unknown = False
        for operand in self.operands:
            value = operand.evaluate(properties)
            if value is self.decides:
                return self.decides
            if value is None:
                unknown = True
        return None if unknown else not self.decides


class Equal(BooleanNode):
    """Equality, also for ``<>`` and IS NULL. Null if only the left side is null, false if only the right side is."""

    def __init__(self, left: SqlNode, right: SqlNode) -> None:
        super().__init__(1 + max(left.depth, right.depth))
        self.left = left
        self.right = right

    def evaluate(self, properties: dict[str, str]) -> object:
        left = self.left.evaluate(properties)
        right = self.right.evaluate(properties)
        if left is None:
            return True if right is None else None
        return right is not None and compare(left, right) == 0


class Ordered(BooleanNode):
    """``<``, ``<=``, ``>`` and ``>=``. Null if either side is null. Two texts are compared as numbers."""

    def __init__(self, left: SqlNode, symbol: str, right: SqlNode) -> None:
        super().__init__(1 + max(left.depth, right.depth))
        self.left = left
        self.right = right
        self.below = symbol[0] == "<"
        self.equal = len(symbol) == 2

    def evaluate(self, properties: dict[str, str]) -> object:
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
    """IN and NOT IN over texts. Null if the property is absent."""

    def __init__(self, name: str, texts: frozenset[str], negated: bool) -> None:
        super().__init__(1)
        self.name = name
        self.texts = texts
        self.negated = negated

    def evaluate(self, properties: dict[str, str]) -> object:
        value = properties.get(self.name)
        return None if value is None else (value in self.texts) is not self.negated


class Search(BooleanNode):
    """CONTAINS, STARTSWITH and ENDSWITH of 5.x: never true for null, a value other than text, or an empty literal.

    That also applies to their NOT forms, which are therefore not the opposite of the forms without NOT.
    """

    def __init__(self, operand: SqlNode, word: str, sought: str, negated: bool) -> None:
        super().__init__(operand.depth + 1)
        self.operand = operand
        self.word = word
        self.sought = sought
        self.negated = negated

    def evaluate(self, properties: dict[str, str]) -> object:
        if not self.sought:
            return False  # without evaluating the operand, so an error in it is ignored
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
