"""Keys and tags are separated and trimmed by Java's rules."""

from __future__ import annotations

import pytest

from bolide.layout.words import java_trim, split_keys, split_tags, tag_fault

OTHER_BLANKS = ["\u3000", "\u00a0", "\t", "\n", "\x85", "\x1f", "\u2009"]


@pytest.mark.parametrize("blank", OTHER_BLANKS)
def test_keys_are_separated_by_the_ascii_space_only(blank: str) -> None:
    assert split_keys(f"a{blank}b  {blank} c ") == [f"a{blank}b", blank, "c"]


def test_tags_are_trimmed_as_by_java() -> None:
    assert split_tags(" A || \tB\n||  || \u3000C\u00a0 ") == ["A", "B", "\u3000C\u00a0"]
    assert java_trim("\x00 \x1fx\x85 ") == "x\x85"


@pytest.mark.parametrize(
    ("tag", "fault"),
    [
        ("a||b", "contains ||"),
        ("||", "contains ||"),
        (" a", "begins or ends with a blank"),
        ("a\n", "begins or ends with a blank"),
        (" ", "begins or ends with a blank"),
        ("*", "is the subscription to all messages"),
    ],
)
def test_tag_that_no_subscription_selects_has_a_fault(tag: str, fault: str) -> None:
    assert tag_fault(tag).startswith(fault)


@pytest.mark.parametrize("tag", ["a", "a b", "a|b", "|", "**", "\u00a0a\u3000", "x\x85"])
def test_other_tags_have_no_fault(tag: str) -> None:
    assert tag_fault(tag) == ""
