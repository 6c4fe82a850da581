"""The list of mutations fits the sources and the tests; that each is noticed is what `make mutations` shows."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.mutations.listed import ROOT, SOURCES, Mutation, MutationError, mutations

LISTED = mutations()


def test_every_mutation_still_fits_its_source() -> None:
    wrong: list[str] = []
    for mutation in LISTED:
        try:
            ast.parse(mutation.applied_to((SOURCES / mutation.file).read_text(encoding="utf-8")))
        except (MutationError, OSError, SyntaxError) as error:
            wrong.append(f"{mutation.title}: {error}")
    assert wrong == []


def test_the_list_is_long_and_names_each_once() -> None:
    assert len(LISTED) >= 80
    assert [title for title, count in Counter(mutation.title for mutation in LISTED).items() if count > 1] == []


def test_every_mutation_names_tests_that_are_there() -> None:
    named = {path for mutation in LISTED for path in mutation.tests}
    assert [path for path in sorted(named) if not (ROOT / path.partition("::")[0]).is_file()] == []


def test_a_text_that_is_not_there_once_is_an_error() -> None:
    mutation = Mutation("s", "n", "f", "a", "b", ())
    assert mutation.applied_to("xay") == "xby"
    with pytest.raises(MutationError, match="2 times"):
        mutation.applied_to("aa")
    with pytest.raises(MutationError, match="0 times"):
        mutation.applied_to("x")
    with pytest.raises(MutationError, match="changes nothing"):
        Mutation("s", "n", "f", "a", "a", ()).applied_to("a")
