"""Keys and tags are separated and trimmed by Java's rules."""

from __future__ import annotations

import pytest

from bolide.layout.words import java_trim, split_keys, split_tags

OTHER_BLANKS = ["\u3000", "\u00a0", "\t", "\n", "\x85", "\x1f", "\u2009"]


@pytest.mark.parametrize("blank", OTHER_BLANKS)
def test_keys_are_separated_by_the_ascii_space_only(blank: str) -> None:
    assert split_keys(f"a{blank}b  {blank} c ") == [f"a{blank}b", blank, "c"]


def test_tags_are_trimmed_as_by_java() -> None:
    assert split_tags(" A || \tB\n||  || \u3000C\u00a0 ") == ["A", "B", "\u3000C\u00a0"]
    assert java_trim("\x00 \x1fx\x85 ") == "x\x85"
