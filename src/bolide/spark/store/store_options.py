"""Options of `format("rocketmq-store")`, checked before a file is opened. Unknown options are rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bolide.spark.errors import OptionError
from bolide.spark.option_values import comma_names, true_or_false, whole_number
from bolide.spark.source.bad_records import DROP, FAIL, BadRecords, read_bad_records
from bolide.spark.store.durable import AUTO, RULES
from bolide.spark.store.store_schema import MESSAGES, TABLES

KNOWN: Final = (
    "path", "table", "subscribe", "topic", "startingTimestamp", "endingTimestamp", "corruptRecords", "checkCrc",
    "splitSize", "pruneByQueues", "brokerName", "indexSlots", "badRecords", "deadLetterPath",
)  # fmt: skip
STREAMING: Final = ("startingOffsets", "maxBytesPerTrigger", "failOnDataLoss", "durable", "untilNow")
"""Additional options of a stream."""
BATCH_ONLY: Final = ("endingTimestamp",)
EARLIEST: Final = -2
LATEST: Final = -1


@dataclass(frozen=True)
class StoreReadOptions:
    """The options of a read of a store folder. Spark ships them to executors. Times are in ms; 0 means no end."""

    path: str
    table: str
    topics: tuple[str, ...]
    begin_ms: int
    end_ms: int
    skip_corrupt: bool
    bad_records: BadRecords
    check_crc: bool
    split_size: int
    """Size of a task in bytes, or 0 to derive it from the size of the log."""
    prune_by_queues: bool
    broker: str | None
    index_slots: int
    starting: int = EARLIEST
    """Start of a stream: a physical offset, EARLIEST or LATEST."""
    max_bytes_per_trigger: int = 0
    fail_on_data_loss: bool = True
    durable: str = AUTO


def columns_of(options: StoreReadOptions) -> dict[str, str]:
    """Return the columns of a read with their types."""
    return {**TABLES[options.table], **(options.bad_records.columns() if options.table == MESSAGES else {})}


def store_options(options: Mapping[str, str], streaming: bool | None = None) -> StoreReadOptions:
    """Check and convert the options of a read. `streaming` is None if unknown. Raises `OptionError` if one is unknown,
    invalid or missing."""
    given = {name.lower(): value for name, value in options.items()}
    known = [name for name in KNOWN if not streaming or name not in BATCH_ONLY]
    known += () if streaming is False else STREAMING
    unknown = sorted(set(given) - {name.lower() for name in known})
    if unknown:
        what = "a stream of format" if streaming else "format"
        raise OptionError(f"option {unknown[0]} is unknown to {what} rocketmq-store; known are {', '.join(known)}")
    if not given.get("path"):
        raise OptionError('no store folder is given: name it, e.g. .load("/data/store")')
    table = _one_of("table", given.get("table", MESSAGES), tuple(TABLES))
    corrupt = _one_of("corruptRecords", given.get("corruptrecords", "fail"), ("fail", "skip"))
    topics = given.get("subscribe") or given.get("topic")
    time = whole_number(0, 1 << 62)
    begin = time("startingTimestamp", given.get("startingtimestamp", "0"))
    end = time("endingTimestamp", given.get("endingtimestamp", "0"))
    if end and end <= begin:
        raise OptionError(f"endingTimestamp {end} is not after startingTimestamp {begin}: nothing would be read")
    return StoreReadOptions(
        path=given["path"].removeprefix("file://"),
        table=table,
        topics=comma_names("subscribe", topics) if topics else (),
        begin_ms=begin,
        end_ms=end,
        skip_corrupt=corrupt == "skip",
        # A body that cannot be decompressed may also be damage, so a read that skips damage drops it.
        bad_records=read_bad_records(given, DROP if corrupt == "skip" else FAIL),
        check_crc=true_or_false("checkCrc", given.get("checkcrc", "true")),
        split_size=whole_number(4096, 1 << 31)("splitSize", given["splitsize"]) if "splitsize" in given else 0,
        prune_by_queues=true_or_false("pruneByQueues", given.get("prunebyqueues", "true")),
        broker=given.get("brokername"),
        index_slots=whole_number(1, (1 << 31) - 1)("indexSlots", given.get("indexslots", "5000000")),
        starting=_starting(given.get("startingoffsets", "earliest")),
        max_bytes_per_trigger=whole_number(0, 1 << 62)("maxBytesPerTrigger", given.get("maxbytespertrigger", "0")),
        fail_on_data_loss=true_or_false("failOnDataLoss", given.get("failondataloss", "true")),
        durable=_one_of("durable", given.get("durable", AUTO), RULES),
    )


def _starting(text: str) -> int:
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return words[text.lower()]
    if text.isascii() and text.isdigit():
        return int(text)
    raise OptionError(f"option startingOffsets must be earliest, latest or a physical offset, not {text!r}")


def _one_of(name: str, text: str, words: Sequence[str]) -> str:
    if text not in words:
        allowed = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
        raise OptionError(f"option {name} must be {allowed}, not {text!r}")
    return text
