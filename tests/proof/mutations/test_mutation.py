"""The list of mutations mirrors the sources, and every entry fits them and names tests or promises that exist."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from proof.mutations.mutation import ROOT, SOURCES, Change, Mutation, MutationError, mutations, sample
from proof.simulation.swarm import KINDS

LISTED = mutations()


def test_every_mutation_fits_its_sources() -> None:
    wrong: list[str] = []
    for mutation in LISTED:
        try:
            for path, text in mutation.applied_to(SOURCES).items():
                if path.suffix == ".py":
                    ast.parse(text)
        except (MutationError, SyntaxError) as error:
            wrong.append(f"{mutation.title}: {error}")
    assert wrong == []


def test_the_list_is_long_and_names_each_mutation_once() -> None:
    assert len(LISTED) >= 80
    assert [name for name, count in Counter(mutation.name for mutation in LISTED).items() if count > 1] == []


def test_every_mutation_names_tests_that_exist() -> None:
    lost: list[str] = []
    for test in sorted({test for mutation in LISTED for test in mutation.tests}):
        file, _, name = test.partition("[")[0].partition("::")
        source = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
        if not source or (name and f"def {name.rpartition('::')[2]}(" not in source):
            lost.append(test)
    assert lost == []


def test_every_known_fault_names_a_kind_of_seeds_that_exists() -> None:
    assert {mutation.among for mutation in LISTED} - {""} <= set(KINDS)


@pytest.mark.parametrize(
    ("old", "new", "source", "why"),
    [
        ("a", "b", "aa", "occurs 2 times"),
        ("a", "b", "x", "occurs 0 times"),
        ("a", "a", "xay", "the new text is the old one"),
    ],
)
def test_a_change_that_does_not_fit_is_an_error(old: str, new: str, source: str, why: str) -> None:
    with pytest.raises(MutationError, match=why):
        Change("store/read.py", old, new).applied_to(source)


def test_changes_apply_to_several_files_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "read.py").write_text("one two")
    (tmp_path / "cut.py").write_text("three")
    changes = Change("read.py", "one", "1"), Change("cut.py", "three", ""), Change("read.py", "1 two", "2")
    mutation = Mutation("numbers", changes, ("test",))
    assert mutation.title == "read: numbers"
    assert mutation.applied_to(tmp_path) == {tmp_path / "read.py": "2", tmp_path / "cut.py": ""}
    with pytest.raises(MutationError, match=r"read: numbers: the old text occurs 0 times, not once, in cut.py: 'four'"):
        Mutation("numbers", (*changes, Change("cut.py", "four", "")), ("test",)).applied_to(tmp_path)


USUAL = 'tests = ["usual"]\n'
ENTRY = '[[mutation]]\nname = "a name"\nold = "a"\nnew = "b"\n'


def read(folder: Path, place: str, page: str) -> list[Mutation]:
    """Return the list that has one page, for sources that have one file."""
    source, path = folder / "src/store/read.py", folder / "list" / place
    for file in (source, path):
        file.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("a")
    path.write_text(page)
    return mutations(folder / "list", folder / "src")


def test_the_place_of_an_entry_names_its_source(tmp_path: Path) -> None:
    also = 'also = [{ old = "c", new = "d" }, { file = "x.py", old = "e", new = "f" }]\n'
    changes = Change("store/read.py", "a", "b"), Change("store/read.py", "c", "d"), Change("x.py", "e", "f")
    assert read(tmp_path, "store/read.toml", USUAL + ENTRY + also) == [Mutation("a name", changes, ("usual",))]


def test_a_page_may_name_a_source_that_is_not_python(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/page.html").write_text("a")
    (found,) = read(tmp_path, "page.html.toml", USUAL + ENTRY)
    assert found.applied_to(tmp_path / "src") == {tmp_path / "src/page.html": "b"}


def test_an_entry_may_have_its_own_tests_or_promises(tmp_path: Path) -> None:
    second = ENTRY + 'tests = ["its own"]\n'
    third = ENTRY + 'promises = ["kept"]\namong = "sets"\n'
    found = read(tmp_path, "store/read.toml", USUAL + ENTRY + second + third)
    assert [(mutation.tests, mutation.promises, mutation.among) for mutation in found] == [
        (("usual",), (), ""),
        (("its own",), (), ""),
        ((), ("kept",), "sets"),
    ]


@pytest.mark.parametrize("place", ["read.toml", "store/reads.toml", "broker/read.toml", "store/read/read.toml"])
def test_a_page_that_mirrors_no_source_is_an_error(tmp_path: Path, place: str) -> None:
    with pytest.raises(MutationError, match=rf"list/{place}: src/bolide/.* does not exist"):
        read(tmp_path, place, USUAL + ENTRY)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (ENTRY, "'a name' needs either `tests`, or `promises`"),
        (ENTRY + 'tests = ["t"]\npromises = ["p"]\n', "'a name' needs either `tests`, or `promises`"),
        (USUAL + ENTRY + 'among = "sets"\n', "'a name' needs either `tests`, or `promises`"),
        (USUAL + ENTRY + 'file = "store/cut.py"\n', "an entry has .*'file'"),
        (USUAL + '[[mutation]]\nname = "a name"\nold = "a"\n', "an entry has .*'name', 'old'"),
        (USUAL + ENTRY + 'also = [{ file = "store/cut.py", old = "a" }]\n', "a change of 'a name' has"),
        ('file = "store/cut.py"\n' + USUAL + ENTRY, "the file has .*'file'"),
    ],
    ids="no-judge two-judges kind-of-seeds file-of-an-entry no-new-text no-new-text-of-a-change file-of-a-page".split(),
)
def test_a_malformed_entry_is_an_error(tmp_path: Path, page: str, why: str) -> None:
    with pytest.raises(MutationError, match=f"list/store/read.toml: {why}"):
        read(tmp_path, "store/read.toml", page)


def test_a_sample_repeats_and_outlives_other_entries() -> None:
    drawn = sample(LISTED, 100, 7)
    assert drawn == sample(LISTED, 100, 7) != sample(LISTED, 100, 8)
    assert len(drawn) == 100
    assert [mutation for mutation in LISTED if mutation in drawn] == drawn
    fewer = [mutation for mutation in LISTED if mutation != drawn[0]]
    assert set(sample(fewer, 100, 7)) >= set(drawn[1:])
    assert sample(LISTED, 10_000, 7) == LISTED
