"""Options: what is taken, what is refused, and whether the sentence names the option."""

from __future__ import annotations

import json
import re

import pytest

from bolide.spark.body.sql_types import ddl_fields
from bolide.spark.errors import OptionError
from bolide.spark.source.queues import Queue, from_json, parse_offsets, to_json
from bolide.spark.source.source_options import KNOWN, READ_OPTIONS, read_options

BASE = {"namesrv": "127.0.0.1:9876;127.0.0.1:9877", "subscribe": "a, b"}


def avro_decimal(precision: object, scale: object) -> str:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})


def test_defaults() -> None:
    options = read_options(BASE)
    assert options.namesrv == ("127.0.0.1:9876", "127.0.0.1:9877")
    assert options.topics == ("a", "b")
    assert (options.starting.kind, options.ending.kind) == ("earliest", "latest")
    assert options.fail_on_data_loss
    assert read_options(BASE, streaming=True).starting.kind == "latest"


def test_a_prefix_and_the_selection_name_the_group() -> None:
    def group(**more: str) -> str:
        return read_options({"namesrv": "h:1", "groupIdPrefix": "etl", **more}, streaming=True).group

    assert re.fullmatch("etl-[0-9a-f]{12}", group(subscribe="T"))
    assert group(subscribe="T") == group(path="T") == group(topic="T", startingOffsets="earliest")
    assert (
        len({group(subscribe="T"), group(subscribe="U"), group(subscribePattern="T"), group(topic="T", queueIds="0")})
        == 4
    )
    with pytest.raises(OptionError, match="so their commits would mix"):
        group(subscribe="T", commitOffsets="true")


def test_a_read_describes_itself() -> None:
    given = {"namesrv": "h:1,h:2", "topic": "T,U", "accessKey": "alice", "secretKey": "s3cret"}
    options = read_options(given, streaming=True)
    assert str(options) == "reads T, U at the name servers h:1, h:2 as group bolide-spark, starting at latest"


def test_the_secret_is_not_printed() -> None:
    options = read_options({"namesrv": "n:1", "topic": "T", "accessKey": "alice", "secretKey": "s3cret"})
    assert options.secret_key == "s3cret" and "s3cret" not in repr(options)


def test_options_are_declared_once_and_the_known_ones_are_those() -> None:
    names = [one.name for one in READ_OPTIONS]
    assert len(set(names)) == len(names)
    assert set(KNOWN.values()) - set(names) == {"topic", "path"}
    assert all(one.text and one.heading for one in READ_OPTIONS)


def test_every_declared_default_is_the_value_without_the_option() -> None:
    plain = read_options({"namesrv": "h:1", "subscribe": "T"})
    for one in READ_OPTIONS:
        if one.read is not None and one.heading != "TLS" and one.default not in ("", "no limit", "required"):
            assert read_options({"namesrv": "h:1", "subscribe": "T", one.name: one.default}, None) == plain, one.name


