"""Checks of a filter on raw properties. Each evaluates one condition without creating a mapping or strings.

A check searches for its property only when evaluated, and reads simple numbers from the bytes. Rare conditions have no
dedicated check: their node is evaluated on the properties that it names. Unusual values are read by the functions of
`sql92_nodes`.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.dispatch.sql92_nodes import MAX_INTEGER, BooleanNode, EvaluationError, compare, compare_doubles
from bolide.layout.properties import text_of

FALSE: Final = 0
TRUE: Final = 1
NULL: Final = 2
ERROR: Final = 3
"""Results of a check: the three values of a condition, and ERROR where the node raises `EvaluationError`."""

BELOW: Final = 1
SAME: Final = 2
ABOVE: Final = 4
"""Possible results of comparing a property with a constant. A condition is the sum of the results that make it true."""
_NOT_PLAIN: Final = -(1 << 62)
_MOST_DIGITS: Final = 18
"""Maximum number of digits of an integer that always fits in 64 bits."""
_EXACT_DIGITS: Final = 15
"""Maximum number of digits of an integer that a double always represents exactly."""
_NEAR: Final = 64
"""Number of bytes that are compared one by one to find the end of a value, before `bytes.find` is used."""


@final
class RawProperty:
    """Position of the value of one property in the current record. `turn` is the number of that record."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self._wanted: bytes = name.encode("ascii") + b"\x01"
        self._turn: i64 = 0
        self.at: i64 = -1
        self.stop: i64 = -1

    def find(self, raw: bytes, turn: i64) -> bool:
        """Return whether the record has the property, by the rules of `layout.properties.raw_value`."""
        if self._turn == turn:
            return self.at >= 0
        self._turn = turn
        self.at = -1
        wanted = self._wanted
        size: i64 = len(wanted)
        end: i64 = len(raw)
        at: i64 = raw.rfind(wanted)
        while at >= 0:
            if at == 0 or raw[at - 1] == 2:
                start = at + size
                near = min(end, start + _NEAR)
                stop = start
                while stop < near and raw[stop] != 2:
                    stop += 1
                if stop == near and near < end:
                    stop = raw.find(b"\x02", stop)
                    if stop < 0:
                        stop = end
                if stop > start:
                    self.at = start
                    self.stop = stop
                    return True
            at = raw.rfind(wanted, 0, at)
        return False

    def text(self, raw: bytes) -> str:
        """Return the value that `find` found."""
        return text_of(raw[self.at : self.stop])


class Check:
    """A condition of the filter."""

    def test(self, raw: bytes, turn: i64) -> i64:
        """Return the result for the record with these properties."""
        raise AssertionError("every check has its own rule")


@final
class FixedCheck(Check):
    """A constant: TRUE, FALSE or NULL."""

    def __init__(self, value: i64) -> None:
        self._value: i64 = value

    def test(self, raw: bytes, turn: i64) -> i64:
        return self._value


@final
class PresenceCheck(Check):
    """IS NULL, or a bare name used as a condition."""

    def __init__(self, slot: RawProperty, absent: i64) -> None:
        self._slot: RawProperty = slot
        self._absent: i64 = absent

    def test(self, raw: bytes, turn: i64) -> i64:
        return FALSE if self._slot.find(raw, turn) else self._absent


@final
class NotCheck(Check):
    """NOT."""

    def __init__(self, operand: Check) -> None:
        self._operand: Check = operand

    def test(self, raw: bytes, turn: i64) -> i64:
        value = self._operand.test(raw, turn)
        return 1 - value if value <= TRUE else value


@final
class ChainCheck(Check):
    """AND or OR. Evaluation stops at the first operand with the deciding value, or at an error."""

    def __init__(self, operands: list[Check], decides: i64) -> None:
        self._operands: list[Check] = operands
        self._decides: i64 = decides

    def test(self, raw: bytes, turn: i64) -> i64:
        decides = self._decides
        otherwise: i64 = 1 - decides
        for operand in self._operands:
            value = operand.test(raw, turn)
            if value == decides:
                return decides
            if value == ERROR:
                return ERROR
            if value == NULL:
                otherwise = NULL
        return otherwise


@final
class TextCheck(Check):
    """Compares a property with a text by ``=``."""

    def __init__(self, slot: RawProperty, text: bytes, absent: i64) -> None:
        self._slot: RawProperty = slot
        self._text: bytes = text
        self._absent: i64 = absent

    def test(self, raw: bytes, turn: i64) -> i64:
        slot = self._slot
        if not slot.find(raw, turn):
            return self._absent
        text = self._text
        size: i64 = len(text)
        at = slot.at
        if slot.stop - at != size:
            return FALSE
        i: i64 = 0
        while i < size:
            if raw[at + i] != text[i]:
                return FALSE
            i += 1
        return TRUE


@final
class WholeCheck(Check):
    """Compares a property with an Integer or a Long. `orders` are the results for which it is true."""

    def __init__(self, slot: RawProperty, number: int, orders: i64, absent: i64) -> None:
        self._slot: RawProperty = slot
        self._number: i64 = number
        self._orders: i64 = orders
        self._absent: i64 = absent
        self._is_integer: bool = -MAX_INTEGER <= number <= MAX_INTEGER

    def test(self, raw: bytes, turn: i64) -> i64:
        slot = self._slot
        if not slot.find(raw, turn):
            return self._absent
        value = whole_at(raw, slot.at, slot.stop)
        number = self._number
        if value == _NOT_PLAIN:
            return _compared(slot.text(raw), int(number), self._orders)
        if self._is_integer and (value > MAX_INTEGER or value < -MAX_INTEGER - 1):
            return ERROR
        wanted: i64 = BELOW if value < number else ABOVE if value > number else SAME
        return TRUE if self._orders & wanted != 0 else FALSE


