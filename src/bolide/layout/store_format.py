"""The file `store-format` of a store: its format number, so that an older build does not misread newer files.

Only Bolide has this file; RocketMQ's broker and older builds of Bolide ignore it. It is one line of JSON: ``{"format":
1, "since": "0.1.0"}``, where `since` is the first version of Bolide that reads the format. A change that an older build
would not notice increments the number, such as a new file that it must obey.
"""

from __future__ import annotations

import json
from typing import Final

from bolide.layout.errors import LayoutError

NAME: Final = "store-format"
FORMAT: Final = 1
"""Format that this build reads and writes. Format 1 has marks of deleted topics (`deleted-topics`)."""
SINCE: Final = "0.1.0"
"""The first version of Bolide that reads `FORMAT`: change both together."""


class StoreTooNew(LayoutError):
    """A store has a format that only newer versions of Bolide read."""


def stamp() -> bytes:
    """Return the content of the file for this build's format."""
    return json.dumps({"format": FORMAT, "since": SINCE}).encode() + b"\n"


def accepted_format(data: bytes | None, root: str) -> int:
    """Return the format of the store `root`, given its file, or 0 if there is no file.

    Raises `StoreTooNew` if this build does not read the format, and `LayoutError` if the file is invalid.
    """
    if data is None:
        return 0
    try:
        found = json.loads(data)
        number, since = found["format"], str(found.get("since", ""))
        if type(number) is not int or number < 1:
            raise ValueError(number)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LayoutError(
            f"{root}/{NAME} does not name a format: restore the file from a copy, or delete it if no newer version of"
            " Bolide has used the store"
        ) from error
    if number > FORMAT:
        by = f" (Bolide {since[:40]} and newer)" if since.isprintable() and since else ""
        raise StoreTooNew(
            f"{root} has store format {number}{by} and this build reads formats up to {FORMAT}, so it would misread the"
            f" store: use a version of Bolide that reads format {number}"
        )
    return number
