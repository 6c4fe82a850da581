"""Options for messages whose body cannot be decompressed: `badRecords` and `deadLetterPath` of a read.

Any producer can send such a message: an uncompressed body marked as compressed, an unknown compression method, or a
body that decompresses to more than a reader accepts. Brokers store all of them unchanged. `sifting` detects them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bolide.spark.declared import Option
from bolide.spark.errors import OptionError
from bolide.spark.option_values import mounted_folder

FAIL: Final = "fail"
DROP: Final = "drop"
COLUMN: Final = "column"
MODES: Final = (FAIL, DROP, COLUMN)
BAD_RECORD: Final = "_bad_record"
"""Column with the reason why a message has no body, for `badRecords` column. Null for all other messages."""
_HEADING: Final = "Messages that cannot be read"
BAD_RECORDS: Final = (
    Option(
        "badRecords",
        _HEADING,
        "`fail` (default), `drop`, or `column`: the body is null and a column `_bad_record` contains the reason",
    ),
    Option(
        "deadLetterPath",
        _HEADING,
        "a folder that all executors can access: dropped messages are written there first, as Parquet, with their "
        "position, the reason and the whole stored record. A repeated batch may write a message twice",
    ),
)


@dataclass(frozen=True)
class BadRecords:
    """The options for messages whose body cannot be decompressed."""

    mode: str = FAIL
    path: str = ""
    """Folder for dropped messages, or "" to discard them."""

    def columns(self) -> dict[str, str]:
        """Return the additional column of a read, by name and type."""
        return {BAD_RECORD: "string"} if self.mode == COLUMN else {}


def read_bad_records(given: Mapping[str, str], default: str = FAIL) -> BadRecords:
    """Parse the two options, whose names are in lower case. Raises `OptionError` if they are invalid."""
    path = mounted_folder(given.get("deadletterpath", ""), "deadLetterPath")
    mode = given.get("badrecords", DROP if path else default).strip().lower()
    if mode not in MODES:
        raise OptionError(f"option badRecords must be {FAIL}, {DROP} or {COLUMN}, not {mode!r}")
    if path and mode != DROP:
        raise OptionError(f"option deadLetterPath keeps dropped messages: set badRecords to {DROP}, or remove it")
    return BadRecords(mode, path)
