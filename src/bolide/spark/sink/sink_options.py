"""Options and columns of a write with `format("rocketmq")`, checked before the first request to a cluster.

`connection` declares the connection options. Spark also passes the options of the stream (`checkpointLocation`,
`queryName`) to the sink. The first determines the default folder of the log of committed batches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from bolide.layout.limits import DEFAULT_MAX_MESSAGE_SIZE
from bolide.spark.body.body_format import BodyFormat
from bolide.spark.declared import Option, check_names, option, options_in, read_fields
from bolide.spark.errors import OptionError
from bolide.spark.kafka_names import KAFKA_COLUMNS, KAFKA_OPTIONS
from bolide.spark.option_values import as_it_is, mounted_folder, one_of, true_or_false, whole_number
from bolide.spark.sink.typed_bodies import BODY, WRITTEN, check_struct, column_of, written_body
from bolide.spark.source.connection import CONNECTION, ClusterAccess, check_connection
from bolide.spark.source.selection import TOPIC_NAMES, Selection, topic_of
from bolide.spark.source.source_options import READ_OPTIONS
from bolide.spark.source.tls_options import read_tls

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
LOG_FOLDER: Final = "rocketmq-commits"
"""Folder of the committed batches inside a checkpoint."""

_HEADING: Final = "Options"
SHARED: Final = (*(one.name for one in CONNECTION), "group", *TOPIC_NAMES)
"""Options with the same meaning as in a read."""
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
_WHOLE: Final = ("int", "bigint", "smallint", "tinyint")

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "delay_level": _WHOLE,
    "deliver_time": ("timestamp", "bigint"),
    "sharding_key": ("string",),
    "queue_id": _WHOLE,
    "flag": _WHOLE,
    "route_key": ("string",),
    "message_id": ("string",),
    "born_timestamp": ("timestamp", "bigint"),
}
"""Columns of the sink, and Spark's names of their possible types.