@final
class DoubleCheck(Check):
    """Compares a property with a Double. `orders` are the results for which it is true."""

    def __init__(self, slot: RawProperty, number: float, orders: i64, absent: i64) -> None:
        self._slot: RawProperty = slot
        self._number: float = number
        self._orders: i64 = orders
        self._absent: i64 = absent

    def test(self, raw: bytes, turn: i64) -> i64:
        slot = self._slot
        if not slot.find(raw, turn):
            return self._absent
        if slot.stop - slot.at <= _EXACT_DIGITS:
            value = whole_at(raw, slot.at, slot.stop)
            if value != _NOT_PLAIN:  # the sign of a zero is lost, but no literal is a double zero
                return _is_among(compare_doubles(float(value), self._number), self._orders)
        text = slot.text(raw)
        if is_plain_fraction(raw, slot.at, slot.stop):
            return _is_among(compare_doubles(float(text), self._number), self._orders)
        return _compared(text, self._number, self._orders)


@final
class TruthCheck(Check):
    """Compares a property with TRUE or FALSE by ``=``."""

    def __init__(self, slot: RawProperty, value: bool) -> None:
        self._slot: RawProperty = slot
        self._value: bool = value

    def test(self, raw: bytes, turn: i64) -> i64:
        if not self._slot.find(raw, turn):
            return NULL
        return _compared(self._slot.text(raw), self._value, SAME)


@final
class OneOfCheck(Check):
    """IN, or NOT IN if `found` is FALSE."""

    def __init__(self, slot: RawProperty, texts: set[bytes], found: i64) -> None:
        self._slot: RawProperty = slot
        self._texts: set[bytes] = texts
        self._found: i64 = found

    def test(self, raw: bytes, turn: i64) -> i64:
        slot = self._slot
        if not slot.find(raw, turn):
            return NULL
        return self._found if raw[slot.at : slot.stop] in self._texts else 1 - self._found


@final
class SearchCheck(Check):
    """CONTAINS, STARTSWITH or ENDSWITH with a text that is not empty. Negated if `found` is FALSE.

    Comparing bytes is sufficient: in UTF-8, even if invalid, a character starts only at its own bytes.
    """

    def __init__(self, slot: RawProperty, word: str, sought: bytes, found: i64) -> None:
        self._slot: RawProperty = slot
        self._anywhere: bool = word == "CONTAINS"
        self._at_start: bool = word == "STARTSWITH"
        self._sought: bytes = sought
        self._found: i64 = found

    def test(self, raw: bytes, turn: i64) -> i64:
        slot = self._slot
        if not slot.find(raw, turn):
            return FALSE
        if self._anywhere:
            found = raw.find(self._sought, slot.at, slot.stop) >= 0
        elif self._at_start:
            found = raw[slot.at : slot.stop].startswith(self._sought)
        else:
            found = raw[slot.at : slot.stop].endswith(self._sought)
        return self._found if found else 1 - self._found


@final
class EvaluatedCheck(Check):
    """Any other condition: evaluates its node on the properties that the node names."""

    def __init__(self, node: BooleanNode, slots: list[RawProperty]) -> None:
        self._node: BooleanNode = node
        self._slots: list[RawProperty] = slots

    def test(self, raw: bytes, turn: i64) -> i64:
        properties: dict[str, str] = {}
        for slot in self._slots:
            if slot.find(raw, turn):
                properties[slot.name] = slot.text(raw)
        try:
            value = self._node.evaluate(properties)
        except EvaluationError:
            return ERROR
        if value is None:
            return NULL
        return TRUE if value is True else FALSE


def whole_at(raw: bytes, at: i64, stop: i64) -> i64:
    """Return the integer of up to 18 digits, after an optional minus, or `_NOT_PLAIN` for anything else."""
    negative = raw[at] == 45
    if negative:
        at += 1
    if at >= stop or stop - at > _MOST_DIGITS:
        return _NOT_PLAIN
    value: i64 = 0
    while at < stop:
        digit: i64 = i64(raw[at]) - 48
        if digit < 0 or digit > 9:
            return _NOT_PLAIN
        value = value * 10 + digit
        at += 1
    return -value if negative else value


def is_plain_fraction(raw: bytes, at: i64, stop: i64) -> bool:
    """Return whether the bytes are digits with at most one point, after an optional minus, as in Python and Java."""
    if raw[at] == 45:
        at += 1
    digits: i64 = 0
    points: i64 = 0
    while at < stop:
        byte: i64 = i64(raw[at])
        if byte == 46:
            points += 1
        elif byte < 48 or byte > 57:
            return False
        else:
            digits += 1
        at += 1
    return digits > 0 and points <= 1


def _compared(text: str, value: object, orders: i64) -> i64:
    try:
        return _is_among(compare(text, value), orders)
    except EvaluationError:
        return ERROR


def _is_among(order: int, orders: i64) -> i64:
    wanted: i64 = BELOW if order < 0 else ABOVE if order > 0 else SAME
    return TRUE if orders & wanted != 0 else FALSE
