"""A filter that checks raw properties, without creating a mapping or strings.

Each node of `sql92_nodes` is converted to a check of `sql92_checks`.

A filter caches positions in the current record, so only one thread may use it at a time.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.dispatch.sql92_checks import (
    ABOVE,
    BELOW,
    FALSE,
    NULL,
    SAME,
    TRUE,
    ChainCheck,
    Check,
    DoubleCheck,
    EvaluatedCheck,
    FixedCheck,
    NotCheck,
    OneOfCheck,
    PresenceCheck,
    RawProperty,
    SearchCheck,
    TextCheck,
    TruthCheck,
    WholeCheck,
)
from bolide.dispatch.sql92_nodes import (
    BooleanConstant,
    BooleanNode,
    Cast,
    Chain,
    Constant,
    Equal,
    In,
    Negate,
    Not,
    Ordered,
    Property,
    Search,
    SqlNode,
)

_ORDERS: Final[dict[str, int]] = {"<": BELOW, "<=": BELOW | SAME, ">": ABOVE, ">=": ABOVE | SAME, "=": SAME}
_MIRRORED: Final[dict[str, int]] = {"<": ABOVE, "<=": ABOVE | SAME, ">": BELOW, ">=": BELOW | SAME, "=": SAME}


@final
class RawFilter:
    """The checks of one filter."""

    def __init__(self, root: BooleanNode, names: list[str]) -> None:
        """`names`: names of all properties in the filter. Each must be ASCII."""
        slots: dict[str, RawProperty] = {}
        for name in names:
            slots[name] = RawProperty(name)
        self._root: Check = _check_of(root, slots)
        self._turn: i64 = 0

    def value(self, raw: bytes) -> i64:
        """Return TRUE, FALSE, NULL or ERROR for a record with these properties."""
        self._turn += 1
        return self._root.test(raw, self._turn)

    def passes(self, raw: bytes) -> bool:
        """Return whether the filter is TRUE for a record with these properties."""
        return self.value(raw) == TRUE


def _check_of(node: BooleanNode, slots: dict[str, RawProperty]) -> Check:
    made: Check | None = None
    if isinstance(node, BooleanConstant):
        return FixedCheck(NULL if node.value is None else TRUE if node.value else FALSE)
    if isinstance(node, Cast):
        return PresenceCheck(slots[node.name], NULL)
    if isinstance(node, Not):
        return NotCheck(_check_of(node.operand, slots))
    if isinstance(node, Chain):
        return ChainCheck([_check_of(operand, slots) for operand in node.operands], TRUE if node.decides else FALSE)
    if isinstance(node, In):
        made = _in_check(node, slots)
    elif isinstance(node, Search):
        made = _search_check(node, slots)
    elif isinstance(node, Ordered):
        made = _order_check(node.left, ("<" if node.below else ">") + ("=" if node.equal else ""), node.right, slots)
    elif isinstance(node, Equal):
        made = _order_check(node.left, "=", node.right, slots)
    return made if made is not None else EvaluatedCheck(node, _slots_of(node, slots))


def _in_check(node: In, slots: dict[str, RawProperty]) -> Check | None:
    texts: set[bytes] = set()
    for text in node.texts:
        raw = _bytes_of(text)
        if raw is None:
            return None
        texts.add(raw)
    return OneOfCheck(slots[node.name], texts, FALSE if node.negated else TRUE)


def _search_check(node: Search, slots: dict[str, RawProperty]) -> Check | None:
    if not node.sought:
        return FixedCheck(FALSE)
    operand = node.operand
    sought = _bytes_of(node.sought)
    if not isinstance(operand, Property) or sought is None:
        return None
    return SearchCheck(slots[operand.name], node.word, sought, FALSE if node.negated else TRUE)


def _order_check(left: SqlNode, symbol: str, right: SqlNode, slots: dict[str, RawProperty]) -> Check | None:
    """Return the check of a property against a constant, on either side, or None for other operands."""
    if isinstance(left, Property):
        slot = slots[left.name]
        if isinstance(right, BooleanConstant) and symbol == "=":
            return PresenceCheck(slot, TRUE) if right.value is None else TruthCheck(slot, right.value)
        return _constant_check(slot, right, _ORDERS[symbol], NULL)
    if isinstance(right, Property):
        return _constant_check(slots[right.name], left, _MIRRORED[symbol], FALSE if symbol == "=" else NULL)
    return None


def _constant_check(slot: RawProperty, node: SqlNode, orders: int, absent: int) -> Check | None:
    inner: SqlNode = node
    while isinstance(inner, Negate):
        inner = inner.operand
    if not isinstance(inner, Constant):
        return None
    value = node.evaluate({})
    if isinstance(value, int):
        return WholeCheck(slot, value, orders, absent)
    if isinstance(value, float):
        return DoubleCheck(slot, value, orders, absent)
    text = _bytes_of(value) if isinstance(value, str) else None
    return None if text is None or orders != SAME else TextCheck(slot, text, absent)


def _bytes_of(text: str) -> bytes | None:
    """Return the bytes that decode to this text, or None if no bytes do, or several different ones."""
    try:
        return None if "\ufffd" in text else text.encode("utf-8")
    except UnicodeEncodeError:
        return None


def _slots_of(node: SqlNode, slots: dict[str, RawProperty]) -> list[RawProperty]:
    """Return the properties that a node refers to."""
    found: dict[str, RawProperty] = {}
    rest: list[SqlNode] = [node]
    while rest:
        part = rest.pop()
        if isinstance(part, (Property, Cast, In)):
            found[part.name] = slots[part.name]
        elif isinstance(part, (Negate, Not, Search)):
            rest.append(part.operand)
        elif isinstance(part, Chain):
            rest.extend(part.operands)
        elif isinstance(part, (Equal, Ordered)):
            rest.append(part.left)
            rest.append(part.right)
    return list(found.values())
