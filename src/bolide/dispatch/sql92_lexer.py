"""Tokens of RocketMQ's SQL92 filters: the lexical rules of its JavaCC grammar (SelectorParser.jj).

1. Tokens are read one at a time, on demand. Text after the parsed prefix and one more token is never read, so errors
   in it are ignored.
2. The longest match applies. A line comment must end with a line end, otherwise its dashes are two minus signs. A
   string without a closing quote falls back to the shorter string at its start, if there is one.
3. Keywords are case-insensitive, names are case-sensitive, and both are ASCII.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from bolide.errors import PeerError

END: Final = 0
NAME: Final = 1
STRING: Final = 2
INTEGER: Final = 3
FLOAT: Final = 4
KEYWORD: Final = 5
SYMBOL: Final = 6

KEYWORDS_4_9: Final = frozenset(("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"))
KEYWORDS_5: Final = KEYWORDS_4_9 | {"CONTAINS", "STARTSWITH", "ENDSWITH"}

_BLANKS: Final = " \t\n\r\f"
_DIGITS: Final = "0123456789"
_NAME_START: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$"
_NAME: Final = _NAME_START + _DIGITS


@mypyc_attr(native_class=False)
class Sql92Error(PeerError):
    """The text is not a filter expression. The message states the expected token and the position. The response is
    SUBSCRIPTION_PARSE_FAILED."""

    code = 23


class Token:
    """One token: its kind, its text (keywords in upper case, strings decoded) and its position."""

    def __init__(self, kind: int, text: str, at: int) -> None:
        self.kind = kind
        self.text = text
        self.at = at


class Lexer:
    """Reads tokens of one expression, left to right."""

    def __init__(self, text: str, keywords: frozenset[str]) -> None:
        self.text = text
        self.at = 0
        self._keywords = keywords

    def next(self) -> Token:
        """Return the next token, or END after the last one. Raises `Sql92Error` if there is no valid token."""
        self._skip()
        at = self.at
        text = self.text
        if at >= len(text):
            return Token(END, "", at)
        first = text[at]
        if first in _NAME_START:
            return self._name()
        if first in _DIGITS or (first == "." and text[at + 1 : at + 2] in _DIGITS and at + 1 < len(text)):
            return self._number()
        if first == "'":
            return self._string()
        if text[at : at + 2] in ("<>", ">=", "<="):
            return self._token(SYMBOL, at + 2)
        if first in "=<>(),+-":
            return self._token(SYMBOL, at + 1)
        raise Sql92Error(f"{first!r} at character {at} does not start a token of a filter; remove it")

    def _token(self, kind: int, end: int) -> Token:
        token = Token(kind, self.text[self.at : end], self.at)
        self.at = end
        return token

    def _skip(self) -> None:
        """Skip blanks and comments."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in _BLANKS:
                self.at += 1
                continue
            opening = text[self.at : self.at + 2]
            end = -1
            if opening == "--":
                end = self.at
                while end < len(text) and text[end] not in "\r\n":
                    end += 1
                end = -1 if end == len(text) else end + 1
            elif opening == "/*":
                end = text.find("*/", self.at + 2)
                end = -1 if end < 0 else end + 2
            if end < 0:
                return
            self.at = end

    def _name(self) -> Token:
        end = self.at
        while end < len(self.text) and self.text[end] in _NAME:
            end += 1
        upper = self.text[self.at : end].upper()
        if upper not in self._keywords:
            return self._token(NAME, end)
        token = Token(KEYWORD, upper, self.at)
        self.at = end
        return token

    def _digits(self, at: int) -> int:
        while at < len(self.text) and self.text[at] in _DIGITS:
            at += 1
        return at

    def _exponent(self, at: int) -> int:
        """Return the end of an exponent at `at`, or `at` if there is none."""
        text = self.text
        if text[at : at + 1] not in ("e", "E"):
            return at
        digits = at + 2 if text[at + 1 : at + 2] in ("+", "-") else at + 1
        end = self._digits(digits)
        return at if end == digits else end

    def _number(self) -> Token:
        text = self.text
        end = self._digits(self.at)
        if text[end : end + 1] == ".":
            return self._token(FLOAT, self._exponent(self._digits(end + 1)))
        after = self._exponent(end)
        if after > end:
            return self._token(FLOAT, after)
        if text[self.at] == "0":
            return self._token(INTEGER, self.at + 1)
        if text[end : end + 1] in ("l", "L"):
            token = self._token(INTEGER, end)
            self.at = end + 1
            return token
        return self._token(INTEGER, end)

    def _string(self) -> Token:
        text = self.text
        end = -1
        at = text.find("'", self.at + 1)
        while at >= 0:
            end = at + 1
            if text[end : end + 1] != "'":
                break
            at = text.find("'", at + 2)
        if end < 0:
            raise Sql92Error(f"the quote at character {self.at} is never closed; close it")
        token = Token(STRING, text[self.at + 1 : end - 1].replace("''", "'"), self.at)
        self.at = end
        return token
