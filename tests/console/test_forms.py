"""Fields of forms and addresses."""

from __future__ import annotations

import pytest

from bolide.console.errors import PageRefused
from bolide.console.forms import Fields


def test_values_as_what_they_mean() -> None:
    fields = Fields([("a", " x "), ("a", " y "), ("n", "12"), ("on", "on"), ("t", "2026-11-23T09:30"), ("z", "1.5")])
    assert (fields.text("a"), fields.all("a"), fields.text("b", "d")) == ("y", [" x ", " y "], "d")
    assert (fields.number("n", 1), fields.number("b", 1), fields.maybe_number("b")) == (12, 1, None)
    assert (fields.on("on"), fields.on("b")) == (True, False)
    assert fields.moment("t") == 1_795_426_200_000
    assert fields.moment("b") is None
    assert fields.chosen("a", ("y",), "n") == "y" and fields.chosen("b", ("y",), "n") == "n"


@pytest.mark.parametrize("text", ["-1", "1e3", "１", "99999999999999999999", "0x1", "11"])
def test_a_number_out_of_range_or_of_other_digits_is_refused(text: str) -> None:
    with pytest.raises(PageRefused, match="give a whole number from 0 to 10"):
        Fields([("n", text)]).number("n", 0, most=10)


def test_missing_field_and_invalid_time_are_rejected() -> None:
    with pytest.raises(PageRefused, match="the topic is missing"):
        Fields([("topic", "  ")]).needed("topic", "the topic")
    with pytest.raises(PageRefused, match="in UTC"):
        Fields([("t", "yesterday")]).moment("t")