def test_names_ignore_case_and_topic_and_path_are_other_words_for_subscribe() -> None:
    given = {"NameSrv": "h:1", "TOPIC": "T", "MaxOffsetsPerTrigger": "7"}
    assert read_options(given).topics == ("T",)
    assert read_options(given).max_offsets_per_trigger == 7
    assert read_options({"namesrv": "h:1", "path": "T"}).topics == ("T",)


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"startingOffset": "earliest"}, "startingOffset is unknown to format rocketmq: did you mean startingOffsets"),
        ({"groupIdPrefix": "a b"}, "groupIdPrefix takes up to 200 letters"),
        ({"groupIdPrefix": "p", "group": "g"}, "options group and groupIdPrefix exclude each other"),
        ({"groupIdPrefix": "p", "startingOffsets": "group"}, "groupIdPrefix .*: set group to use commitOffsets or"),
        ({"colour": "red"}, "colour is unknown to format rocketmq: use one of .*subscribe"),
        ({"kafka.bootstrap.servers": "h:1"}, "kafka.bootstrap.servers is unknown to format rocketmq: set namesrv"),
        ({"kafka.fetch.max.bytes": "1"}, "is one of Kafka's clients, which are not used"),
        ({"includeHeaders": "true"}, "the column properties always contains them"),
        ({"batchBytes": "1"}, "batchBytes is unknown to format rocketmq: it is for writes"),
        ({"columns": "value"}, "value, which is not a column: name body"),
        ({"startingOffsets": "first"}, "startingOffsets must be"),
        ({"startingOffsets": '{"a":{"b":{"0":-3}}}'}, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"a":{"b":{"0":true}}}'}, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"a":{"0":1}}'}, "startingOffsets must be JSON .*: offsets are by topic, broker and"),
        ({"startingOffsets": "{"}, "startingOffsets is not JSON"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be a whole number"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger must be a whole number"),
        ({"failOnDataLoss": "perhaps"}, "failondataloss must be true or false"),
        ({"accessKey": "a"}, "accessKey and secretKey go together"),
        ({"tlsEnable": "perhaps"}, "tlsEnable must be true or false"),
        ({"tlsClientTrustCertPath": "c"}, "tlsClientTrustCertPath has no effect without tlsEnable"),
        ({"tlsEnable": "true", "tlsClientTrustCertPath": "c"}, "TrustCertPath has no effect without tlsClientAuth"),
        ({"tlsEnable": "true", "tlsClientCertPath": "c"}, "tlsClientCertPath and tlsClientKeyPath go together"),
        ({"subscribe": " , "}, "subscribe is empty"),
        ({"subscribePattern": "a.*"}, "subscribe and subscribePattern exclude each other"),
        ({"startingOffsetsByTimestamp": "[1]"}, "startingOffsetsByTimestamp must be JSON"),
        ({"startingOffsetsByTimestamp": '{"a": -1}'}, "startingOffsetsByTimestamp must be JSON"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp must be ms since 1970 or a time with a zone"),
        ({"startingTimestamp": "2026-03-01T00:00:00"}, "a time with a zone"),
        ({"queueIds": "0,x"}, "queueIds must be a whole number"),
        ({"keys": "a b"}, "a key cannot contain a blank"),
        ({"topic": "c"}, "subscribe a, b and topic c contradict each other"),
        ({"path": "c"}, "path is the argument of load and save"),
        ({"group": "a b"}, "group takes up to 200 letters"),
        ({"group": ""}, "group takes up to 200 letters"),
        ({"namesrv": "h"}, "option namesrv: 'h' is not an address, write host:port"),
        ({"namesrv": "h:1,http://h:9876"}, "option namesrv: 'http://h:9876' is a URL, write host:port"),
        ({"storedFrom": "2000", "storedTo": "1000"}, "storedTo 1000 is before storedFrom 2000"),
        ({"offsetFrom": "2", "offsetTo": "1"}, "offsetTo 1 is before offsetFrom 2"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "endingTimestamp 1 is before startingTimestamp 2"),
        ({"sql": " "}, "sql is empty"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger 9 is more than"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay must be a duration"),
        ({"commitOffsets": "true"}, "commitOffsets is for streams"),
        ({"columns": "topic, colour"}, "columns names colour, which is not a column"),
        ({"columns": "property."}, "columns names property., which is not a column"),
        ({"body.schema": "id BIGINT"}, "body.schema needs option body.format"),
        ({"body.format": "xml"}, "body.format must be json, avro or protobuf"),
        ({"body.format": "json", "body.onBadRecord": "ignore"}, "body.onBadRecord must be fail, drop or column"),
        ({"body.format": "json", "body.schema": "id"}, "'id' is not a column"),
        *(
            ({"body.format": "json", "body.schema": f"id INT, x {kind}"}, f"x has the type {re.escape(kind)}")
            for kind in (
                "BIGGINT",
                "INT>",
                "INT INT",
                "ARRAY",
                "ARRAY<INT",
                "ARRAY<INT, INT>",
                "ARRAY<TEXT>",
                "MAP<STRING>",
                "STRUCT<city>",
                "STRUCT<city: TEXT>",
                "DECIMAL(39,2)",
                "numeric (99)",
                "dec(0)",
                "dec( ,1)",
                "INT<INT>",
                "<INT>",
            )
        ),
        *(
            ({"body.format": "avro", "body.schema": avro_decimal(precision, scale)}, "x is a decimal with precision")
            for precision, scale in ((39, 2), (3, 4), (3, -1), (0, 0), ("9", 2), (None, 0), (True, 0))
        ),
        ({"body.format": "json", "body.schema": "tags STRING"}, "a field tags, which is a column of the source"),
        ({"body.format": "json", "body.schema": "a ARRAY<STRUCT<b: MAP<INT,INT>>>"}, "field a.b is MAP<INT,INT>"),
        ({"body.format": "json", "body.schema": "id INT NOT NULL"}, "id cannot be NOT NULL"),
        ({"body.format": "json", "body.schema": "id INT, id INT"}, "names id twice"),
        ({"body.format": "avro"}, "avro needs option body.schema"),
        ({"body.format": "avro", "body.schema": '"long"'}, "must be a record"),
        (
            {
                "body.format": "avro",
                "body.schema": '{"type":"record","name":"R","fields":[{"name":"u","type":["int","string"]}]}',
            },
            "u is a union of several types",
        ),
    ],
)
def test_invalid_option_is_named(extra: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=f"(?i){text}"):
        read_options({**BASE, **extra})


def test_synonyms_may_agree_and_a_range_may_be_empty() -> None:
    assert read_options({**BASE, "topic": "a, b", "storedFrom": "5", "storedTo": "5"}).topics == ("a", "b")


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="a stream has no end"):
        read_options({**BASE, "endingOffsets": "latest"}, streaming=True)


def test_name_server_and_topic_are_needed() -> None:
    with pytest.raises(OptionError, match="set option namesrv"):
        read_options({"subscribe": "a"})
    with pytest.raises(OptionError, match="set option subscribe"):
        read_options({"namesrv": "h:1"})


