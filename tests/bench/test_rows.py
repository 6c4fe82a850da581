"""Every row measures our broker for a moment, and what it counts is plausible; how fast it is, no test says."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from bench.loads.client_rows import client_subjects
from bench.loads.loads import Fill, Loaded
from bench.loads.rows import Row, all_rows, chosen_rows, groups
from bench.loads.subject import Scale, Subject
from bench.servers.servers import BolideBroker
from bench.servers.stopping import Failed

from proof.kit.small import NEVER_BUSY, SMALL_LOG

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the bench is built with a C compiler")
SMALL = Scale(240.0, 0.0, count=300, crowd=30, share=0.01, level=1, lead=2.0, watch=0.2, answers=40)
BROKER_ROWS = [row for row in all_rows() if not row.group.clients]
OLD_SHAPES = [
    f"send {shape} {body} B {flush}"
    for flush in ("async", "sync")
    for body in (128, 1024)
    for shape in ("64x1", "8x32", "1x1")
]


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Subject]]:
    """A broker for each group of rows."""
    found: dict[str, Subject] = {}
    try:
        for group in groups(BROKER_ROWS):
            home = tmp_path_factory.mktemp("broker")
            server = BolideBroker(home, group.flush, 180.0, settings={**SMALL_LOG, **NEVER_BUSY, **group.settings})
            found[group.name] = Subject("bolide", server, SMALL)
        yield found
    finally:
        for subject in found.values():
            subject.server.kill()


@needs_compiler
@pytest.mark.parametrize("row", BROKER_ROWS, ids=lambda row: row.name)
def test_a_row_measures_our_broker(row: Row, subjects: dict[str, Subject]) -> None:
    figures = row.measure(subjects[row.group.name])
    for one in row.compared:
        assert figures[one.figure] > 0 or one.figure == "cpu_seconds"  # counted in hundredths of a second
    assert figures["user_us"] >= 0 and figures["system_us"] >= 0
    assert figures.get("refused", 0) == 0
    if row.load is not None:
        assert 0 < figures["p50_us"] <= figures["p99_us"]
    elif "last_ms" in figures:
        assert figures["first_ms"] <= figures["last_ms"]


@pytest.mark.parametrize("row", chosen_rows("client:"), ids=lambda row: row.name)
def test_a_row_measures_our_client(row: Row, tmp_path: Path) -> None:
    with ExitStack() as running:
        scale = Scale(seconds=0.3, share=0.005)
        subject = client_subjects(["bolide"], {"bolide": sys.executable}, tmp_path, scale, running)[0]
        figures = row.measure(subject)
    assert figures["rate"] > 0 and figures["cpu_us"] > 0


def test_the_shapes_of_earlier_commits_keep_their_names() -> None:
    assert [row.name for row in all_rows()][:12] == OLD_SHAPES


def test_names_are_unique_and_chosen_by_a_part_of_them() -> None:
    names = [row.name for row in all_rows()]
    assert len(set(names)) == len(names)
    assert [row.name for row in chosen_rows("8x32 128 B")] == ["send 8x32 128 B async", "send 8x32 128 B sync"]
    assert len(chosen_rows("pull; TIMER")) == len([name for name in names if "pull" in name]) + 1
    assert [row.name for row in chosen_rows("sql92*8 conn")] == ["pull 32, SQL92 that passes 10 %, 8 connections"]
    with pytest.raises(Failed, match="'nothing like it'"):
        chosen_rows("pull; nothing like it")


@needs_compiler
def test_a_filter_that_lets_too_much_pass_fails_the_row(tmp_path: Path) -> None:
    broker = BolideBroker(tmp_path, "async", 180.0, settings=SMALL_LOG)
    try:
        subject = Subject("bolide", broker, SMALL)
        of_two = Fill("halves", 128, 4000, tags=2)
        row = chosen_rows("pull 32, tag")[0].load
        assert row is not None
        options = {**row.load.options, "subscription": "t1"}
        load = type(row.load)(row.load.shape, "pull", 128, "halves", options=options)
        with pytest.raises(Failed, match=r"let (49|50)\.\d% of the messages pass where 10% were expected"):
            Loaded(load, of_two, expect="t1")(subject)
    finally:
        broker.kill()
