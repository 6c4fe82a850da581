"""Generated SQL92 texts, the same at every run: from the grammar, from the grammar with one thing wrong, and from
tokens in no order; and property maps to evaluate them on.
"""

from __future__ import annotations

import random

SEED = 20_260
NAMES = ("a", "b", "n", "f", "t", "u", "e", "s", "_v", "$m", "TAGS", "missing", "Contains1")
WHOLE = (
    "0",
    "1",
    "5",
    "10",
    "5L",
    "10l",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "007",
)
FLOATS = ("0.5", "2.5", "5.0", "0.0", ".5", "5.", "1e2", "1E-3", "1.5e+3", "1e400", "1e-400", "2147483648.0", "5.0e0")
TEXTS = ("''", "'a'", "'abc'", "'it''s'", "'5'", "'TRUE'", "'%'", "'é'", "'空'", "'🚀'", "' 7 '", "'--'", "'/*'")
WORDS = (
    *("AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "CONTAINS", "STARTSWITH", "ENDSWITH", "TRUE", "FALSE"),
    *("=", "<>", "<", "<=", ">", ">=", "(", ")", ",", "+", "-"),
)
JUNK = ("#", ".", ";", '"x"', "!=", "==", "'", "/*", "*/", "--", "é", "空", "LIKE", "%", "\\", "&&", "||", "*", "{")
VALUES = (
    *("", "0", "1", "5", "05", "+5", "-3", "10", "2147483647", "2147483648", "-2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "2.5", "0.5", "1e2", "-0.0", "0.0", "NaN", "Infinity", "1e400"),
    *(
        "true",
        "TRUE",
        "false",
        "abc",
        "ABC",
        "a",
        "it's",
        " 7 ",
        "é",
        "空",
        "🚀",
        "٥",
        "５",
        "0x1p3",
        "5d",
        "5L",
        "1_0",
    ),
)
BLANKS = (" ", " ", " ", " ", "  ", "\t", " /* c */ ")


class Texts:
    """Makes expressions as lists of tokens."""

    def __init__(self, seed: int = SEED) -> None:
        self.random = random.Random(seed)

    def one_of(self, *choices: str) -> str:
        return self.random.choice(choices)

    def word(self, text: str) -> str:
        """A keyword in one of its spellings."""
        return self.one_of(text, text, text.lower(), text.capitalize())

    def name(self) -> list[str]:
        return [self.one_of(*NAMES)]

    def value(self, depth: int) -> list[str]:
        """What can stand on a side of a comparison."""
        kind = self.random.randrange(12)
        if kind < 5:
            return self.name()
        if kind < 7:
            return [self.one_of(*WHOLE)]
        if kind == 7:
            return [self.one_of(*FLOATS)]
        if kind == 8:
            return [self.one_of(*TEXTS)]
        if kind == 9:
            return [self.one_of("-", "+"), *self.value(depth - 1)]
        if kind == 10:
            return [self.word(self.one_of("TRUE", "FALSE"))]
        return ["(", *(self.condition(depth - 1) if depth > 0 else self.name()), ")"]

    def texts(self) -> list[str]:
        parts = [self.one_of(*TEXTS)]
        while self.random.random() < 0.5:
            parts += [",", self.one_of(*TEXTS)]
        return parts

    def condition(self, depth: int) -> list[str]:
        """A condition of this depth or less."""
        kind = self.random.randrange(14 if depth > 0 else 9)
        negated = [self.word("NOT")] if self.random.random() < 0.25 else []
        if kind < 3:
            return [*self.value(depth), self.one_of("=", "<>"), *self.value(depth)]
        if kind == 3:
            return [*self.value(depth), self.one_of("<", "<=", ">", ">="), *self.value(depth)]
        if kind == 4:
            between = [*negated, self.word("BETWEEN"), *self.value(0), self.word("AND"), *self.value(0)]
            return [*self.value(depth), *between]
        if kind == 5:
            return [*self.name(), *negated, self.word("IN"), "(", *self.texts(), ")"]
        if kind == 6:
            return [*self.value(depth), self.word("IS"), *negated, self.word("NULL")]
        if kind == 7:
            word = self.word(self.one_of("CONTAINS", "STARTSWITH", "ENDSWITH"))
            return [*self.value(depth), *negated, word, self.one_of(*TEXTS)]
        if kind == 8:
            return [self.word(self.one_of("TRUE", "FALSE", "NULL"))] if self.random.random() < 0.3 else self.name()
        if kind < 11:
            return [*self.condition(depth - 1), self.word(self.one_of("AND", "OR")), *self.condition(depth - 1)]
        if kind == 11:
            return [self.word("NOT"), *self.condition(depth - 1)]
        if kind == 12:
            return [*self.condition(depth - 1), self.one_of("=", "<>"), *self.value(depth - 1)]
        return ["(", *self.condition(depth - 1), ")"]

    def spoilt(self, tokens: list[str]) -> list[str]:
        """The same with one thing wrong, or so it seems."""
        at = self.random.randrange(len(tokens))
        other = self.one_of(*WORDS, *JUNK, *WHOLE, *NAMES)
        kind = self.random.randrange(5)
        if kind == 0:
            return tokens[:at] + tokens[at + 1 :]
        if kind == 1:
            return [*tokens[:at], other, *tokens[at:]]
        if kind == 2:
            return [*tokens[:at], other, *tokens[at + 1 :]]
        if kind == 3:
            return tokens[:at]
        return [*tokens, other]

    def soup(self) -> list[str]:
        """Tokens in no order."""
        count = self.random.randrange(1, 7)
        return [self.one_of(*WORDS, *WHOLE, *FLOATS, *TEXTS, *NAMES, *NAMES, *JUNK) for _ in range(count)]

    def text(self) -> str:
        """One expression, mostly right."""
        kind = self.random.randrange(10)
        tokens = self.soup() if kind == 9 else self.condition(self.random.randrange(4))
        if 5 <= kind < 9:
            tokens = self.spoilt(tokens)
        text = ""
        for token in tokens:
            text += token + (self.one_of(*BLANKS) if self.random.random() < 0.97 else "")
        return text


def expressions(count: int = 2000) -> list[str]:
    """So many different expressions."""
    texts = Texts()
    found: dict[str, None] = {}
    while len(found) < count:
        found[texts.text()] = None
    return list(found)


def property_maps(count: int = 40) -> list[dict[str, str]]:
    """Property maps; the first is empty, the others have some of the names with any of the values."""
    chosen = random.Random(SEED + 1)
    maps: list[dict[str, str]] = [{}]
    while len(maps) < count:
        maps.append({name: chosen.choice(VALUES) for name in NAMES[:-2] if chosen.random() < 0.8})
    return maps
