"""Parser of RocketMQ's SQL92 filters: the productions and compile-time rejections of its JavaCC grammar.

1. Precedence, lowest first: OR; AND; ``=`` ``<>`` IS; ``<`` ``<=`` ``>`` ``>=`` BETWEEN IN CONTAINS STARTSWITH
   ENDSWITH; prefix ``+`` ``-`` NOT; literals, names and parentheses. So ``NOT a = 5`` is ``(NOT a) = 5``.
2. The longest prefix that parses is compiled, and the rest is ignored. The token after the prefix is always read, so
   a character that cannot start a token makes the filter invalid there.
3. Rejections depend on the written form: ``BETWEEN 9 AND 1`` is rejected, but ``BETWEEN 9 AND -1`` is not, because a
   negated number is not a literal.
"""

from __future__ import annotations

from typing import Final

from bolide.dispatch.sql92_lexer import (
    FLOAT,
    INTEGER,
    KEYWORD,
    NAME,
    STRING,
    SYMBOL,
    Lexer,
    Sql92Error,
    Token,
)
from bolide.dispatch.sql92_nodes import (
    MAX_LONG,
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
    compare,
)

MAX_NESTING: Final = 64
"""Maximum depth of nested parentheses and prefixes. Java is limited by its stack instead, to several thousand."""
MAX_DEPTH: Final = 128
"""Maximum depth of nested nodes. A chain such as ``a = 1 = TRUE = TRUE`` nests nodes without parentheses."""


