"""Options of `format("rocketmq")`, read once and checked before the first request to a cluster.

Names follow Spark's Kafka source where the meaning is the same. An unknown option is refused, with the known ones:
a misspelt limit that is silently ignored costs more than an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bolide.spark.body.body_format import BODY_OPTIONS, BodyFormat, read_body_format
from bolide.spark.errors import OptionError
from bolide.spark.option_values import comma_names, milliseconds, true_or_false, whole_number
from bolide.spark.source.bad_records import BAD_RECORD, BadRecords, read_bad_records
from bolide.spark.source.positions import Position, forms_of, read_position
from bolide.spark.source.row_filters import RowFilters, read_filters
from bolide.spark.source.schema import COLUMNS, PROPERTY_PREFIX
from bolide.spark.source.selection import Selection, read_selection
from bolide.spark.source.tls_options import TLS_OPTIONS, Tls, read_tls

DEFAULT_GROUP: Final = "bolide-spark"
DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
"""The default of Spark's Kafka source."""
EVERY_COLUMN: Final = "*"
CONNECTION: Final = ("namesrv", "accessKey", "secretKey", "requestTimeoutMs", *TLS_OPTIONS)
"""Options of the connection to a cluster: the same for reads, writes and jobs."""


@dataclass(frozen=True)
class SourceOptions:
    """Everything a read or a write needs to know; plain data, shipped to executors."""

    namesrv: tuple[str, ...]
    selection: Selection
    group: str
    starting: Position
    ending: Position
    filters: RowFilters
    columns: tuple[str, ...]
    """Columns of a read, in order."""
    body: BodyFormat
    bad_records: BadRecords
    min_offsets_per_trigger: int
    """0: no limit; kept until `max_trigger_delay_ms` have passed."""
    max_offsets_per_trigger: int
    """0: no limit."""
    max_trigger_delay_ms: int
    min_partitions: int
    """Tasks that a read is split into at least, if it has that many rows. 0: no minimum."""
    max_records_per_partition: int
    """Rows that one task reads at most; a longer range is split over several tasks. 0: a queue is never split."""
    fail_on_data_loss: bool
    commit_offsets: bool
    """Commit the progress of a stream to the brokers as offsets of `group`."""
    pull_batch_size: int
    pulls_in_flight: int
    request_timeout_ms: int
    retry_timeout_ms: int
    """How long a broker that does not answer is retried before a task or a query fails."""
    discovery_interval_ms: int
    access_key: str
    secret_key: str = field(repr=False)
    tls: Tls
    topic: str
    """Of a write: where rows without a topic column go."""

    def extra_columns(self) -> dict[str, str]:
        """Columns that the options add to a read, with their types."""
        return {**self.body.columns(), **self.bad_records.columns()}

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics by name; none if a pattern selects them."""
        return self.selection.topics


KNOWN: Final = {
    name.lower(): name
    for name in (
        "subscribe", "topic", "path", "subscribePattern", "assign", "brokers", "queueIds", "group",
        "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "endingOffsets", "endingTimestamp",
        "endingOffsetsByTimestamp", "minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
        "maxRecordsPerPartition", "failOnDataLoss", "commitOffsets", "tags", "sql", "keys", "storedFrom", "storedTo",
        "offsetFrom", "offsetTo", "columns", *BODY_OPTIONS, "badRecords",
        "deadLetterPath", "pullBatchSize", "pullsInFlight", "retryTimeoutMs", "discoveryIntervalMs", *CONNECTION,
    )
}  # fmt: skip


def read_options(options: Mapping[str, str], streaming: bool | None = False) -> SourceOptions:
    """Check and convert the options of a read; `streaming` is None if unknown. Raises OptionError."""
    given = _known(options)
    for name in forms_of("ending"):
        if streaming and name.lower() in given:
            raise OptionError(f"a stream has no end: remove {name}, or use a batch read")
    if streaming is False and "commitoffsets" in given:
        raise OptionError("option commitOffsets is for streams: Spark does not say when a batch read is done")
    return _build(given, read_selection(given), bool(streaming))


def write_options(options: Mapping[str, str]) -> SourceOptions:
    """Check and convert the options of a write. Raises OptionError."""
    given = _known(options)
    topic = given.get("topic") or given.get("path") or ""
    return _build(given, Selection((topic,) if topic else ()), False)


def _known(options: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in KNOWN:
            raise OptionError(
                f"option {name} is unknown to format rocketmq; known are {', '.join(sorted(KNOWN.values()))}"
            )
    return given


def _build(given: dict[str, str], selection: Selection, streaming: bool) -> SourceOptions:
    namesrv = given.get("namesrv")
    if not namesrv:
        raise OptionError('no name server is given: set option namesrv, e.g. .option("namesrv", "127.0.0.1:9876")')
    if ("accesskey" in given) != ("secretkey" in given):
        raise OptionError("options accessKey and secretKey go together: set both or neither")
    number = whole_number(1, 1 << 31)
    least, most = (_optional(given, f"{which}OffsetsPerTrigger", number) for which in ("min", "max"))
    if most and least > most:
        raise OptionError(f"minOffsetsPerTrigger {least} is more than maxOffsetsPerTrigger {most}: set it to less")
    body = read_body_format(given, (*COLUMNS, BAD_RECORD))
    bad_records = read_bad_records(given)
    extra = {**body.columns(), **bad_records.columns()}
    delay = given.get("maxtriggerdelay")
    topics = selection.topics
    return SourceOptions(
        namesrv=comma_names("namesrv", namesrv),
        selection=selection,
        group=given.get("group", DEFAULT_GROUP),
        starting=read_position(given, "starting", "latest" if streaming else "earliest"),
        ending=read_position(given, "ending", "latest"),
        filters=read_filters(given),
        columns=_columns(given.get("columns", EVERY_COLUMN), extra),
        body=body,
        bad_records=bad_records,
        min_offsets_per_trigger=least,
        max_offsets_per_trigger=most,
        max_trigger_delay_ms=DEFAULT_TRIGGER_DELAY_MS if delay is None else milliseconds("maxTriggerDelay", delay),
        min_partitions=_optional(given, "minPartitions", whole_number(1, 1_000_000)),
        max_records_per_partition=_optional(given, "maxRecordsPerPartition", number),
        fail_on_data_loss=true_or_false("failOnDataLoss", given.get("failondataloss", "true")),
        commit_offsets=true_or_false("commitOffsets", given.get("commitoffsets", "false")),
        pull_batch_size=whole_number(1, 65_536)("pullBatchSize", given.get("pullbatchsize", "1024")),
        pulls_in_flight=whole_number(1, 256)("pullsInFlight", given.get("pullsinflight", "16")),
        request_timeout_ms=whole_number(100, 600_000)("requestTimeoutMs", given.get("requesttimeoutms", "10000")),
        retry_timeout_ms=whole_number(0, 86_400_000)("retryTimeoutMs", given.get("retrytimeoutms", "60000")),
        discovery_interval_ms=whole_number(100, 86_400_000)(
            "discoveryIntervalMs", given.get("discoveryintervalms", "10000")
        ),
        access_key=given.get("accesskey", ""),
        secret_key=given.get("secretkey", ""),
        tls=read_tls(given),
        topic=topics[0] if topics else "",
    )


def _optional(given: dict[str, str], name: str, parse: Callable[[str, str], int]) -> int:
    text = given.get(name.lower())
    return 0 if text is None else parse(name, text)


def _columns(text: str, extra: Mapping[str, str]) -> tuple[str, ...]:
    """The requested columns; `*` means all columns except those of properties."""
    known = {**COLUMNS, **extra}
    found: dict[str, None] = {}
    for name in comma_names("columns", text):
        if name == EVERY_COLUMN:
            found.update(dict.fromkeys(known))
        elif name in known or (name.startswith(PROPERTY_PREFIX) and name != PROPERTY_PREFIX):
            found[name] = None
        else:
            raise OptionError(
                f"option columns names {name}, which is not a column; there are {', '.join(known)} "
                f"and {PROPERTY_PREFIX}NAME"
            )
    return tuple(found)
