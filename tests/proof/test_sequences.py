"""A short run of the random sequences for the Spark pipeline, and what the program that plays them promises."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from proof.reader.errors import Unreadable
from proof.reader.records import Record, record_at
from proof.sequences.__main__ import CORPUS, main, sequences
from proof.sequences.kinds import SHARES, kind_named
from proof.sequences.runner import drawn, kept, play, save, shrunk, story
from proof.sequences.steps import Step, Wrong, listen, weighted
from proof.sequences.store_model import Store
from proof.sequences.writing import record, record_size

SEED = 20261122


@pytest.fixture(autouse=True)
def _listening() -> Iterator[None]:
    """The sequences hear what the pipeline logs, and no test after them is deaf."""
    with listen():
        yield


@pytest.mark.parametrize(("kind", "count"), [("store", 40), ("topic", 8), ("broker", 4)])
def test_sequences_end_well(kind: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kind", kind, "--sequences", str(count), "--seed", str(SEED), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["sequences"] == {kind: count}
    assert figures["wrong"] == []
    assert figures["steps"] > 4 * count


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_earlier_sequences_stay_fixed(path: Path, tmp_path: Path) -> None:
    name, number, steps = kept(path)
    with closing(kind_named(name)) as kind:
        assert play(kind, number, list(enumerate(steps)), tmp_path).wrong == ""


def test_a_sequence_is_drawn_from_its_seed_alone() -> None:
    for name in SHARES:
        kind = kind_named(name)
        assert drawn(kind, 5, 7) == drawn(kind, 5, 7) != drawn(kind, 5, 8)
    assert [step.name for step in drawn(kind_named("store"), 1, 0)][:4] == ["append", "append", "append", "now"]
    counts = [kind.name for kind, _ in sequences(200, "")]
    assert {name: counts.count(name) for name in SHARES} == {
        name: 200 * share // sum(SHARES.values()) for name, share in SHARES.items()
    }


def test_the_same_sequence_says_the_same(tmp_path: Path) -> None:
    kind = kind_named("store")
    steps = list(enumerate(drawn(kind, 1, 3)))
    first, second = (re.sub(r"sequence-\w+", "", str(play(kind, 3, steps, tmp_path).said)) for _ in range(2))
    assert first == second


class Rusty:
    """A world that breaks once it has had both an A and, later, a B."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def do(self, step: Step) -> str:
        self.seen.append(step.name)
        if step.name == "B" and "A" in self.seen:
            raise Wrong("no error, and it broke")
        if step.name == "C":
            self.seen.clear()
        return step.name

    def finish(self) -> str:
        return "end"

    def close(self) -> None:
        return


class RustyKind:
    """Its kind."""

    name = "rusty"

    def draw(self, chance: random.Random) -> list[Step]:
        return weighted(chance, {"A": 1, "B": 1, "C": 1, "D": 8}, 40)

    def world(self, folder: Path, number: int) -> Rusty:
        return Rusty()

    def close(self) -> None:
        return


def test_a_failure_is_shrunk_to_the_steps_that_matter(tmp_path: Path) -> None:
    kind = RustyKind()
    failing = next(number for number in range(100) if play(kind, number, list(enumerate(drawn(kind, 1, number))),
                                                           tmp_path).wrong)  # fmt: skip
    told: list[str] = []
    failure = shrunk(kind, 1, failing, tmp_path, told.append)
    names = [drawn(kind, 1, failing)[place].name for place in failure.steps]
    assert names == ["A", "B"]
    said = story(failure, 1)
    assert said.splitlines()[1:3] == ["    0 A", "    1 B: (it ended here)"]
    assert f"--kind rusty --only {failing} --steps {','.join(map(str, failure.steps))}" in said
    assert len(told) == 1


@pytest.mark.parametrize("flags", [0, 16, 32, 48])
def test_the_writer_writes_what_the_reader_reads(flags: int) -> None:
    for topic, wide in (("orders", False), ("%RETRY%" + "g" * 130, True)):
        properties = "UNIQ_KEY\1x\2TAGS\1A\2"
        size = record_size(topic, b"body", properties, flags, wide)
        row = Record(700, size, topic, 3, 9, flags, 1_767_225_600_000, b"body", properties)
        data = record(row, wide)
        assert len(data) == size
        assert record_at(b"x" * 100 + data, 100, 600) == row
        assert row.properties["TAGS"] == "A"
        for at in (4, 30, size - len(properties) - 1):
            broken = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
            with pytest.raises(Unreadable):
                record_at(b"x" * 100 + broken, 100, 600, crc=False)


def test_a_silent_reader_would_be_noticed(tmp_path: Path) -> None:
    """The judge has its own memory: records that are gone are missed, and those that nothing names are not."""
    store = Store(tmp_path / "store", "m", 1024, "5.5")
    for number in range(6):
        store.append("orders", 0, "plain", 40, number)
    last = store.facts.truth[-1]
    path = next(path for path in store.files() if int(path.name) == last.at // 1024 * 1024)
    path.write_bytes(path.read_bytes()[: last.at % 1024].ljust(1024, b"\0"))
    now = store.now(store.facts.truth)
    assert [row.at for row in store.facts.truth if now[row.at] is None] == [last.at]
    assert store.silent_tail(now) == set()
    store.facts.hurt |= {"queue orders", "checkpoint"}
    assert store.silent_tail(now) == {last.at}


def test_a_sequence_is_kept_as_it_was(tmp_path: Path) -> None:
    steps = drawn(kind_named("broker"), 3, 4)
    save(tmp_path / "one.json", "broker", 4, steps)
    assert kept(tmp_path / "one.json") == ("broker", 4, steps)
