"""Options of `format("rocketmq-store")`, checked before a file is opened. Unknown options are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bolide.spark.declared import Option, check_names, option, options_in, read_fields
from bolide.spark.errors import OptionError
from bolide.spark.option_values import as_it_is, comma_names, one_of, true_or_false, whole_number
from bolide.spark.source.bad_records import DROP, FAIL, BadRecords, read_bad_records
from bolide.spark.source.selection import topic_of
from bolide.spark.store.durable import AUTO, RULES
from bolide.spark.store.store_schema import MESSAGES, TABLES

EARLIEST: Final = -2
LATEST: Final = -1
_BATCH: Final = "Reading stores with Spark"
_STREAM: Final = "Streams"
_STORED: Final = "messages stored at the first time (ms) or later, and before the second"
_BAD: Final = tuple(
    Option(
        name,
        _BATCH,
        "for a message whose body cannot be decompressed, "
        "[as for topics](spark-source.md#messages-that-cannot-be-read); with `corruptRecords=skip` the default is "
        "`drop`",
        FAIL,
        is_value=True,
    )
    for name in ("badRecords", "deadLetterPath")
)


def _folder(name: str, text: str) -> str:
    return text.removeprefix("file://")


def _skips(name: str, text: str) -> bool:
    return one_of("fail", "skip")(name, text) == "skip"


def _starting(name: str, text: str) -> int:
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return words[text.lower()]
    if text.isascii() and text.isdigit():
        return int(text)
    raise OptionError(f"option {name} must be earliest, latest or a physical offset, not {text!r}")


@dataclass(frozen=True, kw_only=True)
class StoreReadOptions:
    """The options of a read of a store folder. Spark ships them to executors. Times are in ms; 0 means no end."""

    path: str = option(
        _BATCH, 'the store folder, or its `commitlog`; `load("store")` is the same', _folder, absent="", shown=""
    )
    table: str = option(_BATCH, "the table to read, see [Tables](#tables)", one_of(*TABLES), MESSAGES)
    topics: tuple[str, ...] = option(
        _BATCH,
        "topics as stored, separated by commas (`topic` is a synonym)",
        comma_names,
        absent=(),
        shown="all",
        name="subscribe",
    )
    begin_ms: int = option(_BATCH, _STORED, whole_number(0, 1 << 62), absent=0, shown="", name="startingTimestamp")
    end_ms: int = option(_BATCH, _STORED, whole_number(0, 1 << 62), absent=0, shown="", name="endingTimestamp")
    skip_corrupt: bool = option(
        _BATCH, "for bytes that are not a valid record: `fail`, or `skip` them", _skips, "fail", name="corruptRecords"
    )
    check_crc: bool = option(_BATCH, "compare each body with its CRC; `false` saves that time", true_or_false, "true")
    split_size: int = option(
        _BATCH,
        "bytes of the log that a task reads",
        whole_number(4096, 1 << 31),
        absent=0,
        shown="a 16th of the data, 64 to 256 MiB",
    )
    prune_by_queues: bool = option(
        _BATCH, "with `subscribe`: use queue files to skip parts of the log", true_or_false, "true"
    )
    broker: str | None = option(_BATCH, "the value of the column `broker`", as_it_is, shown="", name="brokerName")
    index_slots: int = option(
        _BATCH, "`maxHashSlotNum` of the broker, for the table `index`", whole_number(1, (1 << 31) - 1), "5000000"
    )
    bad_records: BadRecords = field(default_factory=BadRecords)
    starting: int = option(
        _STREAM,
        "`earliest`, `latest` or a physical offset: the stream starts with the next record",
        _starting,
        "earliest",
        name="startingOffsets",
    )
    """Start of a stream: a physical offset, EARLIEST or LATEST."""
    max_bytes_per_trigger: int = option(
        _STREAM,
        "maximum bytes of the log in a micro-batch, but at least one record",
        whole_number(0, 1 << 62),
        absent=0,
    )
    until_now: bool = option(
        _STREAM,
        "`true`: the batches of a run end where the log ended at its start, "
        "[for Spark 4.0 and 4.1](spark.md#runs-that-end-on-spark-40-and-41)",
        true_or_false,
        "false",
    )
    durable: str = option(_STREAM, "see above", one_of(*RULES), AUTO)
    fail_on_data_loss: bool = option(
        _STREAM,
        "fail if the broker deleted a file that was not read yet, or the folder was replaced; `false` continues after "
        "the gap, and reads a replaced log from its first record",
        true_or_false,
        "true",
    )


STORE_OPTIONS: Final = (*options_in(StoreReadOptions), *_BAD)
_KNOWN: Final = {"topic": "topic", **{one.name.lower(): one.name for one in STORE_OPTIONS}}
_OF_STREAMS: Final = {one.name.lower() for one in STORE_OPTIONS if one.heading == _STREAM}
_OF_BATCHES: Final = {"endingtimestamp"}


def columns_of(options: StoreReadOptions) -> dict[str, str]:
    """Return the columns of a read with their types."""
    return {**TABLES[options.table], **(options.bad_records.columns() if options.table == MESSAGES else {})}


def store_options(options: Mapping[str, str], streaming: bool | None = None) -> StoreReadOptions:
    """Check and convert the options of a read. `streaming` is None if unknown. Raises `OptionError` if one is unknown,
    invalid or missing."""
    given = {name.lower(): value for name, value in options.items()}
    elsewhere = {}
    if streaming is not None:
        other, advice = (_OF_BATCHES, "a batch read") if streaming else (_OF_STREAMS, "a stream")
        elsewhere = dict.fromkeys(other, f"it is for {advice}, remove it")
    known = {name: shown for name, shown in _KNOWN.items() if name not in elsewhere}
    what = "a stream of format" if streaming else "format"
    check_names(options, known, f"{what} rocketmq-store", elsewhere)
    if not given.get("path"):
        raise OptionError('no store folder is given: name it, e.g. .load("/data/store")')
    topics = topic_of(given, ("subscribe", "topic"))
    if topics:
        given["subscribe"] = topics
    # A body that cannot be decompressed may also be damage, so a read that skips damage drops it.
    skips = given.get("corruptrecords") == "skip"
    found = read_fields(StoreReadOptions, given, bad_records=read_bad_records(given, DROP if skips else FAIL))
    if found.end_ms and found.end_ms <= found.begin_ms:
        raise OptionError(
            f"endingTimestamp {found.end_ms} is not after startingTimestamp {found.begin_ms}: nothing would be read"
        )
    return found
