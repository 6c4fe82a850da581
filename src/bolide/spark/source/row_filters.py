"""Which messages of the selected queues a read wants. What the broker or the planning excludes is never sent.

A broker compares tags by a hash and an index finds keys by a hash, so a reader checks every row again (`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bolide.layout.words import java_trim, split_tags
from bolide.spark.errors import OptionError
from bolide.spark.option_values import comma_names, moment, whole_number

EVERY_TAG: Final = "*"
MAX_OFFSET: Final = (1 << 63) - 1


@dataclass(frozen=True)
class RowFilters:
    """Conditions on messages; with the defaults all pass."""

    tags: tuple[str, ...] = ()
    """One of these is its tag."""
    sql: str = ""
    """SQL92 over its properties, evaluated by the broker."""
    keys: tuple[str, ...] = ()
    """One of these is among its keys."""
    stored_from: int = 0
    """Stored at this time (ms) or later."""
    stored_to: int = 0
    """Stored before this time (ms); 0 is no limit."""
    offset_from: int = 0
    """Its queue offset is this or a later one."""
    offset_to: int = MAX_OFFSET
    """Its queue offset comes before this one."""

    @property
    def at_broker(self) -> bool:
        """Whether the broker filters, so that an answer may cover more offsets than it holds messages."""
        return bool(self.tags or self.sql)

    @property
    def expression(self) -> tuple[str, str]:
        """Expression type and text of a pull. A pull takes one of the two: SQL goes to the broker, tags then do not."""
        if self.sql:
            return "SQL92", self.sql
        return "TAG", " || ".join(self.tags) or EVERY_TAG


def read_filters(given: Mapping[str, str]) -> RowFilters:
    """The filters that options name. Raises OptionError."""
    number = whole_number(0, MAX_OFFSET)
    filters = RowFilters(
        tags=tag_names(given.get("tags", EVERY_TAG)),
        sql=given.get("sql", "").strip(),
        keys=comma_names("keys", given["keys"]) if "keys" in given else (),
        stored_from=moment("storedFrom", given.get("storedfrom", "0")),
        stored_to=moment("storedTo", given.get("storedto", "0")),
        offset_from=number("offsetFrom", given.get("offsetfrom", "0")),
        offset_to=number("offsetTo", given.get("offsetto", str(MAX_OFFSET))),
    )
    if any(" " in key for key in filters.keys):
        raise OptionError("option keys is a list of keys separated by commas; a key cannot contain a blank")
    if "sql" in given and not filters.sql:
        raise OptionError("option sql is empty; write an expression such as color = 'red' AND size > 3")
    return filters


def tag_names(text: str) -> tuple[str, ...]:
    """The tags of an expression such as `A || B`; none for every tag, as RocketMQ reads it."""
    if java_trim(text) in ("", EVERY_TAG):
        return ()
    return tuple(dict.fromkeys(split_tags(text)))
