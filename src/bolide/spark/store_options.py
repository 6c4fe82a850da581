"""Options of `format("rocketmq-store")`, checked before a file is opened; an unknown one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bolide.spark.errors import OptionError
from bolide.spark.options import comma_names, true_or_false, whole_number
from bolide.spark.store_tables import MESSAGES, TABLES

SPLIT_SIZE: Final = 64 * 1024 * 1024
KNOWN: Final = (
    "path", "table", "subscribe", "topic", "startingTimestamp", "endingTimestamp", "corruptRecords", "checkCrc",
    "splitSize", "pruneByQueues", "brokerName", "indexSlots",
)  # fmt: skip


@dataclass(frozen=True)
class StoreOptions:
    """What a read of a store folder needs to know; plain data, shipped to executors. Times are ms, 0 is no end."""

    path: str
    table: str
    topics: tuple[str, ...]
    begin_ms: int
    end_ms: int
    skip_corrupt: bool
    check_crc: bool
    split_size: int
    prune_by_queues: bool
    broker: str | None
    index_slots: int


def store_options(options: Mapping[str, str]) -> StoreOptions:
    """Check and convert the options of a read. Raises OptionError."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(set(given) - {name.lower() for name in KNOWN})
    if unknown:
        raise OptionError(f"option {unknown[0]} is unknown to format rocketmq-store; known are {', '.join(KNOWN)}")
    if not given.get("path"):
        raise OptionError('no store folder is given: name it, e.g. .load("/data/store")')
    table = given.get("table", MESSAGES)
    if table not in TABLES:
        raise OptionError(f"option table must be one of {', '.join(TABLES)}, not {table!r}")
    corrupt = given.get("corruptrecords", "fail")
    if corrupt not in ("fail", "skip"):
        raise OptionError(f"option corruptRecords must be fail or skip, not {corrupt!r}")
    topics = given.get("subscribe") or given.get("topic")
    time = whole_number(0, 1 << 62)
    begin = time("startingTimestamp", given.get("startingtimestamp", "0"))
    end = time("endingTimestamp", given.get("endingtimestamp", "0"))
    if end and end <= begin:
        raise OptionError(f"endingTimestamp {end} is not after startingTimestamp {begin}: nothing would be read")
    return StoreOptions(
        path=given["path"].removeprefix("file://"),
        table=table,
        topics=comma_names("subscribe", topics) if topics else (),
        begin_ms=begin,
        end_ms=end,
        skip_corrupt=corrupt == "skip",
        check_crc=true_or_false("checkCrc", given.get("checkcrc", "false")),
        split_size=whole_number(4096, 1 << 31)("splitSize", given.get("splitsize", str(SPLIT_SIZE))),
        prune_by_queues=true_or_false("pruneByQueues", given.get("prunebyqueues", "true")),
        broker=given.get("brokername"),
        index_slots=whole_number(1, (1 << 31) - 1)("indexSlots", given.get("indexslots", "5000000")),
    )