class Parser:
    """Recursive descent parser of one expression. Call `parse` only once."""

    def __init__(self, lexer: Lexer, max_operations: int) -> None:
        self._lexer = lexer
        self._token: Token = lexer.next()
        self._most = max_operations
        self.operations = 0
        self.names: dict[str, bool] = {}
        """The properties that the expression names."""
        self._nesting = 0

    def parse(self) -> BooleanNode:
        """Return the condition of the expression. Raises `Sql92Error`."""
        return self._condition(self._or())

    def _advance(self) -> Token:
        token = self._token
        self._token = self._lexer.next()
        return token

    def _is(self, kind: int, text: str) -> bool:
        return self._token.kind == kind and self._token.text == text

    def _take(self, kind: int, text: str) -> bool:
        """Skip the current token if it is this one. Return whether it was."""
        if not self._is(kind, text):
            return False
        self._advance()
        return True

    def _expect(self, kind: int, text: str) -> None:
        if not self._take(kind, text):
            raise self._unexpected(text)

    def _unexpected(self, wanted: str) -> Sql92Error:
        found = self._token.text or "the end"
        return Sql92Error(f"expected {wanted} at character {self._token.at} of the filter, found {found}")

    def _condition(self, node: SqlNode) -> BooleanNode:
        if isinstance(node, BooleanNode):
            return node
        if isinstance(node, Property):
            return Cast(node.name)
        raise Sql92Error(
            f"the expression that ends before character {self._token.at} of the filter is a value, not a condition"
        )

    def _count(self) -> None:
        self.operations += 1
        if self.operations > self._most:
            raise Sql92Error(f"the filter has more than {self._most} names, literals and operators; make it simpler")

    def _bounded(self, node: BooleanNode) -> BooleanNode:
        self._count()
        if node.depth > MAX_DEPTH:
            raise Sql92Error(f"the filter nests deeper than {MAX_DEPTH} operations; write it flatter")
        return node

    def _or(self) -> SqlNode:
        first = self._and()
        if not self._is(KEYWORD, "OR"):
            return first
        operands = [self._condition(first)]
        while self._take(KEYWORD, "OR"):
            operands.append(self._condition(self._and()))
        return self._bounded(Chain(operands, True))

    def _and(self) -> SqlNode:
        first = self._equality()
        if not self._is(KEYWORD, "AND"):
            return first
        operands = [self._condition(first)]
        while self._take(KEYWORD, "AND"):
            operands.append(self._condition(self._equality()))
        return self._bounded(Chain(operands, False))

    def _equality(self) -> SqlNode:
        left = self._comparison()
        while True:
            if self._take(SYMBOL, "="):
                left = self._bounded(self._equal(left, self._comparison()))
            elif self._take(SYMBOL, "<>"):
                left = self._bounded(Not(self._equal(left, self._comparison())))
            elif self._take(KEYWORD, "IS"):
                negated = self._take(KEYWORD, "NOT")
                self._expect(KEYWORD, "NULL")
                is_null = Equal(left, BooleanConstant(None))
                left = self._bounded(Not(is_null) if negated else is_null)
            else:
                return left

    def _equal(self, left: SqlNode, right: SqlNode) -> BooleanNode:
        for operand in (left, right):
            if isinstance(operand, BooleanConstant) and operand.value is None:
                raise Sql92Error("NULL cannot be compared by = or <>; use IS NULL or IS NOT NULL")
        if isinstance(left, BooleanConstant) and isinstance(right, Constant):
            raise Sql92Error("TRUE and FALSE cannot be compared with a number or text; compare them with a property")
        return Equal(left, right)

    def _comparison(self) -> SqlNode:
        left = self._unary()
        while True:
            token = self._token
            if token.kind == SYMBOL and token.text in ("<", "<=", ">", ">="):
                self._advance()
                left = self._bounded(self._ordered(left, token.text, self._unary()))
            elif token.kind == KEYWORD and token.text == "NOT":
                self._advance()
                left = self._bounded(self._worded(left, True))
            elif token.kind == KEYWORD and token.text in ("BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH"):
                left = self._bounded(self._worded(left, False))
            else:
                return left

    def _worded(self, left: SqlNode, negated: bool) -> BooleanNode:
        """Parse an operator that is a keyword, after its optional NOT."""
        if self._take(KEYWORD, "BETWEEN"):
            return self._between(left, negated)
        if self._take(KEYWORD, "IN"):
            return self._in(left, negated)
        word = self._token.text
        if self._token.kind != KEYWORD or word not in ("CONTAINS", "STARTSWITH", "ENDSWITH"):
            raise self._unexpected("BETWEEN or IN")
        self._advance()
        return Search(left, word, self._string(), negated)

    def _ordered(self, left: SqlNode, symbol: str, right: SqlNode) -> BooleanNode:
        for operand in (left, right):
            text = isinstance(operand, Constant) and isinstance(operand.value, str)
            if text or isinstance(operand, BooleanNode):
                raise Sql92Error(f"{symbol} compares numbers and properties, neither texts nor conditions")
        return Ordered(left, symbol, right)

    def _between(self, value: SqlNode, negated: bool) -> BooleanNode:
        low = self._unary()
        self._expect(KEYWORD, "AND")
        high = self._unary()
        if negated:
            return Chain([self._ordered(value, "<", low), self._ordered(value, ">", high)], True)
        bounds = [self._ordered(value, ">=", low), self._ordered(value, "<=", high)]
        if isinstance(low, Constant) and isinstance(high, Constant) and compare(high.value, low.value) < 0:
            raise Sql92Error(f"BETWEEN {low.value} AND {high.value} never matches; put the smaller number first")
        return Chain(bounds, False)

    def _in(self, left: SqlNode, negated: bool) -> BooleanNode:
        self._expect(SYMBOL, "(")
        texts = [self._string()]
        while self._take(SYMBOL, ","):
            texts.append(self._string())
        self._expect(SYMBOL, ")")
        if not isinstance(left, Property):
            raise Sql92Error("IN takes the name of a property on its left")
        return In(left.name, frozenset(texts), negated)

    def _string(self) -> str:
        if self._token.kind != STRING:
            raise self._unexpected("a text in single quotes")
        return self._advance().text

    def _enter(self) -> None:
        self._count()
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise Sql92Error(f"the filter nests deeper than {MAX_NESTING} parentheses and prefixes; write it flatter")

    def _unary(self) -> SqlNode:
        if self._token.kind == SYMBOL and self._token.text in ("+", "-"):
            self._enter()
            minus = self._advance().text == "-"
            operand = self._unary()
            self._nesting -= 1
            return Negate(operand) if minus else operand
        if self._is(KEYWORD, "NOT"):
            self._enter()
            self._advance()
            negated = Not(self._condition(self._unary()))
            self._nesting -= 1
            return negated
        return self._primary()

    def _primary(self) -> SqlNode:
        token = self._token
        if token.kind == SYMBOL and token.text == "(":
            self._enter()
            self._advance()
            inner = self._or()
            self._expect(SYMBOL, ")")
            self._nesting -= 1
            return inner
        self._count()
        if token.kind == KEYWORD and token.text in ("TRUE", "FALSE", "NULL"):
            self._advance()
            return BooleanConstant(None if token.text == "NULL" else token.text == "TRUE")
        if token.kind not in (NAME, STRING, INTEGER, FLOAT):
            raise self._unexpected("a name, a literal or a parenthesis")
        self._advance()
        if token.kind == NAME:
            self.names[token.text] = True
            return Property(token.text)
        if token.kind == STRING:
            return Constant(token.text)
        return Constant(_whole(token) if token.kind == INTEGER else _fraction(token))


def _whole(token: Token) -> int:
    if len(token.text) <= 19 and int(token.text) <= MAX_LONG:
        return int(token.text)
    raise Sql92Error(f"the number at character {token.at} of the filter is greater than {MAX_LONG}")


def _fraction(token: Token) -> float:
    value = float(token.text)
    if 0.0 < value < float("inf"):
        return value
    raise Sql92Error(f"the number {token.text} at character {token.at} of the filter is 0 or beyond a double")