def test_offsets_survive_their_json() -> None:
    offsets = {Queue("T", "b", 10): 4, Queue("T", "b", 2): -1, Queue("S", "a", 0): -2}
    assert from_json(to_json(offsets), "test") == offsets
    assert parse_offsets('{"T":{"b":{"10":4,"2":-1}},"S":{"a":{"0":-2}}}', "test") == offsets
    assert list(to_json(offsets)) == ["S", "T"], "sorted, since Spark compares the text"


def test_topics_can_be_chosen_by_pattern_and_queues_one_by_one() -> None:
    by_pattern = read_options({"namesrv": "h:1", "subscribePattern": "ord.*"}).selection
    names = ["orders", "ord", "TBW102", "%RETRY%ord", "rmq_sys_ord", "border", "ord_REPLY_TOPIC"]
    assert by_pattern.matching(names) == ["ord", "orders"]
    assert by_pattern.matching(names, ["ord"]) == ["orders"]
    retries = read_options({"namesrv": "h:1", "subscribePattern": "%RETRY%.*"}).selection
    assert retries.matching(names) == ["%RETRY%ord"]
    assigned = read_options({"namesrv": "h:1", "assign": '{"T":{"b":[2,0]}}'}).selection
    assert assigned.topics == ("T",)
    assert [number for number in range(4) if assigned.keeps(Queue("T", "b", number))] == [0, 2]
    narrowed = read_options({**BASE, "brokers": "b", "queueIds": "1, 2"}).selection
    assert narrowed.keeps(Queue("a", "b", 1))
    assert not narrowed.keeps(Queue("a", "b", 0))
    assert not narrowed.keeps(Queue("a", "c", 1))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"T":{"b":0}}', '{"T":{"b":["0"]}}', '{"T":{"b":[-1]}}'])
def test_assign_must_name_queues(text: str) -> None:
    with pytest.raises(OptionError, match="option assign"):
        read_options({"namesrv": "h:1", "assign": text})


def test_times_by_topic_and_by_queue() -> None:
    text = '{"T": 5, "S": {"b": {"1": 7}}}'
    position = read_options({**BASE, "startingOffsetsByTimestamp": text}).starting
    times = [position.time_of(Queue(*queue)) for queue in (("T", "b", 0), ("S", "b", 1), ("S", "b", 0))]
    assert times == [5, 7, None]
    spoken = read_options({**BASE, "startingTimestamp": "2026-03-01T01:00:00+01:00"}).starting
    assert spoken == read_options({**BASE, "startingTimestamp": "1772323200000"}).starting


def test_filters_and_columns() -> None:
    options = read_options({**BASE, "tags": "A||B || A", "keys": "k1,k2", "columns": "property.x, *"})
    assert options.filters.tags == ("A", "B")
    assert options.filters.expression == ("TAG", "A || B")
    assert options.filters.keys == ("k1", "k2")
    assert options.columns[:2] == ("property.x", "topic")
    assert read_options({**BASE, "tags": "*"}).filters.at_broker is False
    both = read_options({**BASE, "tags": "A", "sql": "n > 3"}).filters
    assert both.expression == ("SQL92", "n > 3")


def test_a_schema_is_cut_where_its_columns_end() -> None:
    text = "id BIGINT, `a,b` STRING, place STRUCT<city: STRING, at: ARRAY<DECIMAL(3,1)>>, m MAP<STRING,INT>"
    assert ddl_fields(text) == {
        "id": "BIGINT",
        "a,b": "STRING",
        "place": "STRUCT<city: STRING, at: ARRAY<DECIMAL(3,1)>>",
        "m": "MAP<STRING,INT>",
    }


@pytest.mark.parametrize(
    "kind",
    [
        "bigint", "DECIMAL", "decimal( 38 , 10 )", "STRUCT<>", "struct<`a b`: int COMMENT 'x > y', c ARRAY<STRING>>",
        "map<string, array<struct<at: timestamp_ntz>>>", "STRING COLLATE UNICODE", "VARCHAR(10) COMMENT 'a, b'",
        "VARIANT", "INTERVAL DAY TO SECOND", "int DEFAULT 3",
    ],
)  # fmt: skip
def test_types_of_spark_are_passed_on(kind: str) -> None:
    assert ddl_fields(f"x {kind}") == {"x": kind}


def test_avro_types_become_those_of_spark() -> None:
    schema = """{"type": "record", "name": "R", "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": "Kind"},
        {"name": "parts", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "place", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}}]}"""
    body = read_options({**BASE, "body.format": "avro", "body.schema": schema}).body
    assert dict(body.fields) == {
        "id": "bigint",
        "note": "string",
        "at": "timestamp",
        "price": "decimal(9,2)",
        "kind": "string",
        "other": "string",
        "parts": "array<map<string, double>>",
        "place": "struct<`x`: int>",
    }
