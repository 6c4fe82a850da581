"""SQL92 filters of messages with RocketMQ's semantics: compile once, evaluate per message.

Tested with 1,099 cases that both RocketMQ releases evaluated (tests/data/protocol/sql92_vectors.json). Only True
delivers a message; False, None and `EvaluationError` exclude it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide.dispatch.sql92_lexer import KEYWORDS_4_9, KEYWORDS_5, Lexer, Sql92Error
from bolide.dispatch.sql92_nodes import BooleanNode, EvaluationError
from bolide.dispatch.sql92_parser import Parser
from bolide.dispatch.sql92_raw import RawFilter

__all__ = ["MAX_LENGTH", "MAX_OPERATIONS", "EvaluationError", "Expression", "Sql92Error", "compile_sql92"]

MAX_LENGTH: Final = 65_536
"""Maximum length of one filter, in characters. Java's only limit is the frame size."""
MAX_OPERATIONS: Final = 65_536
"""Maximum number of names, literals and operators in a filter, which determine its cost. An IN is one operator."""

_MOST_NAMES: Final = 16
"""Maximum number of properties for which separate searches are cheaper than decoding all."""


class Expression:
    """A compiled filter."""

    def __init__(self, text: str, root: BooleanNode, operations: int, names: list[str]) -> None:
        self.text = text
        self.operations = operations
        self.names = names
        """The only properties that `evaluate` reads."""
        self._root = root

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return the filter's value for these properties. Only True delivers the message. Raises `EvaluationError`."""
        value = self._root.evaluate(properties if isinstance(properties, dict) else dict(properties))
        return None if value is None else value is True

    def on_raw(self) -> RawFilter | None:
        """Return the same filter for the bytes of a record's properties, or None if it has too many names for separate
        searches, or a name that is not ASCII."""
        few = len(self.names) <= _MOST_NAMES and all(name.isascii() for name in self.names)
        return RawFilter(self._root, self.names) if few else None


def compile_sql92(
    text: str, version: str = "5.5", max_length: int = MAX_LENGTH, max_operations: int = MAX_OPERATIONS
) -> Expression:
    """Compile a filter as RocketMQ 5.5 or 4.9 does (only 5.5 has CONTAINS, STARTSWITH, ENDSWITH).

    Raises `Sql92Error` if Java rejects the filter, or if it exceeds Bolide's limits of length, operations or nesting.
    """
    if len(text) > max_length:
        raise Sql92Error(f"the filter has {len(text)} characters, more than {max_length}; shorten it")
    keywords = KEYWORDS_4_9 if version.startswith("4.") else KEYWORDS_5
    parser = Parser(Lexer(text, keywords), max_operations)
    root = parser.parse()
    return Expression(text, root, parser.operations, list(parser.names))
