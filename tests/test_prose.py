"""The check of `make lint` for sentences that are hard to read."""

from pathlib import Path

import pytest
from tools.check_prose import check, findings, names_of_tests, page_texts, python_texts

HERE = "src/x.py"


def found(code: str) -> list[tuple[int, str]]:
    return [(one.line, one.rule.name) for text in python_texts(HERE, code) for one in findings(text)]


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ('"""What a slave writes first."""', ["opening clause", "clause as a noun"]),
        ('def f():\n    """Of one broker."""', ["opening genitive"]),
        ('class C:\n    x = 1\n    """True when it has all."""', ["value without a verb"]),
        ('"""Return the queue; None when there is no queue."""', ["telegram"]),
        ("# Nobody reads it.", ["negated subject"]),
        ("x = 1  # what it sent is read again", ["clause as a noun", "verb and again"]),
        ('raise E(f"{name} takes no delay: it is answered at once")', ["verb with no", "at once", "old word"]),
        ('log.info("%s was told", name)', ["code that talks"]),
        ('"""Return the offset of a queue. ' + "word " * 31 + '"""', ["long sentence"]),
        ('"""Return the committed offset of a queue, or -1 if the group has none of them."""', []),
        ('"""Return X.\n\n    code that begins and is told\n\nMore.\n"""', []),
        ('"""Parse `what is told`."""', []),
        ("x = 1  # pragma: what is", []),
        ('x = "what is told at once"', []),
    ],
)
def test_habits_of_a_source_are_found(code: str, rules: list[str]) -> None:
    assert [name for _, name in found(code)] == rules


def test_finding_names_the_line_of_its_match() -> None:
    assert found('"""Return it.\n\nThe rest is\ndone at once.\n"""\n\n# one\n# at once\n') == [
        (4, "at once"),
        (8, "at once"),
    ]


def test_names_of_tests_must_not_open_with_a_clause_or_pronoun() -> None:
    code = "def test_slave_rejects_sends(): ...\n\n\nasync def test_what_is_refused(): ...\n"
    (finding,) = [one for text in names_of_tests(HERE, code) for one in findings(text)]
    assert str(finding).startswith("src/x.py:4: named by a clause or pronoun: «what")


def test_code_of_pages_is_not_read() -> None:
    page = "# Title\n\nOne line\nis told.\n\n```\nis told\n```\n\n    is told\n\n| `is told` | at once |\n"
    assert [(one.line, one.rule.name) for text in page_texts(HERE, page) for one in findings(text)] == [
        (4, "code that talks"),
        (12, "at once"),
    ]


def test_rate_above_its_limit_fails_with_file_and_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "docs" / "a.md"
    page.parent.mkdir()
    for fine, status in ((9, 1), (10, 0)):
        page.write_text("It is told.\n\n" + "Fine words.\n\n" * (fine - 1))
        assert check(tmp_path, ["docs/a.md"], {"page": 100}) == status
    said = capsys.readouterr().out
    assert said.startswith("docs/a.md:1: code that talks: «It is told.» (")
    assert said.endswith("111 findings per 1,000 texts of kind page, the limit is 100: rewrite such sentences\n")


def test_generated_references_and_folders_without_limit_are_not_checked(tmp_path: Path) -> None:
    assert check(tmp_path, ["docs/reference/a.md", "changes/b.fix.md", "proof/c.py", "tests/d.py"], {"page": 0}) == 0
