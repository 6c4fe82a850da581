"""The compatibility matrix: which feature is proven for which version in which direction, and by how many tests.

A test names its cell by `@pytest.mark.matrix(feature=..., version=..., direction=...)`; with no `version`, it is the
one in the test's own id, followed by "binary" if the id says that the header is. Feature and direction may name
parameters of the test in braces. tools/generate_matrix.py writes the
table into docs/compatibility.md from what is collected; the interop run prints it with what passed and what failed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pytest

TO_OURS = "Java client → our broker"
OF_OURS = "our client → Java broker"
STORE_OUT = "our store → Java broker"
STORE_BACK = "Java store → our broker"
PROGRAM = "Java program → our broker"
OUR_MASTER = "our master → Java slave"
OUR_SLAVE = "Java master → our slave"
OUR_CONTROLLER = "our controller → Java broker"
JAVA_CONTROLLER = "Java controller → our broker"
DIRECTIONS = {
    TO_OURS: "RocketMQ's own client, unchanged, against our name server and broker, with either header.",
    OF_OURS: "Our client against RocketMQ's name server and broker.",
    STORE_OUT: "A store folder written by our broker, opened and continued by RocketMQ's.",
    STORE_BACK: "A store folder written by RocketMQ's broker, opened and continued by ours.",
    PROGRAM: "RocketMQ's own programs and classes, against our servers or compared with ours.",
    OUR_MASTER: "RocketMQ's broker replicates from ours: by configuration, and under a controller.",
    OUR_SLAVE: "Our broker replicates from RocketMQ's: by configuration, and under a controller.",
    OUR_CONTROLLER: "RocketMQ's brokers, alone and in sets with ours, under our controller.",
    JAVA_CONTROLLER: "Our brokers, alone and in sets with RocketMQ's, under RocketMQ's controller.",
}
CLIENTS = ("4.9.8", "4.9.8 binary", "5.5.0", "5.5.0 binary")
BROKERS = ("4.9.7", "5.5.0")

_OF_A_CLIENT = """
send sync · send async · send oneway · send batch · send by selector · delay level · transaction with check-back ·
tag filter · SQL92 filter · request-reply · message trace · broadcast · concurrent push · orderly push · lite pull ·
lite pull of assigned queues · resume at the offset · retry to dead letters · query by key and id
"""
_OF_A_STORE = """
plain messages · index by key · offset id · batch · tags · consumer offsets · delay levels · open transactions ·
decided transactions · retries and dead letters · SQL92 filters with ext · orderly offsets · message trace ·
after clean stop · after SIGKILL
"""
_OF_A_PAIR = """
catch-up from nothing · catch-up from the middle of a file · catch-up after truncation ·
SYNC_MASTER acknowledges what the slave has · ASYNC_MASTER: catch-up from nothing ·
ASYNC_MASTER: catch-up from the middle of a file · ASYNC_MASTER waits for no slave · a pair with 10,000 queues ·
a pair with 10,000 queues and SYNC_MASTER ·
promotion by configuration: Java, ours, Java · promotion by configuration: ours, Java, ours ·
rolling restart under traffic · tables of slaves
"""

_OF_A_NEW_PAIR = """
truncation at the first differing epoch · failover under our controller · failover under Java's controller ·
acting master · acting master of three
"""


def words(text: str) -> tuple[str, ...]:
    """The features of a list with dots between them."""
    return tuple(" ".join(part.split()) for part in text.split("·"))


REQUIRED = {
    TO_OURS: (words(_OF_A_CLIENT), CLIENTS),
    OF_OURS: (words(_OF_A_CLIENT), BROKERS),
    STORE_OUT: (words(_OF_A_STORE), BROKERS),
    STORE_BACK: (words(_OF_A_STORE), BROKERS),
    PROGRAM: (
        ("benchmark Producer", "benchmark BatchProducer", "benchmark Consumer", "benchmark TransactionProducer"),
        ("5.5.0",),
    ),
    OUR_MASTER: (words(_OF_A_PAIR), BROKERS),
    OUR_SLAVE: (words(_OF_A_PAIR), BROKERS),
    OUR_CONTROLLER: (("a set of Java's is switched", "a mixed set is switched by killing either"), ("5.5.0",)),
    JAVA_CONTROLLER: (("a set of Bolide brokers is switched", "a mixed set is switched by killing either"), ("5.5.0",)),
}
ONLY_IN_5 = {
    **dict.fromkeys((TO_OURS, STORE_OUT, STORE_BACK), ("timer messages", "light queues (LMQ)")),
    **dict.fromkeys((OUR_MASTER, OUR_SLAVE), words(_OF_A_NEW_PAIR)),
}
"""What only 5.5.0 has. These and the cells above must hold a test; the generator fails while one of them is empty."""

_VERSION = re.compile(r"(?<![\d.])(\d\.\d\.\d)(?![\d.])")


class Cell(NamedTuple):
    """One place of the matrix."""

    direction: str
    feature: str
    version: str


def to_ours(*features: str) -> Callable[[Any], Any]:
    """Marks a test of RocketMQ's client, whose version is in the test's id, against our broker."""
    return marked(TO_OURS, *features)


def marked(direction: str, *features: str, version: str = "") -> Callable[[Any], Any]:
    """Marks a test as a proof of these features, for this version, or the one in its id."""

    def mark(test: Any) -> Any:
        for feature in features:
            test = pytest.mark.matrix(feature=feature, direction=direction, version=version)(test)
        return test

    return mark


def cells_of(item: pytest.Item) -> list[Cell]:
    """The cells a test counts in. Raises UsageError for a marker that names none."""
    found: list[Cell] = []
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    for mark in item.iter_markers("matrix"):
        fields: Mapping[str, Any] = mark.kwargs
        if mark.args or not {"feature", "direction"} <= fields.keys():
            raise pytest.UsageError(f"{item.nodeid}: matrix takes feature, direction and version, not {mark}")
        version = fields.get("version") or version_of(item.nodeid)
        direction = fields["direction"].format_map(parameters)
        if direction not in DIRECTIONS or not version:
            raise pytest.UsageError(f"{item.nodeid}: the direction {direction!r} or the version {version!r} is none")
        found.append(Cell(direction, fields["feature"].format_map(parameters), str(version)))
    return found


def version_of(nodeid: str) -> str:
    """The version that a test's parameters name, "" for none."""
    parameters = nodeid.partition("[")[2]
    found = _VERSION.search(parameters)
    if found is None:
        return ""
    return f"{found[1]} binary" if "binary" in parameters else found[1]


