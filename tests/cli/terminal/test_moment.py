"""Times on the command line: what is refused names the option, not the argument of the class below."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bolide.cli.terminal.moment import moment_of, start_of
from bolide.errors import ArgumentError, ConfigError


def test_times_and_places() -> None:
    assert moment_of("--deliver-at", "1795372807548") == 1_795_372_807_548
    assert start_of("--start", "2026-01-31T11:00Z") == datetime(2026, 1, 31, 11, tzinfo=UTC)
    assert start_of("--start", "last") == "last"


@pytest.mark.parametrize("text", ["tomorrow", "2026-01-31T12:00", "earliest"])
def test_invalid_time_error_names_the_option(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--start .*write first, last, "):
        start_of("--start", text)


def test_seconds_name_the_option() -> None:
    with pytest.raises(ArgumentError, match=r"^--start is 1763831234, which .* must be multiplied by 1000"):
        start_of("--start", "1763831234")
