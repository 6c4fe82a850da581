"""One unit and one rule for every point in time: milliseconds since 1970, or a datetime with a zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from bolide.admin import blocking
from bolide.client import ArgumentError, Message, MessageRefused, PullConsumer, PushConsumer
from bolide.client.messages.encoding import properties_text
from bolide.client.messages.moment import moment_ms

NAIVE = datetime(2026, 1, 31, 12, 0)  # noqa: DTZ001  # the mistake under test


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (0, 0),
        (1_763_831_234_567, 1_763_831_234_567),
        (1_763_831_234_567.4, 1_763_831_234_567),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1))), 1_769_857_200_000),
    ],
)
def test_milliseconds_and_times_with_a_zone(moment: float | datetime, expected: int) -> None:
    assert moment_ms("moment", moment) == expected


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (NAIVE, "moment 2026-01-31 12:00:00 has no time zone: give a datetime with one"),
        (1_763_831_234, "before 1974: seconds must be multiplied by 1000"),
        (1, "seconds must be multiplied"),
        (-1, "is not a time"),
        (float("nan"), "is not a time"),
        (2**60, "is not a time"),
        (True, "is not a time"),
        ("yesterday", "is not a time"),
        (datetime(1969, 12, 31, tzinfo=UTC), "is not a time"),
    ],
)
def test_invalid_moment_is_rejected(moment: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said) as refused:
        moment_ms("moment", moment)
    assert refused.value.argument == "moment"


def test_every_argument_that_is_a_time_has_the_same_rule() -> None:
    with pytest.raises(MessageRefused, match="deliver_at 2026-01-31 12:00:00 has no time zone"):
        properties_text(Message("T", b"x", deliver_at=NAIVE), "ID")
    for kind in (PushConsumer, PullConsumer):
        with pytest.raises(ArgumentError, match="start_from 2026-01-31 12:00:00 has no time zone"):
            kind("G", start_from=NAIVE)
        with pytest.raises(ArgumentError, match="seconds must be multiplied by 1000"):
            kind("G", start_from=1_763_831_234)
    for call in (blocking.Admin.offset_at, blocking.Admin.messages_by_key):
        assert "Moment" in call.__annotations__.values()
