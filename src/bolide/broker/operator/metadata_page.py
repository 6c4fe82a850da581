"""Pages of a table of topics or groups: 5.x slaves and tools fetch long tables in parts.

RocketMQ's TopicConfigManager.subTopicConfigTable and SubscriptionGroupManager.subGroupTable: sorted names from a
position, up to a maximum. A request with a DataVersion other than the broker's gets the first page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bolide.broker.options.composed import BrokerOptions
from bolide.remoting.errors import BodyError
from bolide.remoting.json import parse_lenient


def page(
    options: BrokerOptions,
    table: Mapping[str, object],
    version: Mapping[str, object],
    asked_version: str | None,
    begin: int | None,
    most: int | None,
) -> list[str]:
    """Return the names of the page, or all names if no page is requested (4.9 does not support pages)."""
    tables = options.tables
    if not tables.enable_split_metadata or (asked_version is None and begin is None and most is None):
        return list(table)
    first = max(begin or 0, 0) if asked_version and same_version(asked_version, version) else 0
    count = tables.split_metadata_size if most is None else max(min(tables.split_metadata_size, most), 0)
    return sorted(table)[first : first + count]


def same_version(text: str, version: Mapping[str, object]) -> bool:
    """Return whether a DataVersion in JSON equals this one. An unreadable one does not."""
    try:
        asked: Any = parse_lenient(text.encode())
    except BodyError:
        return False
    return isinstance(asked, dict) and all(asked.get(key, 0) == value for key, value in version.items())
