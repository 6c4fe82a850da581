"""Exports topics to files (CSV, JSON lines, Parquet), and imports such files to topics.

CSV has no arrays, maps or bytes: keys are joined with spaces, properties are JSON, and the body is text or base64. JSON
has no bytes: the body is also text or base64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from bolide.spark.errors import OptionError
from bolide.spark.failures import job_failed
from bolide.spark.jobs.resending import own_properties
from bolide.spark.jobs.running import JobResult, run_query, topic_stream
from bolide.spark.session.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS: Final = ("csv", "json", "parquet")
BODIES: Final = ("text", "base64")
FILES_PER_BATCH: Final = 16
_CSV: Final = {
    "header": "true", "escape": '"', "multiLine": "true", "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}  # fmt: skip
"""CSV options that preserve line ends, quotes and surrounding spaces in bodies, unlike Spark's defaults."""


def export_topic(
    spark: SparkSession,
    out: str,
    options: Mapping[str, str],
    *,
    file_format: str = "json",
    body: str = "text",
    checkpoint: str | None = None,
    progress: OnProgress = no_progress,
) -> JobResult:
    """Write the messages since the last run as files into the folder `out`.

    Raises `OptionError` if an option is invalid, and `JobFailed` if Spark fails.
    """
    _check(file_format, body)
    messages = topic_stream(spark, options)
    writer = flat(messages, file_format, body).writeStream.format(file_format).option("path", out)
    if file_format == "csv":
        writer = writer.options(**_CSV)
    return run_query(writer, checkpoint or out.rstrip("/") + "/_checkpoint", "export", progress)


def flat(messages: DataFrame, file_format: str, body: str) -> DataFrame:
    """Return the source's columns in types that the format supports."""
    from pyspark.sql import functions as f

    changed: dict[str, Column] = {}
    if file_format != "parquet":
        changed["body"] = f.base64("body") if body == "base64" else f.decode("body", "UTF-8")
    if file_format == "csv":
        changed |= {"keys": f.array_join("keys", " "), "properties": f.to_json("properties")}
    return messages.withColumns(changed)


def import_files(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    *,
    topic: str,
    file_format: str = "json",
    body: str = "text",
    body_column: str | None = None,
    tags: str | None = None,
    keys: Sequence[str] = (),
    checkpoint: str,
    progress: OnProgress = no_progress,
) -> JobResult:
    """Send each row of the files below `path` as a message to `topic`. Skips files that an earlier run sent.

    The rows of a file of `export_topic` become the original messages. In other files, `body_column` is the name of the
    column of the body; without it, and without a column `body`, the whole row is the body, as JSON. `tags` and `keys`
    are names of columns. Raises `OptionError` if an option is invalid, and `JobFailed` if Spark fails.
    """
    _check(file_format, body)
    reader = spark.read.format(file_format)
    if file_format == "csv":
        reader = reader.options(**_CSV)
    try:
        whole = reader.load(path)
        total = whole.count()
        schema = whole.schema
    except Exception as error:
        raise job_failed(error) from None
    stream = spark.readStream.format(file_format).schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH)
    if file_format == "csv":
        stream = stream.options(**_CSV)
    rows = as_messages(stream.load(path), file_format, body, body_column, tags, keys)
    writer = rows.writeStream.format("rocketmq").options(**options).option("topic", topic)
    return run_query(writer, checkpoint, "import", progress, total=total)


def as_messages(
    rows: DataFrame, file_format: str, body: str, body_column: str | None, tags: str | None, keys: Sequence[str]
) -> DataFrame:
    """Convert rows of a file to the sink's columns. Raises `OptionError` if a column is missing."""
    from pyspark.sql import functions as f

    columns = rows.columns
    for name in (body_column, tags, *keys):
        if name and name not in columns:
            raise OptionError(f"the files have no column {name}; they have {', '.join(columns)}")
    source = body_column or ("body" if "body" in columns else None)
    chosen: dict[str, Column] = {}
    if source is None:
        chosen["body"] = f.to_json(f.struct(*columns))
    elif body == "base64" and file_format != "parquet":
        chosen["body"] = f.unbase64(source)
    else:
        chosen["body"] = f.col(source)
    if source == "body" and body_column is None:
        # An export: keep the fields of the message itself, but not those of its storage.
        kept = [name for name in ("tags", "keys", "properties", "flag") if name in columns]
        chosen |= {name: _typed(rows, name) for name in kept}
    if tags:
        chosen["tags"] = f.col(tags).cast("string")
    if keys:
        chosen["keys"] = f.concat_ws(" ", *[f.col(name).cast("string") for name in keys])
    return rows.select(*[column.alias(name) for name, column in chosen.items()])


def _typed(rows: DataFrame, name: str) -> Column:
    """Convert a column of an export to the sink's type: CSV contains only text, and JSON a struct instead of a map."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    kind = rows.schema[name].dataType
    if name == "flag":
        return f.col(name).cast("int")
    if name == "keys" and not isinstance(kind, StringType):
        return f.array_join(name, " ")
    if name != "properties":
        return f.col(name)
    text = f.to_json(name) if isinstance(kind, StructType) else f.col(name)
    parsed = f.from_json(text, "map<string,string>") if isinstance(kind, (StructType, StringType)) else text
    return own_properties(parsed)


def _check(file_format: str, body: str) -> None:
    if file_format not in FORMATS:
        raise OptionError(f"files are {', '.join(FORMATS)}, not {file_format}")
    if body not in BODIES:
        raise OptionError(f"a body is written as {' or '.join(BODIES)}, not {body}")
