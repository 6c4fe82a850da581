"""Finds sentences that are hard to read. CONTRIBUTING.md, "Writing", has the rules and examples.

python tools/check_prose.py                 check the tree: exit 1 if a kind of text has more findings than its limit
python tools/check_prose.py PATH...         list the findings in these files and folders
python tools/check_prose.py --since COMMIT  list the findings in lines that changed since a commit

A finding marks a sentence to read again; some are good English. Limits are therefore rates per 1,000 texts.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LIMITS: Final = {"source": 120, "error": 60, "log": 60, "page": 70, "test name": 30}
"""Maximum number of findings per 1,000 texts of a kind. `source` are the docstrings and comments of src."""
LONGEST: Final = 30
"""Maximum number of words of a sentence in a docstring, comment, error or log line."""
TOP: Final = ("README", "ARCHITECTURE", "CONTRIBUTING", "RELEASING", "SECURITY")
SHOWN: Final = 40
"""Findings that are listed for a kind above its limit."""

_LOG_METHODS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
_DIRECTIVE: Final = re.compile(r"\s*(type:|noqa|fmt:|pragma|mypy:|ruff:|cython|distutils|[-=]{2})")
_SENTENCE: Final = re.compile(r"(?<=[.?!:;])\s+(?=[A-Z`])")


@dataclass(frozen=True)
class Rule:
    """A habit, what to write instead, and the kinds of text in which it is one ("" for all)."""

    name: str
    pattern: re.Pattern[str]
    advice: str
    kinds: frozenset[str]


_DOC: Final = ("docstring",)
_CODE: Final = ("docstring", "comment", "error", "log")
_TEXT: Final = (*_CODE, "page")
_NAME: Final = ("test name",)
_BE: Final = r"(?:is|are|was|were|be|been|being)"


def _rule(kinds: tuple[str, ...], name: str, advice: str, *patterns: str) -> Rule:
    return Rule(name, re.compile("|".join(patterns), re.IGNORECASE), advice, frozenset(kinds))


RULES: Final = (
    _rule(_DOC, "opening clause", "begin with a verb or a noun",
          r"\A(?:what(?! to )|who|whom|whose|how|where|when|why|since when|whatever)\b"),
    _rule(_DOC, "opening genitive", "begin with the subject", r"\Aof (?!course)"),
    _rule(_DOC, "opening pronoun", "name the thing",
          r"\A(?:it|they|these|those|none|nothing|nobody|everything|everybody)\b"),
    _rule(_DOC, "value without a verb", "Return whether …", r"\A(?:true|false) (?:when|if|while|where|once|for)\b"),
    _rule(_NAME, "named by a clause or pronoun", "subject, verb, outcome: slave_rejects_sends",
          r"\A(?:what|who|whose|how|where|which|it|they|those|all|nothing|nobody|of|one|none|its)\b"),
    _rule(_CODE, "clause as a noun", "a noun: the pending records",
          rf"\bwhat (?:{_BE}|has|have|had|it|they|a|an|the|comes|waits|follows|stays|fails|failed)\b(?! to\b)",
          r"\b(?:of|from|by|with|for|than|as|after|before|beyond|below|behind) what\b"),
    _rule(_TEXT, "person as a clause", "the client that …",
          r"(?:(?<=[.:;,] )|\b(?:tells?|to|by|for|of) )who (?:is|are|has|may|asks?|reads?|sends?|holds?)\b"),
    _rule(_TEXT, "pronoun for a noun", "repeat the noun",
          r"\bthose (?:that|of|who|which|whose|with|without)\b", r"\bthat of (?:the|a|an|its)\b",
          r"\bones (?:that|which|who)\b"),
    _rule(_TEXT, "vague quantity", "name the number or the offset",
          r"\bso (?:many|few)\b(?! that)", r"\bfor so long\b", r"\b(?:how|that) far\b"),
    _rule(_CODE, "relative with a preposition", "two sentences",
          r"\bof (?:which|whom)\b", r"\b(?:with|under|over|up to) which\b"),
    _rule(_TEXT, "negated subject", "negate the verb",
          r"\b(?:nobody|no one)\b", r"\bnothing (?:is|was|of|has|can|may|else|waits)\b"),
    _rule(_CODE, "bare none", "None if there is no …", r"(?-i:\bnone\b)(?! of\b)"),
    _rule(_CODE, "verb with no", "negate the verb: does not …, rejects …",
          rf"(?<!there )\b(?:{_BE}|takes?|gets?|gives?|serves?|makes?|knows?|says?|names?|tells?)"
          r" no (?!longer|more|less|need|other)[a-z]"),
    _rule(_TEXT, "code that talks", "sends, reports, requests, stores",
          r"\b(?:tells|told|hears?|heard|believes?|promises?|speaks?|forgets?|forgotten)\b",
          rf"\b{_BE} asked\b", r"\basks? (?:for|about|of)\b"),
    _rule(_TEXT, "data that walks or lies", "arrives; is at; is between",
          r"\b(?:comes?|came|goes|went|gone)"
          r" (?:in|out|back|by|after|before|first|last|again|with|there|here|on|along)\b",
          r"\b(?:lies|lay|dies|died)\b(?! about)"),
    _rule(_TEXT, "kept", "stored, retained, cached", rf"\b{_BE} kept\b"),
    _rule(_TEXT, "counts as", "is treated as; is valid", r"\bcounts? (?:as|only|while|until|too|here)\b"),
    _rule(_TEXT, "at once", "immediately, or at the same time", r"\bat once\b"),
    _rule(_TEXT, "stock phrase", "the plain word",
          r"\b(?:of (?:its|their) own|by (?:itself|themselves)|for good(?! and)|in vain|in place of|in its place)\b",
          r"\b(?:besides?|once more|any more|meanwhile|by now)\b(?! than)"),
    _rule(_TEXT, "verb and again", "retry, resend, re-read, restart",
          r"\b(?:sent|sends?|reads?|tried|tries|try|asked|written|writes|started|starts|stored|delivered)"
          r" (?:\w+ )?again\b"),
    _rule(_CODE, "telegram", "Return X, or None if Y",
          r"; (?:None|\[\]|\"\"|-1|0|True|False|nothing|empty)"
          r" (?:when|if|where|while|for|of|unless|until|on|before)\b"),
    _rule(_TEXT, "inverted order", "subject, verb",
          r"[,;] (?:so|neither|nor) (?:is|are|does|do|did|has|have|can|must)\b"),
    _rule(_CODE, "old word", "respond, start, reject",
          r"\b(?:answer(?:s|ed|ing)?|begins?|began|begun|refus(?:e|es|ed|ing|als?))\b"),
)  # fmt: skip
_LONG: Final = _rule(_CODE, "long sentence", f"at most {LONGEST} words", r"\Z")


@dataclass(frozen=True)
class Text:
    """A piece of prose of the file `place`. `lines` has the line number of each character of `text`."""

    place: str
    kind: str
    text: str
    lines: tuple[int, ...]


@dataclass(frozen=True)
class Finding:
    """A match of a rule."""

    place: str
    line: int
    rule: Rule
    excerpt: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: {self.rule.name}: «{self.excerpt}» ({self.rule.advice})"


def _text(place: str, kind: str, numbered: Iterable[tuple[int, str]]) -> Iterator[Text]:
    text, lines = "", list[int]()
    for number, line in numbered:
        line = f"{line.strip()} " if line.strip() else ""
        text += line
        lines += [number] * len(line)
    if re.search("[A-Za-z]{2}", text):
        yield Text(place, kind, text.rstrip(), tuple(lines))


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring, also after assignments."""
    for node in ast.walk(tree):
        body: list[ast.stmt] = getattr(node, "body", [])
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        for before, statement in zip([None, *body], body, strict=False) if isinstance(body, list) else ():
            if isinstance(before, (ast.Assign, ast.AnnAssign)) or (before is None and documented):
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    if isinstance(statement.value.value, str):
                        yield statement.lineno, inspect.cleandoc(statement.value.value)


