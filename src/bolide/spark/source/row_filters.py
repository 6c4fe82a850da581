"""Filters of a read on the messages of the selected queues. Planning and brokers apply them before messages are sent.

Brokers compare tags by hash, and indexes find keys by hash, so the reader also checks every row (`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bolide.layout.words import java_trim, split_tags
from bolide.spark.declared import option, read_fields
from bolide.spark.errors import OptionError
from bolide.spark.option_values import comma_names, moment, whole_number

EVERY_TAG: Final = "*"
MAX_OFFSET: Final = (1 << 63) - 1
_HEADING: Final = "Filters"
_STORED: Final = (
    "stored at the first time or later, and before the second: a batch read does not read the rest. Each row is also "
    "compared, so rows outside are never returned; if a broker's clock was set back, some rows inside may be missing"
)
_OFFSETS: Final = "queue offsets from the first, and before the second"


def tag_names(name: str, text: str) -> tuple[str, ...]:
    """Return the tags of an expression such as `A || B`, or an empty tuple for all tags, like RocketMQ."""
    if java_trim(text) in ("", EVERY_TAG):
        return ()
    return tuple(dict.fromkeys(split_tags(text)))


def _sql(name: str, text: str) -> str:
    if not text.strip():
        raise OptionError(f"option {name} is empty; write an expression such as color = 'red' AND size > 3")
    return text.strip()


def _keys(name: str, text: str) -> tuple[str, ...]:
    keys = comma_names(name, text)
    if any(" " in key for key in keys):
        raise OptionError(f"option {name} is a list of keys separated by commas; a key cannot contain a blank")
    return keys


@dataclass(frozen=True)
class RowFilters:
    """Conditions on messages. The defaults accept all messages. Times are in ms; `stored_to` 0 means no limit."""

    tags: tuple[str, ...] = option(
        _HEADING,
        "`A \\|\\| B`, at the broker by a hash of the tag, then in Spark by its text",
        tag_names,
        absent=(),
        shown="",
    )
    sql: str = option(
        _HEADING,
        "SQL92 over properties, at the broker, which needs `enablePropertyFilter=true`; `tags` are then compared in "
        "Spark",
        _sql,
        absent="",
        shown="",
    )
    keys: tuple[str, ...] = option(
        _HEADING,
        "messages with one of these keys, separated by commas. A batch read uses the broker's index for messages that "
        "were stored since the broker started or changed its settings. For older messages it reads the queues and "
        "compares keys in Spark. It does this for all messages if the index is off, its settings cannot be read (with "
        "`authorizationStrict` this needs the right `Get` to the cluster), or it has 64 or more messages of a key",
        _keys,
        absent=(),
        shown="",
    )
    stored_from: int = option(_HEADING, _STORED, moment, absent=0, shown="")
    stored_to: int = option(_HEADING, _STORED, moment, absent=0, shown="")
    offset_from: int = option(_HEADING, _OFFSETS, whole_number(0, MAX_OFFSET), absent=0, shown="")
    offset_to: int = option(_HEADING, _OFFSETS, whole_number(0, MAX_OFFSET), absent=MAX_OFFSET, shown="")

    @property
    def at_broker(self) -> bool:
        """Whether the broker filters, so that a response may cover more offsets than messages."""
        return bool(self.tags or self.sql)

    @property
    def expression(self) -> tuple[str, str]:
        """Expression type and text of a pull. A pull has only one expression: SQL if given, otherwise tags."""
        if self.sql:
            return "SQL92", self.sql
        return "TAG", " || ".join(self.tags) or EVERY_TAG


def read_filters(given: Mapping[str, str]) -> RowFilters:
    """Parse the filter options. Raises `OptionError` if one is invalid."""
    return read_fields(RowFilters, given)