The last three are for messages that were sent before: `route_key` determines the queue like `sharding_key`, but does
not become a property. The other two preserve the original id and born timestamp."""


def _job_id(name: str, text: str) -> str:
    if text and not re.fullmatch(r"[\w.-]{1,100}", text):
        raise OptionError(f"option {name} must have at most 100 letters, digits, - _ and . only, not {text!r}")
    return text


def _folder(name: str, text: str) -> str:
    return mounted_folder(text, name)


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """All options of a write. Spark ships them to executors."""

    connection: ClusterAccess
    body: BodyFormat = field(default_factory=BodyFormat)
    """The encoding of a struct column; without `kind`, bodies are bytes."""
    mode: str = option(_HEADING, f"or `{EXACTLY_ONCE}`", one_of(AT_LEAST_ONCE, EXACTLY_ONCE), AT_LEAST_ONCE)
    dead_letter_path: str = option(
        _HEADING,
        "folder for rows that cannot become messages; without it such a row fails the write. Times in it are limited "
        "to the range that all time zones can show",
        _folder,
        absent="",
        shown="",
    )
    batch_bytes: int = option(
        _HEADING,
        "rows of one queue are sent together up to this size; each delayed row, row with `born_timestamp` and half "
        "message is sent in a separate request",
        whole_number(1, DEFAULT_MAX_MESSAGE_SIZE),
        str(128 * 1024),
    )
    sends_in_flight: int = option(
        _HEADING, "maximum number of requests in flight per task (and at most 32 MiB)", whole_number(1, 1_000), "256"
    )
    delivery_timeout_ms: int = option(
        _HEADING,
        "time for which a message, or a commit, is retried before the task or the batch fails",
        whole_number(1, 86_400_000),
        "60000",
    )
    commit_log: str = option(
        _HEADING, "folder of the log of an exactly-once write", as_it_is, absent="", shown="in the checkpoint"
    )
    job_id: str = option(
        _HEADING,
        "with `commitLog`: a batch write with this name stores its rows only once, even if it is repeated",
        _job_id,
        absent="",
        shown="",
    )
    any_tag: bool = option(
        _HEADING,
        "whether to send rows with a tag that no subscription selects, such as a copy of stored messages may have",
        true_or_false,
        "false",
    )
    transaction_seconds: int = option(
        _HEADING,
        "time for which Bolide retains the half messages of an unfinished batch",
        whole_number(60, 30 * 86_400),
        "259200",
    )

    def __str__(self) -> str:
        """Return a sentence about the write, without passwords."""
        topic = f"topic {self.topic}" if self.topic else "the topics of its rows"
        log = f", with its log in {self.commit_log}" if self.commit_log else ""
        return f"writes to {topic} at the name servers {', '.join(self.connection.namesrv)}, {self.mode}{log}"

    @property
    def topic(self) -> str:
        """Topic of rows without a topic, or "" if all rows specify it."""
        return "".join(self.connection.topics)

    @property
    def exactly_once(self) -> bool:
        """Whether a repeated batch does not store duplicates."""
        return self.mode == EXACTLY_ONCE

    @property
    def timeout(self) -> float:
        """Timeout of a request in seconds."""
        return self.connection.request_timeout_ms / 1000

    @property
    def patience(self) -> float:
        """Seconds for which a message or a commit is retried."""
        return self.delivery_timeout_ms / 1000


WRITE_OPTIONS: Final[tuple[Option, ...]] = (*options_in(SinkOptions), *WRITTEN)
KNOWN: Final = {name.lower(): name for name in (*SHARED, *(one.name for one in WRITE_OPTIONS))}
_ELSEWHERE: Final = {
    **KAFKA_OPTIONS,
    **{one.name.lower(): "it is for reads, remove it" for one in READ_OPTIONS},
    "subscribe": "set topic",
    "retrytimeoutms": "set deliveryTimeoutMs",
}


def sink_options(options: Mapping[str, str], streaming: bool = False) -> SinkOptions:
    """Check and convert the options of a write. Raises `OptionError` if one is unknown, invalid or missing."""
    given = {name.lower(): value for name, value in options.items()}
    what = "a write with format rocketmq"
    check_names([name for name in options if name.lower() not in _OF_SPARK], KNOWN, what, _ELSEWHERE)
    if "jobid" in given and streaming:
        raise OptionError("option jobId is for a batch write; a stream is identified by its checkpoint")
    found = read_fields(SinkOptions, given, connection=ClusterAccess(), body=written_body(given))
    folder = _commit_log(given, found.exactly_once, streaming, found.job_id)
    return replace(found, commit_log=folder, connection=write_connection(options, found.delivery_timeout_ms))


def write_connection(options: Mapping[str, str], patience_ms: int = ClusterAccess.retry_timeout_ms) -> ClusterAccess:
    """Return the connection and the topic of a write, ignoring other options. Raises `OptionError` if one is invalid or
    missing."""
    given = {name.lower(): value for name, value in options.items()}
    check_connection(given)
    topic = topic_of(given, TOPIC_NAMES)
    selection = Selection((topic,) if topic else ())
    return read_fields(ClusterAccess, given, selection=selection, tls=read_tls(given), retry_timeout_ms=patience_ms)


def _commit_log(given: Mapping[str, str], exactly_once: bool, streaming: bool, job_id: str) -> str:
    folder = given.get("commitlog", "")
    if not exactly_once:
        if folder or job_id:
            raise OptionError(f"options commitLog and jobId need mode={EXACTLY_ONCE}: set it, or remove them")
        return ""
    if streaming and not folder:
        checkpoint = given.get("checkpointlocation", "")
        if not checkpoint:
            raise OptionError(
                f"mode={EXACTLY_ONCE} keeps a log of committed batches: set option checkpointLocation on this query, "
                "or option commitLog to a folder that outlives the driver"
            )
        return mounted_folder(checkpoint, "checkpointLocation") + "/" + LOG_FOLDER
    if not streaming and bool(folder) != bool(job_id):
        raise OptionError("options commitLog and jobId of a batch write go together: set both or neither")
    return mounted_folder(folder, "commitLog")


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise `OptionError` if a column is unknown, missing or has the wrong type."""
    typed = bool(options.body.kind)
    body = column_of(options.body)
    if body != BODY and body in COLUMNS:
        raise OptionError(
            f"option body.column names {body}, which the rocketmq sink reads otherwise: rename the struct"
        )
    names = schema.fieldNames()
    doubled = [name for at, name in enumerate(names) if name in names[:at]]
    if doubled:
        raise OptionError(f"the rows have two columns {doubled[0]}: drop one of them, or rename it")
    unknown = [name for name in names if not (name == body if typed and name in (body, BODY) else name in COLUMNS)]
    if unknown:
        raise OptionError(f"the rocketmq sink has no column{'s' * (len(unknown) > 1)} {_instead(unknown)}")
    for column in schema:
        if typed and column.name == body:
            continue
        wanted = COLUMNS[column.name]
        given = column.dataType.simpleString()
        if given not in wanted:
            instead = "; option body.format encodes a struct" if column.name == BODY and "struct<" in given else ""
            raise OptionError(
                f"the column {column.name} of the rocketmq sink must be {' or '.join(wanted)}, not {given}{instead}"
            )
    if body not in names:
        kind = "the struct of option body.format" if typed else "BINARY or STRING"
        raise OptionError(f"the rocketmq sink needs a column {body} ({kind})")
    if "topic" not in names and not options.topic:
        raise OptionError('the rocketmq sink needs a column topic or .option("topic", NAME)')
    if typed:
        check_struct(schema, options.body)


def _instead(unknown: Sequence[str]) -> str:
    """Return columns that the sink does not have, and the advice for them."""
    ours = {name: _ours(name) for name in unknown}
    if len(unknown) == 1 and ours[unknown[0]]:
        return f"{unknown[0]}: name it {ours[unknown[0]]}"
    advice = [f"name {name} {better}" for name, better in ours.items() if better]
    others = [name for name in unknown if not ours[name]]
    if others:
        it = "it" if len(unknown) == 1 else ", ".join(others) if advice else "them"
        advice.append(f"drop {it}, or use the names {', '.join(COLUMNS)}")
    return f"{', '.join(unknown)}: {', '.join(advice)}"


def _ours(name: str) -> str:
    """Return the sink's name of a column, or "" if it has no such column."""
    found = KAFKA_COLUMNS.get(name.lower(), name.lower())
    return found if found in COLUMNS and found != name else ""
