"""Converts the message trace topic to one row per message: its send, and every attempt to consume it.

Parses lines of RocketMQ's TraceDataEncoder, of 4.x and 5.x, by Java clients or Bolide's: fields are separated by 0x01,
lines end with 0x02, and Java writes the word `null` for null. Only Spark's functions are used, so no row passes through
Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TYPES: Final = ("normal", "half", "committed", "delayed", "ordered")
"""Ordinals of Java's MessageType."""
CODES: Final = ("success", "time_out", "exception", "returned_null", "failed")
"""Ordinals of Java's ConsumeReturnType."""


def trace_rows(messages: DataFrame) -> DataFrame:
    """Return one row per traced message from a batch of the trace topic (`rocketmq`, `rocketmq-store` or an archive).

    Columns: message_id, topic, tags, keys, producer_group, sent_at, send_ms, send_ok, store_host, body_length, type,
    offset_message_id; consumptions (an array in order of time: began_at, ended_at, consumer_group, request_id,
    retry_times, cost_ms, ok, code) and consumed (how many succeeded). The columns of the send are null if it was not
    traced.
    """
    from pyspark.sql import functions as f

    lines = messages.select(f.explode(f.split(f.decode("body", "UTF-8"), "\x02")).alias("line"))
    fields = lines.select(f.split("line", "\x01").alias("x")).cache()
    sent = _sent(fields.where("x[0] = 'Pub' AND size(x) >= 13"))
    tried = (
        _attempts(fields)
        .groupBy("message_id")
        .agg(
            f.sort_array(f.collect_list("attempt")).alias("consumptions"),
            f.count_if("attempt.ok").alias("consumed"),
        )
    )
    none = f.array().cast("array<" + tried.schema["consumptions"].dataType.simpleString()[len("array<") :])
    return sent.join(tried, "message_id", "full").withColumns(
        {"consumptions": f.coalesce("consumptions", none), "consumed": f.coalesce("consumed", f.lit(0))}
    )


def _at(index: int) -> Column:
    """Return a field of the line, or null for the word `null`, an empty field and a missing field."""
    from pyspark.sql import functions as f

    text = f.get("x", f.lit(index))
    return f.when(text.isin("null", ""), None).otherwise(text)


def _time(index: int) -> Column:
    from pyspark.sql import functions as f

    return f.timestamp_millis(_at(index).cast("bigint"))


def _named(ordinal: Column, names: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as f

    return f.get(f.array(*[f.lit(name) for name in names]), ordinal.cast("int"))


def _sent(lines: DataFrame) -> DataFrame:
    """Parse Pub lines. 4.x has no offset id, so its success is one field earlier. Uses the last line after a resend."""
    from pyspark.sql import functions as f

    modern = f.size("x") >= 14
    return (
        lines.select(
            _at(5).alias("message_id"),
            f.struct(
                _time(1).alias("sent_at"),
                _at(4).alias("topic"),
                _at(6).alias("tags"),
                f.when(_at(7).isNull(), f.array().cast("array<string>")).otherwise(f.split(_at(7), " ")).alias("keys"),
                _at(3).alias("producer_group"),
                _at(10).cast("int").alias("send_ms"),
                (f.when(modern, _at(13)).otherwise(_at(12)) == "true").alias("send_ok"),
                _at(8).alias("store_host"),
                _at(9).cast("int").alias("body_length"),
                _named(_at(11), TYPES).alias("type"),
                f.when(modern, _at(12)).alias("offset_message_id"),
            ).alias("sent"),
        )
        .groupBy("message_id")
        .agg(f.max_by("sent", "sent.sent_at").alias("sent"))
        .select(
            "message_id",
            *[f"sent.{name}" for name in ("topic", "tags", "keys", "producer_group", "sent_at", "send_ms", "send_ok")],
            *[f"sent.{name}" for name in ("store_host", "body_length", "type", "offset_message_id")],
        )
    )


def _attempts(fields: DataFrame) -> DataFrame:
    """Join start and end of each listener call by request and message. One of them may be missing."""
    from pyspark.sql import functions as f

    both = ["request_id", "message_id"]
    begins = fields.where("x[0] = 'SubBefore' AND size(x) >= 8").select(
        _at(4).alias("request_id"), _at(5).alias("message_id"), _time(1).alias("began_at"), _at(3).alias("began_by"),
        _at(6).cast("int").alias("retry_times"),
    ).dropDuplicates(both)  # fmt: skip
    ends = fields.where("x[0] = 'SubAfter' AND size(x) >= 6").select(
        _at(1).alias("request_id"), _at(2).alias("message_id"), _at(3).cast("int").alias("cost_ms"),
        (_at(4) == "true").alias("ok"), _named(f.coalesce(_at(6), f.lit("0")), CODES).alias("code"),
        _time(7).alias("ended_at"), _at(8).alias("ended_by"),
    ).dropDuplicates(both)  # fmt: skip
    attempt = f.struct(
        "began_at", "ended_at", f.coalesce("began_by", "ended_by").alias("consumer_group"), "request_id",
        "retry_times", "cost_ms", "ok", "code",
    )  # fmt: skip
    return begins.join(ends, both, "full").select("message_id", attempt.alias("attempt"))
