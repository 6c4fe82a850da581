"""Options of `format("rocketmq")`, parsed once and checked before the first request to a cluster.

Options with the meaning of an option of Spark's Kafka source have its name. The error for an unknown option lists the
known ones: a misspelt limit that is silently ignored costs more than an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from typing import Final

from bolide.spark.body.body_format import CORRUPT_RECORD, BodyFormat, read_body_format
from bolide.spark.body.body_options import BODY_OPTIONS
from bolide.spark.body.body_options import COLUMNS as COLUMNS_HEADING
from bolide.spark.declared import Option, check_names, option, options_in, read_fields
from bolide.spark.errors import OptionError
from bolide.spark.kafka_names import KAFKA_COLUMNS, KAFKA_OPTIONS
from bolide.spark.option_values import client_name, comma_names, milliseconds, true_or_false, whole_number
from bolide.spark.source.bad_records import BAD_RECORD, BAD_RECORDS, BadRecords, read_bad_records
from bolide.spark.source.connection import SPEED, ClusterAccess, check_connection
from bolide.spark.source.positions import POSITIONS, Position, forms_of, read_position
from bolide.spark.source.row_filters import RowFilters, read_filters
from bolide.spark.source.schema import COLUMNS, PROPERTY_PREFIX
from bolide.spark.source.selection import SELECTION, TOPIC_NAMES, read_selection
from bolide.spark.source.tls_options import Tls, read_tls

EVERY_COLUMN: Final = "*"
_STREAMS: Final = "Streams"
_PULLS: Final = "maximum messages of a pull, and pulls that a task keeps in flight"
_MANY: Final = 1 << 31
_TAKEN: Final = (*COLUMNS, BAD_RECORD, CORRUPT_RECORD)
"""Names of columns that a field of a body cannot have."""
_SELECTED: Final = Option(
    "columns",
    COLUMNS_HEADING,
    "the columns to read, `*` for all of the above, and `property.NAME` for the value of a property: "
    '`columns="body, property.colour"`. A narrower `.schema(...)` does the same. Spark has no other way to '
    "omit columns, and each column costs time",
)


@dataclass(frozen=True, kw_only=True)
class SourceOptions(ClusterAccess):
    """All options of a read. Spark ships them to executors."""

    starting: Position
    ending: Position
    filters: RowFilters = field(default_factory=RowFilters)
    columns: tuple[str, ...] = ()
    """Columns of a read, in order."""
    body: BodyFormat = field(default_factory=BodyFormat)
    bad_records: BadRecords = field(default_factory=BadRecords)
    fail_on_data_loss: bool = option(
        "Start and end",
        "fail if requested messages do not exist: deleted by the broker, before its first message, after the end of a "
        "queue, or in a topic that was recreated. `false` continues with the remaining messages, and the task logs the "
        "loss",
        true_or_false,
        "true",
    )
    max_records_per_partition: int = option(
        SPEED, "a longer range of a queue is split over several tasks", whole_number(1, _MANY), absent=0
    )
    min_partitions: int = option(
        SPEED,
        "minimum number of tasks; the longest queues are split. If a read has more than 64 ranges, small ranges share "
        "tasks of up to 10,000 rows, but not below this number",
        whole_number(1, 1_000_000),
        absent=0,
    )
    pull_batch_size: int = option(SPEED, _PULLS, whole_number(1, 65_536), "1024")
    pulls_in_flight: int = option(SPEED, _PULLS, whole_number(1, 256), "16")
    discovery_interval_ms: int = option(
        SPEED,
        "interval at which a stream queries the name servers for new queues and topics",
        whole_number(100, 86_400_000),
        "10000",
    )
    retry_timeout_ms: int = option(
        SPEED,
        "time for which requests to an unresponsive broker are retried; in the meantime the source reads from replicas "
        "(a Java replica serves reads only with `slaveReadEnable=true`)",
        whole_number(0, 86_400_000),
        "60000",
    )
    group_id_prefix: str = option(
        _STREAMS,
        "instead of `group`: the group is this prefix, a dash and twelve digits computed from the selected topics and "
        "queues, so reads of different topics have different groups, and one right to `Group:PREFIX*` suffices",
        client_name,
        absent="",
        shown="",
    )
    max_offsets_per_trigger: int = option(
        _STREAMS,
        "maximum number of offsets of a micro-batch: one for each queue with lag, the rest in proportion to the lag; "
        "with more such queues than offsets, they take turns",
        whole_number(1, _MANY),
        absent=0,
    )
    min_offsets_per_trigger: int = option(
        _STREAMS, "wait for this number of offsets, at most `maxTriggerDelay`", whole_number(1, _MANY), absent=0
    )
    max_trigger_delay_ms: int = option(_STREAMS, "see above", milliseconds, "15m", name="maxTriggerDelay")
    until_now: bool = option(
        _STREAMS,
        "`true`: the batches of a run end at the messages that existed at its start, "
        "[for Spark 4.0 and 4.1](spark.md#runs-that-end-on-spark-40-and-41)",
        true_or_false,
        "false",
    )
    commit_offsets: bool = option(
        _STREAMS,
        "commit the query's progress to the brokers as offsets of `group`: `bolide group` and RocketMQ's tools then "
        "show its lag",
        true_or_false,
        "false",
    )

    def extra_columns(self) -> dict[str, str]:
        """Return the columns that the options add to a read, with their types."""
        return {**self.body.columns(), **self.bad_records.columns()}

    def __str__(self) -> str:
        """Return a sentence about the read, without passwords."""
        return (
            f"reads {self.selection} at the name servers {', '.join(self.namesrv)} as group {self.group}, starting at"
            f" {self.starting.kind}"
        )


READ_OPTIONS: Final = (
    *SELECTION, *POSITIONS, *options_in(RowFilters), _SELECTED, *BODY_OPTIONS, *BAD_RECORDS,
    *options_in(SourceOptions), *options_in(Tls),
)  # fmt: skip
"""The options of a read. Options with one heading are in the order of the page that describes them."""
KNOWN: Final = {name.lower(): name for name in (*(one.name for one in READ_OPTIONS), *TOPIC_NAMES)}
_OF_A_WRITE: Final = (
    "mode", "commitLog", "jobId", "batchBytes", "sendsInFlight", "deliveryTimeoutMs", "transactionSeconds", "anyTag",
)  # fmt: skip
_ELSEWHERE: Final = {**KAFKA_OPTIONS, **{name.lower(): "it is for writes, remove it" for name in _OF_A_WRITE}}


def read_options(options: Mapping[str, str], streaming: bool | None = False) -> SourceOptions:
    """Check and convert the options of a read; `streaming` is None if unknown. Raises `OptionError` if one is unknown,
    invalid or missing."""
    check_names(options, KNOWN, "format rocketmq", _ELSEWHERE)
    given = {name.lower(): value for name, value in options.items()}
    for name in forms_of("ending"):
        if streaming and name.lower() in given:
            raise OptionError(f"a stream has no end: remove {name}, or use a batch read")
    if streaming is False and "untilnow" in given:
        raise OptionError("option untilNow is for streams: remove it from a batch read")
    if streaming is False and "commitoffsets" in given:
        raise OptionError(
            "option commitOffsets is for streams: remove it, because Spark does not report the end of a batch read"
        )
    selection = read_selection(given)
    check_connection(given)
    body, bad_records = read_body_format(given, _TAKEN), read_bad_records(given)
    found = read_fields(
        SourceOptions,
        given,
        selection=selection,
        tls=read_tls(given),
        starting=read_position(given, "starting", "latest" if streaming else "earliest"),
        ending=read_position(given, "ending", "latest"),
        filters=read_filters(given),
        columns=_columns(given.get("columns", EVERY_COLUMN), {**body.columns(), **bad_records.columns()}),
        body=body,
        bad_records=bad_records,
    )
    if found.group_id_prefix:
        found = replace(found, group=_group_of(found, given))
    _check_order("storedFrom", found.filters.stored_from, "storedTo", found.filters.stored_to)
    _check_order("offsetFrom", found.filters.offset_from, "offsetTo", found.filters.offset_to)
    if found.starting.kind == found.ending.kind == "timestamp":
        _check_order("startingTimestamp", found.starting.timestamp, "endingTimestamp", found.ending.timestamp)
    least, most = found.min_offsets_per_trigger, found.max_offsets_per_trigger
    if most and least > most:
        raise OptionError(f"minOffsetsPerTrigger {least} is more than maxOffsetsPerTrigger {most}: set it to less")
    return found


def _check_order(low: str, begin: int, high: str, end: int) -> None:
    """Raise `OptionError` if a range ends before it starts. An end of 0 means no end."""
    if 0 < end < begin:
        raise OptionError(f"{high} {end} is before {low} {begin}: nothing would be read; exchange them")


def _group_of(options: SourceOptions, given: Mapping[str, str]) -> str:
    """Return the group for a prefix: the same in all processes and runs of a query, which do not communicate."""
    if "group" in given:
        raise OptionError("options group and groupIdPrefix exclude each other: keep one")
    if options.commit_offsets or "group" in (options.starting.kind, options.ending.kind):
        raise OptionError(
            "option groupIdPrefix gives reads of the same topics one group, so their commits would mix: set group to"
            " use commitOffsets or the offsets of a group"
        )
    selected = blake2b(repr(options.selection).encode(), digest_size=6).hexdigest()
    return f"{options.group_id_prefix}-{selected}"


def reading_over(connection: ClusterAccess) -> SourceOptions:
    """Return the options to read whole queues over the connection of a write."""
    shared = {one.name: getattr(connection, one.name) for one in fields(ClusterAccess)}
    return SourceOptions(starting=Position("earliest"), ending=Position("latest"), **shared)


def _columns(text: str, extra: Mapping[str, str]) -> tuple[str, ...]:
    """Parse the requested columns. `*` means all columns except properties."""
    known = {**COLUMNS, **extra}
    found: dict[str, None] = {}
    for name in comma_names("columns", text):
        if name == EVERY_COLUMN:
            found.update(dict.fromkeys(known))
        elif name in known or (name.startswith(PROPERTY_PREFIX) and name != PROPERTY_PREFIX):
            found[name] = None
        else:
            if name in KAFKA_COLUMNS:
                raise OptionError(f"option columns names {name}, which is not a column: name {KAFKA_COLUMNS[name]}")
            raise OptionError(
                f"option columns names {name}, which is not a column; there are {', '.join(known)} "
                f"and {PROPERTY_PREFIX}NAME"
            )
    return tuple(found)
