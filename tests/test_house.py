"""The house rules hold over the whole checkout, and each of them fires on a case that breaks it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest
from tools.generate_blocking import OUTPUTS

from tests import house_rules, house_sizes
from tests.house_rules import ANY_FILE_RULES, PYTHON_RULES, Rule
from tests.house_sizes import SOURCE_RULES

ROOT = Path(__file__).parent.parent
TEXT = {
    ".py",
    ".pyi",
    ".pyx",
    ".pxd",
    ".pxi",
    ".md",
    ".toml",
    ".lock",
    ".sh",
    ".c",
    ".h",
    ".java",
    ".xml",
    ".html",
    ".conf",
    ".cfg",
    ".yml",
    ".txt",
    "",
}
CYTHON = {".pyx", ".pxd", ".pxi"}
SKIPPED = {"bolide.egg-info", "build", "dist", "__pycache__", "spark-warehouse", "metastore_db"}


def files() -> Iterator[tuple[PurePosixPath, Path]]:
    """Every text file of the checkout, generated folders apart."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED and (name == ".ci" or name[0] != ".")]
        for name in sorted(names):
            file = Path(folder, name)
            if file.suffix in TEXT and not name.startswith("."):
                yield PurePosixPath(file.relative_to(ROOT).as_posix()), file


def test_the_checkout_keeps_every_rule() -> None:
    """One pass: most of the time goes into reading and parsing."""
    found: list[str] = []
    for path, file in files():
        text = file.read_text(encoding="utf-8", errors="replace")
        rules = [*ANY_FILE_RULES]
        if file.suffix in (".py", *CYTHON):
            rules += SOURCE_RULES
        if file.suffix == ".py":
            rules += PYTHON_RULES
        for rule in rules:
            found += rule(path, text)
    assert "\n".join(found) == ""


def test_every_long_class_has_its_reason_and_no_other() -> None:
    long = set()
    for path, file in files():
        if file.suffix in (".py", *CYTHON):
            for said in house_sizes.class_length(path, file.read_text("utf-8"), exceptions=False):
                long.add(f"{path}:{said.partition('the class ')[2].partition(' ')[0]}")
    assert set(house_sizes.LONG_CLASSES) == long


FOLDERS_OF_THE_WHOLE = {
    *("bench", "crash", "data", "golden", "hostile", "interop", "mistakes", "model", "programs", "proof", "runner"),
}


def modules_of(folder: Path) -> set[str]:
    """Names of the modules and packages in a folder."""
    return (
        {entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()}
        if folder.is_dir()
        else set()
    )


def test_tests_mirror_the_source() -> None:
    """tests/<room>/test_<file>….py tests src/bolide/<room>/<file>.py; a few folders test the whole instead."""
    lost = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        folder = file.parent.relative_to(ROOT / "tests")
        if not folder.parts or folder.parts[0] in FOLDERS_OF_THE_WHOLE:
            continue
        subject = file.stem.removeprefix("test_")
        modules = modules_of(ROOT / "src/bolide" / folder)
        if not any(subject == module or subject.startswith(f"{module}_") for module in modules):
            lost.append(f"{folder / file.name}: no module of src/bolide/{folder} begins its name")
    assert lost == []