def missing(covered: Iterable[Cell]) -> list[Cell]:
    """Required cells without a test."""
    wanted = [
        Cell(direction, feature, version)
        for direction, (features, versions) in REQUIRED.items()
        for feature in features
        for version in versions
    ]
    wanted += [Cell(direction, feature, "5.5.0") for direction, only in ONLY_IN_5.items() for feature in only]
    there = set(covered)
    return [cell for cell in wanted if cell not in there]


def tables(covered: Iterable[Cell], text_of: Callable[[Cell], str]) -> dict[str, list[list[str]]]:
    """By direction: rows of texts, the first being the heads of the columns; a cell nobody proves is a dash."""
    there = set(covered)
    made: dict[str, list[list[str]]] = {}
    for direction in DIRECTIONS:
        mine = [cell for cell in there if cell.direction == direction]
        if not mine:
            continue
        versions = sorted({cell.version for cell in mine})
        order = {feature: at for at, feature in enumerate(REQUIRED.get(direction, ((), ()))[0])}
        features = sorted({cell.feature for cell in mine}, key=lambda feature: (order.get(feature, 1000), feature))
        rows = [["feature", *versions]]
        for feature in features:
            texts = [text_of(cell) if (cell := Cell(direction, feature, v)) in there else "–" for v in versions]
            rows.append([feature, *texts])
        made[direction] = rows
    return made


def as_markdown(counts: Counter[Cell]) -> str:
    """The matrix for docs/compatibility.md: how many tests prove each cell."""
    parts: list[str] = []
    for direction, rows in tables(counts, lambda cell: str(counts[cell])).items():
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines.insert(1, "|---" * len(rows[0]) + "|")
        parts.append(f"### {direction}\n\n{DIRECTIONS[direction]}\n\n" + "\n".join(lines) + "\n")
    tests = sum(counts.values())
    return f"{len(counts)} cells, {tests} tests; the figure is the number of tests of a cell.\n\n" + "\n".join(parts)


def as_text(passed: Counter[Cell], failed: Counter[Cell]) -> list[str]:
    """The matrix of a run: passed/failed in each cell that ran."""
    ran = passed + failed
    lines: list[str] = []
    for direction, rows in tables(ran, lambda cell: f"{passed[cell]}/{failed[cell]}").items():
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines.append(f"{direction} (passed/failed)")
        for row in rows:
            lines.append("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        lines.append("")
    lines.append(f"{len(ran)} cells: {sum(passed.values())} tests passed, {sum(failed.values())} failed")
    return lines
