"""Options and columns of a write with `format("rocketmq")`, checked before the first request to a cluster.

`source_options` reads the options of the connection; here are those of a sink. Spark also passes a stream's own options
(`checkpointLocation`, `queryName`) to the sink; the first says where the log of committed batches may be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bolide.layout.limits import DEFAULT_MAX_MESSAGE_SIZE
from bolide.spark.errors import OptionError
from bolide.spark.option_values import mounted_folder, whole_number
from bolide.spark.source.source_options import CONNECTION, SourceOptions, write_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
LOG_FOLDER: Final = "rocketmq-commits"
"""Folder of the committed batches inside a checkpoint."""

_SHARED: Final = ("topic", "path", "group", *CONNECTION)
"""Options of a read that a write also has."""
_OWN: Final = (
    "mode", "commitLog", "jobId", "deadLetterPath", "batchBytes", "sendsInFlight", "deliveryTimeoutMs",
    "transactionSeconds",
)  # fmt: skip
KNOWN: Final = (*_SHARED, *_OWN)
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
"""Columns the sink understands, and Spark's names of the types each may have.

The last three are for messages that were sent before: `route_key` selects the queue as `sharding_key` does without
becoming a property, and the other two keep the original id and born timestamp."""


@dataclass(frozen=True)
class SinkOptions:
    """Everything a write needs to know; plain data, shipped to executors."""

    connection: SourceOptions
    topic: str
    """Where rows without a topic go; "" if the column names it for all."""
    exactly_once: bool
    commit_log: str
    """Folder of the log of committed batches; "" if there is none."""
    job_id: str
    """Name under which a batch write stores its rows once, however often it is run; "" if it has none."""
    dead_letter_path: str
    """Folder for rows that cannot become messages; "": such a row fails the write."""
    batch_bytes: int
    sends_in_flight: int
    delivery_timeout_ms: int
    transaction_seconds: int
    """How long a broker keeps half messages before it gives them up."""

    @property
    def timeout(self) -> float:
        """Seconds to wait for an answer."""
        return self.connection.request_timeout_ms / 1000

    @property
    def patience(self) -> float:
        """Seconds for which a message, or a commit, is retried."""
        return self.delivery_timeout_ms / 1000


def sink_options(options: Mapping[str, str], streaming: bool = False) -> SinkOptions:
    """Check and convert the options of a write. Raises OptionError."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower() for name in KNOWN} | _OF_SPARK
    for name in given:
        if name not in known:
            raise OptionError(
                f"option {name} is unknown to a write with format rocketmq; known are {', '.join(sorted(KNOWN))}"
            )
    wait = str(whole_number(1, 86_400_000)("deliveryTimeoutMs", given.get("deliverytimeoutms", "60000")))
    connection = write_options(
        {"retryTimeoutMs": wait, **{name: given[name.lower()] for name in _SHARED if name.lower() in given}}
    )
    mode = given.get("mode", AT_LEAST_ONCE)
    if mode not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise OptionError(f"option mode must be {AT_LEAST_ONCE} or {EXACTLY_ONCE}, not {mode!r}")
    exactly_once = mode == EXACTLY_ONCE
    job_id = "" if streaming else given.get("jobid", "")
    if "jobid" in given and streaming:
        raise OptionError("option jobId is for a batch write; a stream is identified by its checkpoint")
    if job_id and not re.fullmatch(r"[\w.-]{1,100}", job_id):
        raise OptionError(f"option jobId takes up to 100 letters, digits, - _ and . only, not {job_id!r}")
    return SinkOptions(
        connection=connection,
        topic=connection.topic,
        exactly_once=exactly_once,
        commit_log=_commit_log(given, exactly_once, streaming, job_id),
        job_id=job_id,
        dead_letter_path=mounted_folder(given.get("deadletterpath", ""), "deadLetterPath"),
        batch_bytes=whole_number(1, DEFAULT_MAX_MESSAGE_SIZE)("batchBytes", given.get("batchbytes", str(128 * 1024))),
        sends_in_flight=whole_number(1, 1_000)("sendsInFlight", given.get("sendsinflight", "256")),
        delivery_timeout_ms=int(wait),
        transaction_seconds=whole_number(60, 30 * 86_400)(
            "transactionSeconds", given.get("transactionseconds", "259200")
        ),
    )


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


def check_columns(schema: StructType, topic: str) -> None:
    """Refuse unknown columns, and columns of the wrong type. Raises OptionError."""
    for field in schema:
        wanted = COLUMNS.get(field.name)
        if wanted is None:
            known = ", ".join(COLUMNS)
            raise OptionError(f"the rocketmq sink has no column {field.name}: drop it; known are {known}")
        given = field.dataType.simpleString()
        if given not in wanted:
            raise OptionError(
                f"the column {field.name} of the rocketmq sink must be {' or '.join(wanted)}, not {given}"
            )
    names = schema.fieldNames()
    if "body" not in names:
        raise OptionError("the rocketmq sink needs a column body (BINARY or STRING)")
    if "topic" not in names and not topic:
        raise OptionError('the rocketmq sink needs a column topic or .option("topic", NAME)')
