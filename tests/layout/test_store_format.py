"""The stamp of a store's format: what it says, and what is refused."""

from __future__ import annotations

import json

import pytest

from bolide.layout.errors import LayoutError
from bolide.layout.store_format import FORMAT, SINCE, StoreTooNew, accepted_format, stamp


def test_own_stamp_and_older_formats_are_accepted() -> None:
    assert accepted_format(stamp(), "/s") == FORMAT
    assert accepted_format(None, "/s") == 0
    assert json.loads(stamp()) == {"format": FORMAT, "since": SINCE}


def test_newer_format_is_refused_with_the_version_that_reads_it() -> None:
    data = json.dumps({"format": FORMAT + 1, "since": "9.8.7", "more": []}).encode()
    with pytest.raises(StoreTooNew) as refused:
        accepted_format(data, "/s")
    assert str(refused.value) == (
        f"/s has store format {FORMAT + 1} (Bolide 9.8.7 and newer) and this build reads formats up to {FORMAT}, so it"
        f" would misread the store: use a version of Bolide that reads format {FORMAT + 1}"
    )
    with pytest.raises(StoreTooNew, match="has store format 99 and this"):
        accepted_format(b'{"format": 99, "since": "\\u001b[2J"}', "/s")


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 40, b"[]", b"{}", b"7", b'{"format": "1"}', b'{"format": 0}', b'{"format": true}', b'{"format": 1.5}',
     b"[" * 100_000, b"\xff"],
)  # fmt: skip
def test_invalid_stamp_is_refused(data: bytes) -> None:
    with pytest.raises(LayoutError, match="/s/store-format does not name a format: restore the file"):
        accepted_format(data, "/s")