def _prose(first: int, docstring: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a docstring without code: indented blocks, doctests and literals."""
    for number, line in enumerate(docstring.splitlines(), first):
        if not line.startswith(("    ", ">>>", "...")):
            yield number, re.sub(r"``?[^`]*``?", "X", line)


def _messages(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the texts of raised errors and of calls of loggers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from (("error", each) for each in node.exc.args)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOG_METHODS:
            if "log" in ast.unparse(node.func.value).lower():
                yield from (("log", each) for each in node.args[:1])


def _words(node: ast.expr) -> str:
    """Return a message as its reader sees it, with X for each value; "" if it is not a literal."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _comments(place: str, text: str) -> Iterator[Text]:
    block, before = list[tuple[int, str]](), -2
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(token.string.lstrip("#!")):
            continue
        if block and token.start[0] != before + 1:
            yield from _text(place, "comment", block)
            block = []
        before = token.start[0]
        block.append((before, token.string.lstrip("#: ")))
    yield from _text(place, "comment", block)


def names_of_tests(place: str, text: str) -> Iterator[Text]:
    """Yield the names of the tests of a Python file as words."""
    for match in re.finditer(r"^\s*(?:async )?def test_(\w+)", text, re.MULTILINE):
        yield from _text(place, "test name", [(text.count("\n", 0, match.start(1)) + 1, match[1].replace("_", " "))])


def python_texts(place: str, text: str) -> Iterator[Text]:
    """Yield the docstrings, comments, errors and log lines of a Python file."""
    tree = ast.parse(text)
    for line, docstring in _docstrings(tree):
        yield from _text(place, "docstring", _prose(line, docstring))
    yield from _comments(place, text)
    for kind, message in _messages(tree):
        if len(_words(message).split()) > 1:
            yield from _text(place, kind, [(message.lineno, _words(message))])


def page_texts(place: str, text: str) -> Iterator[Text]:
    """Yield the paragraphs, list items, headings and table rows of a Markdown page, without code."""
    block, fenced = list[tuple[int, str]](), False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        words = line.strip()
        if fenced or not words or re.match(r"[-*+] |\d+\. |[#|`~<]|    ", line.lstrip() if words else "") or not block:
            yield from _text(place, "page", block)
            block = []
        if words.startswith(("```", "~~~")):
            fenced = not fenced
        elif words and not fenced and not line.startswith("    "):
            block.append((number, re.sub(r"`[^`]*`|\]\([^)]*\)", "X", words)))


def texts(root: Path, place: str) -> Iterator[Text]:
    """Yield the prose of a file: names of tests, a page, or the texts of a source; nothing for another type of file."""
    read = {".md": page_texts, ".py": names_of_tests if is_test(place) else python_texts}.get(Path(place).suffix)
    if read is not None:
        yield from read(place, (root / place).read_text("utf-8"))


def is_test(place: str) -> bool:
    """Return whether a file contains tests: of these only the names are checked."""
    return Path(place).name.startswith("test_")


def findings(text: Text) -> Iterator[Finding]:
    """Yield the matches of all rules for this kind of text."""
    for rule in RULES:
        for match in rule.pattern.finditer(text.text) if text.kind in rule.kinds else ():
            excerpt = text.text[max(0, match.start() - 30) : match.end() + 30]
            yield Finding(text.place, text.lines[match.start()], rule, excerpt)
    at = 0
    for sentence in _SENTENCE.split(text.text) if text.kind in _LONG.kinds else ():
        at = text.text.index(sentence, at)
        if len(sentence.split()) > LONGEST:
            yield Finding(text.place, text.lines[at], _LONG, sentence[:60])


def tracked() -> list[str]:
    """Return the files of the checkout."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [place for place in listed.splitlines() if (ROOT / place).is_file()]


def kind_of(text: Text) -> str:
    """Return the key of LIMITS for a text."""
    return "source" if text.kind in ("docstring", "comment") else text.kind


def limited(place: str) -> bool:
    """Return whether LIMITS apply to a file: sources, tests, and pages of docs except generated references."""
    if place.endswith(".md"):
        return place.startswith(("docs/", *TOP)) and not place.startswith("docs/reference/")
    return place.startswith("src/") or (place.startswith("tests/") and is_test(place))


def check(root: Path, places: Iterable[str], limits: Mapping[str, int] = LIMITS) -> int:
    """Compare the rates with the limits. Prints the findings of each kind above its limit. Returns the exit status."""
    count: dict[str, int] = defaultdict(int)
    found: dict[str, list[Finding]] = defaultdict(list)
    for place in filter(limited, places):
        for text in texts(root, place):
            count[kind_of(text)] += 1
            found[kind_of(text)] += findings(text)
    status = 0
    for kind, limit in limits.items():
        rate = 1000 * len(found[kind]) / max(count[kind], 1)
        if rate > limit:
            status = 1
            print(*found[kind][:SHOWN], sep="\n")
            print(f"{rate:.0f} findings per 1,000 texts of kind {kind}, the limit is {limit}: rewrite such sentences")
    return status


def changed(base: str) -> dict[str, set[int]]:
    """Return the lines that were added or changed since a commit, by file."""
    words = ["git", "diff", "--unified=0", "--no-color", base]
    lines: dict[str, set[int]] = defaultdict(set)
    place = ""
    for line in subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("+++ b/"):
            place = line[6:]
        elif match := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))?", line):
            lines[place].update(range(int(match[1]), int(match[1]) + int(match[2] or 1)))
    return lines


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders to list")
    parser.add_argument("--since", metavar="COMMIT", help="list only lines changed since this commit")
    given = parser.parse_args()
    if not given.paths and not given.since:
        return check(ROOT, tracked())
    lines = changed(given.since) if given.since else None
    folders = [path.resolve() for path in given.paths] or [ROOT]
    status = 0
    for place in tracked() if lines is None else sorted(set(lines) & set(tracked())):
        if any((ROOT / place).is_relative_to(folder) for folder in folders):
            for finding in (one for text in texts(ROOT, place) for one in findings(text)):
                if lines is None or finding.line in lines[place]:
                    print(finding)
                    status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
