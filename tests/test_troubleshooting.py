"""The messages that the page of troubleshooting quotes exist in the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
QUOTES = re.findall(
    r"^\| `([^`]+)` \|", (ROOT / "docs" / "help" / "troubleshooting.md").read_text("utf-8"), re.MULTILINE
)


@pytest.fixture(scope="module")
def source() -> str:
    """The whole source, with adjacent string literals joined."""
    texts = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "bolide").rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(texts))


def test_the_page_quotes_messages() -> None:
    assert len(QUOTES) > 10


@pytest.mark.parametrize("quote", QUOTES)
def test_every_part_of_a_quoted_message_is_in_the_source(quote: str, source: str) -> None:
    for part in filter(None, (part.strip() for part in quote.split("…"))):
        assert part in source, f"no message of the source has: {part}"
