"""Options and columns of a write: what is refused says what to set instead."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from bolide.spark.errors import OptionError
from bolide.spark.sink.sink_options import WRITE_OPTIONS, check_columns, sink_options
from bolide.spark.source.source_options import KNOWN, read_options

GOOD = {"namesrv": "h:1", "topic": "T"}
ONCE = {**GOOD, "mode": "exactly-once"}


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_defaults_and_the_log_beside_the_checkpoint() -> None:
    plain = sink_options(GOOD)
    assert (plain.topic, plain.exactly_once, plain.commit_log, plain.dead_letter_path) == ("T", False, "", "")
    once = sink_options({**ONCE, "checkpointLocation": "file:///c/d/", "queryName": "q"}, streaming=True)
    assert once.exactly_once
    assert once.commit_log == "/c/d/rocketmq-commits"
    assert sink_options({**ONCE, "commitLog": "/log"}, streaming=True).commit_log == "/log"
    job = sink_options({**ONCE, "commitLog": "/log", "jobId": "night-1"})
    assert (job.commit_log, job.job_id) == ("/log", "night-1")
    assert sink_options(ONCE).commit_log == ""


@pytest.mark.parametrize("name", [one.name for one in WRITE_OPTIONS if one.name.lower() not in KNOWN])
def test_read_with_an_option_of_a_write_is_rejected_with_this_reason(name: str) -> None:
    with pytest.raises(OptionError, match=f"^option {name} is unknown to format rocketmq: it is for writes, remove it"):
        read_options({**GOOD, name: "x"})


def test_a_write_describes_itself() -> None:
    assert str(sink_options(GOOD)) == "writes to topic T at the name servers h:1, at-least-once"
    once = sink_options({"namesrv": "h:1", "mode": "exactly-once", "commitLog": "/log"}, streaming=True)
    assert str(once) == "writes to the topics of its rows at the name servers h:1, exactly-once, with its log in /log"


@pytest.mark.parametrize(
    ("options", "streaming", "text"),
    [
        ({**GOOD, "startingOffsets": "latest"}, False, "startingOffsets is unknown to a write .*: it is for reads"),
        ({**GOOD, "subscribe": "T"}, False, "subscribe is unknown to a write with format rocketmq: set topic"),
        ({**GOOD, "sendInFlight": "9"}, False, "did you mean sendsInFlight"),
        ({**GOOD, "mode": "once"}, False, "mode must be at-least-once or exactly-once"),
        (ONCE, True, "set option checkpointLocation"),
        ({**ONCE, "checkpointLocation": "s3a://b/c"}, True, "set commitLog to such a folder"),
        ({**ONCE, "commitLog": "/l"}, False, "commitLog and jobId of a batch write go together"),
        ({**ONCE, "commitLog": "/l", "jobId": "a/b"}, False, "jobId must have at most 100 letters"),
        ({**ONCE, "jobId": "a"}, True, "a stream is identified by its checkpoint"),
        ({**GOOD, "commitLog": "/l"}, False, "need mode=exactly-once"),
        ({**GOOD, "deadLetterPath": "hdfs://n/x"}, False, "deadLetterPath must be a folder that is mounted"),
        ({**GOOD, "path": "S"}, False, "topic T and path S contradict each other"),
        ({**GOOD, "group": "a b"}, False, "group takes up to 200 letters"),
        ({**GOOD, "batchBytes": "0"}, False, "batchBytes must be a whole number"),
        ({"topic": "T"}, False, "set option namesrv"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_invalid_options_are_rejected(options: dict[str, str], streaming: bool, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        sink_options(options, streaming)


def test_columns_and_their_types() -> None:
    check_columns(
        schema(
            topic=StringType(),
            body=StringType(),
            tags=StringType(),
            keys=ArrayType(StringType()),
            properties=MapType(StringType(), StringType()),
            delay_level=IntegerType(),
            deliver_time=TimestampType(),
            sharding_key=StringType(),
            queue_id=LongType(),
            flag=IntegerType(),
            route_key=StringType(),
            message_id=StringType(),
            born_timestamp=LongType(),
        ),
        sink_options({"namesrv": "h:1"}),
    )
    with pytest.raises(OptionError, match="sink has no column valeu"):
        check_columns(schema(body=BinaryType(), valeu=StringType()), sink_options(GOOD))
    with pytest.raises(OptionError, match="sink has no column value: name it body"):
        check_columns(schema(value=BinaryType()), sink_options(GOOD))
    of_kafka = schema(key=StringType(), value=BinaryType(), offset=LongType(), Tags=StringType())
    advice = "key, value, offset, Tags: name key keys, name value body, name Tags tags, drop offset"
    with pytest.raises(OptionError, match=f"the rocketmq sink has no columns {advice}"):
        check_columns(of_kafka, sink_options(GOOD))
    with pytest.raises(OptionError, match="no columns broker, queue_offset: drop them, or use the names topic, body,"):
        check_columns(schema(broker=StringType(), queue_offset=LongType(), body=BinaryType()), sink_options(GOOD))
    doubled = StructType([StructField(name, StringType()) for name in ("body", "tags", "tags")])
    with pytest.raises(OptionError, match="the rows have two columns tags: drop one of them"):
        check_columns(doubled, sink_options(GOOD))
    with pytest.raises(OptionError, match="deliver_time of the rocketmq sink must be timestamp or bigint"):
        check_columns(schema(body=BinaryType(), deliver_time=TimestampNTZType()), sink_options(GOOD))
    with pytest.raises(OptionError, match="needs a column body"):
        check_columns(schema(tags=StringType()), sink_options(GOOD))
    with pytest.raises(OptionError, match="needs a column topic"):
        check_columns(schema(body=BinaryType()), sink_options({"namesrv": "h:1"}))