def imports_of(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return the modules among `sources` that each of them imports, also those imported for their types only."""
    return {
        name: {
            module
            for node in ast.walk(ast.parse(text))
            for module in imported_modules(node)
            if module in sources and module != name
        }
        for name, text in sources.items()
    }


def imported_modules(node: ast.AST) -> list[str]:
    """Return the modules that a statement may import: `from a import b` names `a`, and `a.b` if it is a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def modules_below(folder: Path, root: Path) -> dict[str, str]:
    """Return the source of each module below a folder, by its dotted name. A package's own file only hands names on."""
    return {
        ".".join(file.relative_to(root).with_suffix("").parts): file.read_text("utf-8")
        for file in sorted(folder.rglob("*.py"))
        if file.name != "__init__.py"
    }


@pytest.mark.parametrize(("folder", "root"), [("src/bolide", "src"), ("proof", "."), ("bench", ".")])
def test_no_files_import_each_other_in_a_circle(folder: str, root: str) -> None:
    order = TopologicalSorter(imports_of(modules_below(ROOT / folder, ROOT / root)))
    assert len(list(order.static_order())) > 30


def test_no_packages_import_each_other_in_a_circle() -> None:
    """Neither sub-packages nor files next to them, at any depth."""
    imports = imports_of(modules_below(ROOT / "src/bolide", ROOT / "src"))
    packages = {package for name in imports for package in parents_of(name)}
    for package in sorted(packages):
        TopologicalSorter(imports_within(package, imports)).prepare()
    assert {"bolide", "bolide.broker", "bolide.broker.delay"} <= packages


def parents_of(name: str) -> list[str]:
    """Return the packages that contain a module."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def imports_within(package: str, imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return which children of a package import which of its other children."""

    def child_of(name: str) -> str:
        return name.removeprefix(f"{package}.").partition(".")[0] if name.startswith(f"{package}.") else ""

    found: dict[str, set[str]] = {}
    for name, imported in imports.items():
        if child := child_of(name):
            found.setdefault(child, set()).update({child_of(each) for each in imported} - {child, ""})
    return found


def test_a_circle_of_packages_is_found() -> None:
    imports = {"a.b.x": {"a.c.x"}, "a.b.y": {"b.b.y"}, "a.c.x": set(), "a.c.y": {"a.b.y"}, "b.b.y": set()}
    assert imports_within("a", imports) == {"b": {"c"}, "c": {"b"}}
    with pytest.raises(CycleError):
        TopologicalSorter(imports_within("a", imports)).prepare()


def test_a_circle_is_found() -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import c\n"
    order = TopologicalSorter(imports_of({"a.b": typed, "a.c": "import a.b\n"}))
    with pytest.raises(CycleError):
        order.prepare()


BLOCKING = "the class without async"
SAME_IN_ROCKETMQ = "RocketMQ has one name for what travels and for what is kept"
BOTH_ENDS = "one hook sees it at the client, another at the broker, as RocketMQ's SendMessageContext"
ALSO_ON_SPARK = "the same verdict by another engine, which may not import the store"
TWINS = {
    **{facade.name: BLOCKING for output in OUTPUTS for facade in output.facades},
    "ClientConnection": BLOCKING,
    "ConnectionPool": BLOCKING,
    "ConsumeCall": BOTH_ENDS,
    "DataVersion": SAME_IN_ROCKETMQ,
    "Finding": ALSO_ON_SPARK,
    "MessageQueue": SAME_IN_ROCKETMQ,
    "SendCall": BOTH_ENDS,
    "SubscriptionGroupConfig": SAME_IN_ROCKETMQ,
    "TopicConfig": SAME_IN_ROCKETMQ,
    "Verdict": ALSO_ON_SPARK,
}
"""Names that two classes of the package share, because they are one thing."""


def test_two_classes_of_one_name_are_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(file.relative_to(ROOT / "src").as_posix())
    shared = {name: files for name, files in places.items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in TWINS} == {}, "give each a name of its own"
    assert set(TWINS) <= set(shared), "delete the names that no longer have two classes"
    assert all(len(files) == 2 for files in shared.values())


# Put together, so that the rules do not fire on this file.
IGNORE, NOQA, LATER, MACHINE_PATH = "# type" + ": ignore", "# no" + "qa", "TO" + "DO", "/wo" + "rk/main"
LONG_FUNCTION = "def f() -> None:\n" + "    pass\n" * 80
LONG_CYTHON = "cdef int f(int x) nogil\n\ncdef inline int g(\n    int x\n) noexcept:\n" + "    x += 1\n\n" * 40
CLASS_OF_101 = "class C:\n" + "    x = 1\n" * 100
EIGHT = "class C:\n    def __init__(self, a, b, c, d, *, e, f, g, h): ...\n"
BREAKS: list[tuple[Rule, str, str, str]] = [
    (house_rules.file_names, "src/bolide/store/file_utils.py", "", "named 'file_utils.py'"),
    (house_rules.file_names, "src/bolide/common/offset.py", "", "named 'common'"),
    (house_sizes.file_length, "src/bolide/layout/long.py", "x = 1\n" * 501, "501 lines"),
    (house_sizes.file_length, "src/bolide/store/long.py", "x = 1\n" * 451, "451 lines"),
    (house_sizes.file_length, "src/bolide/store/long.pyx", "cdef int x\n" * 451, "451 lines"),
    (house_sizes.class_length, "src/bolide/store/a.py", "class C:\n" + "    x = 1\n" * 300, "C has 301 lines"),
    (house_sizes.class_length, "src/bolide/store/a.pyx", "cdef class C:\n" + "    cdef int x\n" * 400, "more than 400"),
    (house_sizes.one_public_class, "src/bolide/store/a.py", CLASS_OF_101 + CLASS_OF_101.replace("C", "D"), "C and D"),
    (house_sizes.function_length, "src/bolide/store/long.py", LONG_FUNCTION, "f has 81 lines"),
    (house_sizes.function_length, "src/bolide/store/long.pyx", LONG_CYTHON, "g has 82 lines"),
    (house_rules.few_parameters, "src/bolide/store/c.py", EIGHT.replace("h)", "h, i=0)"), "__init__ has 9 parameters"),
    (
        house_rules.few_parameters,
        "src/bolide/client/c.py",
        "def f(a, b, c, d, e, f, g, *h, **i): ...\n",
        "9 parameters",
    ),
    (house_rules.silencers_give_reasons, "src/a.py", f"x = y  {IGNORE}[attr-defined]\n", "without a reason"),
    (house_rules.silencers_give_reasons, "src/a.py", f"x = y  {IGNORE}  # the stub is wrong\n", "every rule"),
    (house_rules.silencers_give_reasons, "src/a.py", f"import x  {NOQA}: F401\n", "without a reason"),
    (house_rules.silencers_give_reasons, "src/a.py", f"import x  {NOQA}\n", "every rule"),
    (house_rules.pure_rooms_stay_pure, "src/bolide/broker/append/log_writer.py", "import time\n", "imports time"),
    (house_rules.pure_rooms_stay_pure, "src/bolide/store/disk/segments.py", "from os import path\n", "imports os"),
    (house_rules.pure_rooms_stay_pure, "src/bolide/layout/record.py", "import random\n", "imports random"),
    (house_rules.pure_rooms_stay_pure, "src/bolide/namesrv/kv.py", "f = open('kv')\n", "calls open()"),
    (house_rules.world_enters_by_one_door, "src/bolide/node/loop/host.py", "import time\n", "uses time"),
    (house_rules.world_enters_by_one_door, "src/bolide/client/a.py", "from random import choice\n", "uses random"),
    (house_rules.world_enters_by_one_door, "src/bolide/client/a.py", "asyncio.to_thread(f)\n", "uses to_thread"),
    (house_rules.world_enters_by_one_door, "src/bolide/transport/a.py", "loop.create_server(f)\n", "create_server"),
    (house_rules.world_enters_by_one_door, "src/bolide/transport/blocking.py", "import random\n", "uses random"),
    (house_rules.world_enters_by_one_door, "src/bolide/node/a.py", "import os\n", "uses os"),
    (
        house_rules.world_enters_by_one_door,
        "src/bolide/node/a.py",
        "from bolide.world.clocks import now_ms\n",
        "clocks",
    ),
    (house_rules.nothing_in_the_order_of_a_set, "src/bolide/node/a.py", "for a in {b.c for b in d}: ...\n", "dict"),
    (house_rules.nothing_in_the_order_of_a_set, "src/bolide/client/a.py", "x = list(set(a) - b)\n", "sort it"),
    (house_rules.nothing_in_the_order_of_a_set, "src/bolide/store/a.py", "f(*{a, b})\n", "sort it"),
    (house_rules.no_fixed_sleeps, "tests/test_a.py", "import time\ntime.sleep(0.2)\n", "fixed time"),
    (house_rules.no_fixed_sleeps, "tests/test_a.py", "async def f():\n    await asyncio.sleep(1)\n", "fixed time"),
    (house_rules.no_patching, "tests/test_a.py", "from unittest.mock import patch\n", "imports patch"),
    (house_rules.no_patching, "tests/test_a.py", "from unittest import mock\nmock.patch('x.y')\n", "uses mock.patch"),
    (house_rules.no_patching, "tests/test_a.py", "def f(m):\n    m.setattr('bolide.store.x', 1)\n", "patches bolide"),
    (
        house_rules.no_patching,
        "tests/test_a.py",
        "from bolide import store\ndef f(m):\n    m.setattr(store.a, 'b', 1)\n",
        "patches",
    ),
    (
        house_rules.tests_are_leaves,
        "tests/a/b.py",
        "from tests.a.test_c import d\n",
        "imports the test module tests.a.test_c",
    ),
    (
        house_rules.tests_are_leaves,
        "tests/a/b.py",
        "from tests.a import test_c\n",
        "imports the test module tests.a.test_c",
    ),
    (house_rules.tests_are_leaves, "tests/a/b.py", "from .test_c import d\n", "imports the test module tests.a.test_c"),
    (
        house_rules.tests_are_leaves,
        "proof/a.py",
        "def f():\n    import tests.a\n",
        "imports tests.a from outside tests/",
    ),
    (house_rules.tests_are_leaves, "bench/a.py", "from tests.a import b\n", "imports tests.a from outside tests/"),
    (
        house_rules.judges_share_no_code,
        "proof/reader/a.py",
        "import struct\nfrom proof.reader.b import c\nfrom bolide.layout.record import decode\n",
        "proof/reader/a.py:3: imports bolide.layout.record",
    ),
    (house_rules.judges_share_no_code, "proof/ledger/a.py", "import proof.kit.wire\n", "imports proof.kit.wire"),
    (house_rules.nothing_swallowed, "src/a.py", "try:\n    f()\nexcept Exception:\n    pass\n", "swallows every error"),
    (house_rules.nothing_swallowed, "src/a.py", "try:\n    f()\nexcept:\n    pass\n", "swallows every error"),
    (house_rules.nothing_unfinished, "src/a.py", f"# {LATER} later\n", "finish it"),
    (house_rules.nothing_unfinished, "src/a.py", "raise NotImplementedError\n", "finish it"),
    (house_rules.no_machine_paths, "docs/a.md", f"see {MACHINE_PATH}\n", "path of one machine"),
    (
        house_rules.plain_english,
        "docs/a.md",
        "first\nIt is made\nanew.\n",
        "docs/a.md:3: says 'anew'; the standard word: again",
    ),
    (house_rules.plain_english, "src/a.py", '"""An address that is none."""\n', "the standard word: invalid"),
    (house_rules.plain_english, "src/a.py", "# It goes\n# on with the next.\n", "a.py:1: says 'goes on with'"),
    (house_rules.plain_english, "src/a.py", "f'{x} stands in {y}'\n", "says 'stands in'"),
    (house_rules.one_word_one_thing, "src/a.py", "def f(queueid):\n    return queueid\n", "called 'queue_id'"),
]


@pytest.mark.parametrize(("rule", "path", "text", "says"), BREAKS)
def test_each_rule_fires(rule: Rule, path: str, text: str, says: str) -> None:
    found = list(rule(PurePosixPath(path), text))
    assert found, "the rule let it pass"
    assert says in found[0]


KEEPS: list[tuple[Rule, str, str]] = [
    (house_rules.silencers_give_reasons, "src/a.py", f"x = y  {IGNORE}[attr-defined]  # the stub lacks it\n"),
    (house_rules.silencers_give_reasons, "src/a.py", f"import x  {NOQA}: F401 - part of the public door\n"),
    (house_rules.few_parameters, "src/bolide/store/c.py", EIGHT),
    (house_rules.few_parameters, "src/bolide/client/c.py", EIGHT.replace("h)", "h, i=0)")),
    (house_rules.few_parameters, "src/bolide/cli/c.py", "def f(a, b, c, d, e, f, g, h, i): ...\n"),
    (house_rules.pure_rooms_stay_pure, "src/bolide/store/disk/files.py", "import os\n"),
    (house_rules.pure_rooms_stay_pure, "src/bolide/node/timers.py", "import time\n"),
    (house_rules.world_enters_by_one_door, "src/bolide/transport/blocking.py", "import socket\n"),
    (house_rules.world_enters_by_one_door, "src/bolide/node/broker.py", "from concurrent.futures import Executor\n"),
    (house_rules.world_enters_by_one_door, "src/bolide/world/real.py", "import socket\n"),
    (house_rules.nothing_in_the_order_of_a_set, "src/bolide/node/a.py", "x = sorted({b.c for b in d}), {*a}\n"),
    (house_rules.nothing_in_the_order_of_a_set, "src/bolide/spark/a.py", "for a in {b, c}: ...\n"),
    (house_rules.no_fixed_sleeps, "tests/test_a.py", "while not done():\n    time.sleep(0.01)\n"),
    (house_rules.no_fixed_sleeps, "tests/test_a.py", "async def f():\n    await asyncio.sleep(0)\n"),
    (house_rules.tests_are_leaves, "tests/a/test_b.py", "from tests.a.parts import c\nfrom bolide.a import test_d\n"),
    (house_rules.nothing_swallowed, "src/a.py", "try:\n    f()\nexcept OSError:\n    pass\n"),
    (
        house_rules.plain_english,
        "src/a.py",
        "# a replica may lag behind its master; anewton, whoevers\nwhoever = None\n",
    ),
    (house_rules.plain_english, "src/a.py", '"""A test that is None matches; a broker is behind it."""\n'),
    (house_sizes.class_length, "src/bolide/store/a.py", "class C:\n" + "    x = 1\n" * 299),
    (house_sizes.class_length, "tests/a.py", "class C:\n" + "    x = 1\n" * 500),
    (house_sizes.one_public_class, "src/bolide/store/a.py", CLASS_OF_101 + CLASS_OF_101.replace("C", "_D")),
    (house_sizes.function_length, "src/a.pyx", "cdef int f(int x)\ncdef class C:\n" + "    x = 1\n" * 90),
    (house_sizes.file_length, "src/a.py", '"""Generated by tools/generate_x.py."""\n' + "x = 1\n" * 600),
]


@pytest.mark.parametrize(("rule", "path", "text"), KEEPS)
def test_no_rule_fires_on_good_code(rule: Rule, path: str, text: str) -> None:
    assert list(rule(PurePosixPath(path), text)) == []


REFUSED = [
    "It is made anew.",
    "Ask whoever knows.",
    "an address that is none",
    "bytes that are no record",
    "It goes on with the rest.",
    "It goes on from there.",
    "It stands in no file.",
    "It stays for ever.",
    "The list is let be.",
    "The message comes again.",
    "what else there is, is as in Producer",
    "3 units stand oddly",
    "a broker of ours",
    "a folder that outlives the driver, in earnest",
    "the records behind",
    "the rest behind those",
    "what lies behind",
]


@pytest.mark.parametrize("number", range(len(house_rules.REFUSED_PHRASES)))
def test_each_refused_phrase_is_found_and_its_standard_word_is_said(number: int) -> None:
    standard = house_rules.REFUSED_PHRASES[number][1]
    found = "\n".join(house_rules.plain_english(PurePosixPath("docs/a.md"), REFUSED[number]))
    assert found.endswith(f"the standard word: {standard}")


def test_every_rule_has_a_case_that_fires() -> None:
    assert {case[0] for case in BREAKS} == {*SOURCE_RULES, *PYTHON_RULES, *ANY_FILE_RULES}


def test_every_exception_from_the_world_is_needed() -> None:
    for name, (allowed, _) in house_rules.BESIDE_THE_WORLD.items():
        path = PurePosixPath("src/bolide", name)
        said = "\n".join(house_rules.world_enters_by_one_door(path, (ROOT / path).read_text(), exceptions=False))
        assert [word for word in sorted(allowed) if f"uses {word};" not in said] == [], name
