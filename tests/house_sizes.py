"""The house rules about size: files, functions and classes of Python and Cython."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from tests.house_rules import Rule, nodes, room_of, tree

LONGEST_FUNCTION = 80
LONGEST_FILE = 500
LONGEST_FILE_OF_THE_CORE = 450
CORE = ("broker", "client", "node", "store")
LONGEST_CLASS = 400
LONG_CLASS = 300
"""Lines from which a class does a second thing, or is in `LONG_CLASSES` with the reason why it does not."""
PUBLIC_CLASS = 100
"""Lines from which a public class has a file of its own."""
LONG_CLASSES = {
    "src/bolide/broker/tables/consumer_offsets.py:ConsumerOffsets": "one table; its counts and rows change with it",
    "src/bolide/client/consuming/group_member.py:GroupMember": "one round: join, share the queues, serve them, leave",
    "src/bolide/client/producing/sending.py:Sending": "one send from its first try to its result",
    "src/bolide/controller/server.py:Controller": "a row and a short handler for each request code",
    "src/bolide/node/broker.py:BrokerNode": "the order of a start and of a stop",
    "src/bolide/node/loop/executor.py:Executor": "one decision for each command; a part is one more call",
    "src/bolide/node/replication/switching.py:Switching": "one state machine",
    "src/bolide/store/disk/files.py:RealFiles": "a method for each call of the contract",
    "src/bolide/store/index/index_file.py:IndexFile": "slots, entries and header are one invariant",
    "src/bolide/store/index/index_service.py:IndexService": "one list of files for loading, adding and queries",
    "src/bolide/store/log/commit_log.py:CommitLog": "the batch of a turn, its write and its sync",
    "src/bolide/store/message_store.py:MessageStore": "the facade; a part is one more call per message",
}
MIRRORS_OF_AN_API = ("src/bolide/admin/blocking.py", "src/bolide/client/blocking.py")


def file_length(path: PurePosixPath, text: str) -> Iterator[str]:
    """One idea per file; this is only the backstop. Generated files are exempt."""
    most = LONGEST_FILE_OF_THE_CORE if room_of(path) in CORE else LONGEST_FILE
    lines = text.count("\n")
    if lines > most and "enerated by tools/" not in text[:1000]:
        yield f"{path}: {lines} lines, more than {most}; split it where its second idea begins"


class Definition(NamedTuple):
    """A function or class of a source file. `line` is that of its name, `lines` its length."""

    kind: Literal["function", "class"]
    name: str
    line: int
    lines: int
    top_level: bool


def definitions(path: PurePosixPath, text: str) -> Iterator[Definition]:
    """Return the functions and classes of a Python or Cython file."""
    if path.suffix != ".py":
        yield from _cython_definitions(text)
        return
    top_level = set(map(id, tree(text).body))
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.end_lineno is not None:
            kind: Literal["function", "class"] = "class" if isinstance(node, ast.ClassDef) else "function"
            yield Definition(kind, node.name, node.lineno, node.end_lineno - node.lineno + 1, id(node) in top_level)


_CYTHON_DEFINITION = re.compile(
    r"(?P<indent> *)(?:(?P<cls>(?:cdef )?class) (?P<class_name>\w+)|c?p?def\b[^=(]*?(?P<name>\w+)\()"
)


def _cython_definitions(text: str) -> Iterator[Definition]:
    """The same by indentation, since `ast` does not read Cython. A header ends with its parentheses, in a colon."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = _CYTHON_DEFINITION.match(line)
        if found is None:
            continue
        indent = len(found["indent"])
        header, depth = number, line.count("(") - line.count(")")
        while depth > 0 and header + 1 < len(lines):
            header += 1
            depth += lines[header].count("(") - lines[header].count(")")
        if not lines[header].rstrip().endswith(":"):
            continue  # a declaration
        last = header
        for at in range(header + 1, len(lines)):
            if lines[at].strip() and len(lines[at]) - len(lines[at].lstrip()) <= indent:
                break
            if lines[at].strip():
                last = at
        kind: Literal["function", "class"] = "class" if found["cls"] else "function"
        yield Definition(kind, found["class_name"] or found["name"], number + 1, last - number + 1, indent == 0)


def function_length(path: PurePosixPath, text: str) -> Iterator[str]:
    """A function fits on a page."""
    for found in definitions(path, text):
        if found.kind == "function" and found.lines > LONGEST_FUNCTION:
            yield f"{path}:{found.line}: {found.name} has {found.lines} lines, more than {LONGEST_FUNCTION}"


def class_length(path: PurePosixPath, text: str, exceptions: bool = True) -> Iterator[str]:
    """A long class does a second thing, or says why it does not."""
    if room_of(path) is None or path.as_posix() in MIRRORS_OF_AN_API:
        return
    for found in definitions(path, text):
        if found.kind != "class":
            continue
        said = f"{path}:{found.line}: the class {found.name} has {found.lines} lines, more than"
        if found.lines > LONGEST_CLASS:
            yield f"{said} {LONGEST_CLASS}; split it where the second thing it does begins"
        elif found.lines > LONG_CLASS and not (exceptions and f"{path}:{found.name}" in LONG_CLASSES):
            yield f"{said} {LONG_CLASS}; split off the second thing it does, or give the reason in LONG_CLASSES"


def one_public_class(path: PurePosixPath, text: str) -> Iterator[str]:
    """A file holds one public class, or a family of functions or of small classes."""
    if room_of(path) is None or "enerated by tools/" in text[:1000]:
        return
    public = [
        found.name
        for found in definitions(path, text)
        if found.kind == "class" and found.top_level and found.lines > PUBLIC_CLASS and not found.name.startswith("_")
    ]
    if len(public) > 1:
        yield f"{path}: {' and '.join(public)} have more than {PUBLIC_CLASS} lines each; give each a file"


SOURCE_RULES: tuple[Rule, ...] = (file_length, function_length, class_length, one_public_class)
"""For Python and Cython."""
