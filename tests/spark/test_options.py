"""Options: what is taken, what is refused, and whether the sentence names the option."""

from __future__ import annotations

import pytest

from bolide.spark.errors import OptionError
from bolide.spark.options import read_options, write_options
from bolide.spark.queues import Queue, from_json, parse_offsets, to_json

BASE = {"namesrv": "127.0.0.1:9876;127.0.0.1:9877", "subscribe": "a, b"}


def test_defaults() -> None:
    options = read_options(BASE)
    assert options.namesrv == ("127.0.0.1:9876", "127.0.0.1:9877")
    assert options.topics == ("a", "b")
    assert (options.starting.kind, options.ending.kind) == ("earliest", "latest")
    assert options.fail_on_data_loss
    assert read_options(BASE, streaming=True).starting.kind == "latest"


def test_names_ignore_case_and_topic_and_path_are_other_words_for_subscribe() -> None:
    given = {"NameSrv": "h:1", "TOPIC": "T", "MaxOffsetsPerTrigger": "7"}
    assert read_options(given).topics == ("T",)
    assert read_options(given).max_offsets_per_trigger == 7
    assert read_options({"namesrv": "h:1", "path": "T"}).topics == ("T",)


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"startingOffset": "earliest"}, "startingoffset is unknown"),
        ({"startingOffsets": "first"}, "startingOffsets must be"),
        ({"startingOffsets": '{"a":{"b":{"0":-3}}}'}, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"a":{"b":{"0":true}}}'}, "startingOffsets must be JSON"),
        ({"startingOffsets": "{"}, "startingOffsets is no JSON"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be a whole number"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger must be a whole number"),
        ({"failOnDataLoss": "perhaps"}, "failondataloss must be true or false"),
        ({"accessKey": "a"}, "accessKey and secretKey go together"),
        ({"subscribe": " , "}, "subscribe is empty"),
    ],
)
def test_what_is_refused_is_named(extra: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=f"(?i){text}"):
        read_options({**BASE, **extra})


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="a stream has no end"):
        read_options({**BASE, "endingOffsets": "latest"}, streaming=True)


def test_name_server_and_topic_are_needed() -> None:
    with pytest.raises(OptionError, match="set option namesrv"):
        read_options({"subscribe": "a"})
    with pytest.raises(OptionError, match="set option subscribe"):
        read_options({"namesrv": "h:1"})
    assert write_options({"namesrv": "h:1"}).topic == ""
    assert write_options({"namesrv": "h:1", "topic": "T"}).topic == "T"


def test_offsets_survive_their_json() -> None:
    offsets = {Queue("T", "b", 10): 4, Queue("T", "b", 2): -1, Queue("S", "a", 0): -2}
    assert from_json(to_json(offsets), "test") == offsets
    assert parse_offsets('{"T":{"b":{"10":4,"2":-1}},"S":{"a":{"0":-2}}}', "test") == offsets
    assert list(to_json(offsets)) == ["S", "T"], "sorted, since Spark compares the text"
