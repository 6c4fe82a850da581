"""The checks of a filter on raw properties: each evaluates one condition without a mapping or strings.

A check searches for its property only when evaluated, and reads plain numbers from the bytes. Rare conditions have no
check of their own: the node itself is evaluated on the properties that it names, and unusual values are read by the
functions of the nodes.
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
"""Result of a check: the values of a condition, and `EvaluationError` in the tree."""

BELOW: Final = 1
SAME: Final = 2
ABOVE: Final = 4
"""Possible results of comparing a property with a constant; add those that make a condition true."""
_NOT_PLAIN: Final = -(1 << 62)
_MOST_DIGITS: Final = 18
"""Digits of a number that surely fits 64 bits."""
_EXACT_DIGITS: Final = 15
"""Digits of a whole number that a double surely holds."""
_NEAR: Final = 64
"""Bytes of a value that are looked at one by one for its end."""


@final
class RawProperty:
    """Position of the value of one property in the record of this `turn`."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self._wanted: bytes = name.encode("ascii") + b"\x01"
        self._turn: i64 = 0
        self.at: i64 = -1
        self.stop: i64 = -1

    def find(self, raw: bytes, turn: i64) -> bool:
        """Whether the record has the property; the rules of `layout.properties.raw_value`."""
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
        """The value that was found."""
        return text_of(raw[self.at : self.stop])


class Check:
    """A condition of the filter."""

    def test(self, raw: bytes, turn: i64) -> i64:
        """Return the result for the record with these properties."""
        raise AssertionError("every check has its own rule")


@final
class FixedCheck(Check):
    """TRUE, FALSE and NULL."""

    def __init__(self, value: i64) -> None:
        self._value: i64 = value

    def test(self, raw: bytes, turn: i64) -> i64:
        return self._value


@final
class PresenceCheck(Check):
    """IS NULL, and a bare name."""

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
    """AND or OR: the first operand with the deciding value, or an error, ends it."""

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
    """A property equals a text."""

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
    """A property compared with a Double."""

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
    """A property compared with TRUE or FALSE by ``=``."""

    def __init__(self, slot: RawProperty, value: bool) -> None:
        self._slot: RawProperty = slot
        self._value: bool = value

    def test(self, raw: bytes, turn: i64) -> i64:
        if not self._slot.find(raw, turn):
            return NULL
        return _compared(self._slot.text(raw), self._value, SAME)


@final
class OneOfCheck(Check):
    """IN; NOT IN where `found` is FALSE."""

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
    """CONTAINS, STARTSWITH and ENDSWITH of a property and a text that is not empty; NOT if `found` is FALSE.

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
    """Any other condition: its node decides, on the properties that it names."""

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
    """Return the integer written there in plain digits, perhaps after a minus; `_NOT_PLAIN` for anything else."""
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
    """Whether there are only digits and one point, perhaps behind a minus: what Python and Java read alike."""
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
