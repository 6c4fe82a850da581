"""Names, permission bits, sys flag bits and limits of RocketMQ are written once: in `bolide.layout`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bolide.layout import limits, names, permissions, sysflag
from bolide.layout.names import is_system_topic

SOURCE = Path(__file__).parents[2] / "src" / "bolide"
HOMES = ("names", "permissions", "limits", "sysflag")
GROUPS = {*names.FIRST_GROUPS, *names.PREDEFINED_GROUPS}


def constants(module: ModuleType) -> dict[str, object]:
    """The constants of a module by name."""
    return {name: value for name, value in vars(module).items() if name.isupper()}


def fixed_words() -> tuple[set[str], tuple[str, ...]]:
    """Words that are refused as literals, and beginnings of words that are."""
    listed = [value for value in constants(names).values() if isinstance(value, str)]
    words = {*listed, *names.ROCKSDB_TOPICS, *names.SYSTEM_TOPICS, *GROUPS}
    return words, tuple(word for word in words if word.endswith(("%", "_")))


WORDS, BEGINNINGS = fixed_words()
OWN_NAMES = {name for module in (names, permissions, limits, sysflag) for name in constants(module)}
BITS_OF = ("perm", "permission", "sys_flag")


def docstrings(tree: ast.Module) -> set[int]:
    """Ids of the expressions that are only text: docstrings of modules, functions, classes and constants."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def second_literals(source: str) -> Iterator[str]:
    """A sentence for each fixed word, bit or limit that this source writes itself."""
    tree = ast.parse(source)
    texts = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in texts:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if text in WORDS or (text.startswith(BEGINNINGS) and " " not in text):
                yield f"line {node.lineno}: {text!r} is in layout.names"
        elif isinstance(node, ast.Constant) and node.value == limits.MAX_PROPERTIES_LENGTH:
            if "0x" in (ast.get_source_segment(source, node) or ""):
                continue  # a mask
            yield f"line {node.lineno}: {node.value} is in layout.limits"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            sides = (node.left, node.right)
            if any(isinstance(side, ast.Constant) for side in sides):
                if any(last_name(side).endswith(BITS_OF) for side in sides):
                    yield f"line {node.lineno}: a bit as a number; it is in layout.permissions or layout.sysflag"
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            for target in targets:
                if isinstance(target, ast.Name) and target.id.lstrip("_") in OWN_NAMES:
                    yield f"line {node.lineno}: {target.id} is defined in layout already"


def sources() -> list[Path]:
    """Every source but the homes."""
    homes = {SOURCE / "layout" / f"{home}.py" for home in HOMES}
    return [file for file in sorted(SOURCE.rglob("*.py")) if file not in homes]


def test_fixed_words_are_written_once() -> None:
    found = [
        f"{file.relative_to(SOURCE)}, {sentence}"
        for file in sources()
        for sentence in second_literals(file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('topic = "TBW102"', "'TBW102'"),
        ('topic = b"RMQ_SYS_TRANS_HALF_TOPIC"', "RMQ_SYS_TRANS_HALF_TOPIC"),
        ('topic = f"%DLQ%{group}"', "'%DLQ%'"),
        ('name.startswith(("%RETRY%", "x"))', "'%RETRY%'"),
        ('topic = "rmq_sys_MINE"', "rmq_sys_MINE"),
        ("if config.perm & 4: pass", "a bit as a number"),
        ("wide = 0x10 & head.sys_flag", "a bit as a number"),
        ("LIMIT: Final = 32_767", "layout.limits"),
        ("_PERM_READ: Final = READABLE", "defined in layout"),
        ('"""The topic TBW102."""\nremark = "%RETRY% topics take no batches"', None),
        ("if config.perm & PERM_READ: pass", None),
    ],
)
def test_a_second_literal_is_found(source: str, says: str | None) -> None:
    found = list(second_literals(source))
    assert len(found) == (says is not None)
    assert says is None or says in found[0]


def test_topics_of_the_system_are_told_from_those_of_users() -> None:
    of_system = ("TBW102", "TRANS_CHECK_MAX_TIME_TOPIC", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "c_REPLY_TOPIC")
    assert all(map(is_system_topic, of_system))
    assert not any(map(is_system_topic, ("Orders", "%RETRY%g", "%DLQ%g", "MY_TBW102", "REPLY_TOPIC_x")))
