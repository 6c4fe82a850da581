"""The topic table: system topics, creation, and a file that Java's broker writes and reads too."""

from __future__ import annotations

import msgspec
import pytest

from bolide.broker.core.effects import Effects
from bolide.broker.core.rows import Text
from bolide.broker.core.service import Table
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topic_config import TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.remoting.json import MAX_TEXT


def table(**settings: bool) -> TopicTable:
    return TopicTable(BrokerOptions.of(**settings), Effects(), 1)


def test_system_topics_are_there_from_the_start() -> None:
    made = table()
    template = made.get("TBW102")
    assert template is not None and (template.write_queue_nums, template.perm) == (8, 7)
    expected = {
        "SELF_TEST_TOPIC": 1,
        "BenchmarkTest": 1024,
        "DefaultCluster": 16,
        "broker-a": 1,
        "OFFSET_MOVED_EVENT": 1,
        "SCHEDULE_TOPIC_XXXX": 18,
        "DefaultCluster_REPLY_TOPIC": 1,
        "RMQ_SYS_TRANS_HALF_TOPIC": 1,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1,
    }
    assert {name: made.table[name].read_queue_nums for name in expected} == expected
    assert table(auto_create_topic_enable=False).get("TBW102") is None


def test_a_change_is_written_registered_and_counted() -> None:
    effects = Effects()
    made = TopicTable(BrokerOptions(), effects, 1)
    made.put(TopicConfig("T", 2, 3), 50)
    assert (made.data_version.counter, made.data_version.timestamp) == (1, 50)
    assert effects.persists == {"topics"} and effects.registrations == {"T"}
    assert made.delete("T", 60) and not made.delete("T", 60)
    assert effects.registrations == {"T", ""}


def test_the_file_is_read_back_and_keeps_javas_names() -> None:
    made = table()
    made.put(TopicConfig("T", 2, 3, 4, order=True, attributes={"a": "b"}), 50)
    stored = msgspec.json.decode(made.encode())
    assert stored["topicConfigTable"]["T"] == {
        "attributes": {"a": "b"},
        "order": True,
        "perm": 4,
        "readQueueNums": 2,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "T",
        "topicSysFlag": 0,
        "writeQueueNums": 3,
    }
    other = table()
    other.load(made.encode())
    assert other.table["T"].to_json() == made.table["T"].to_json()
    assert other.data_version.to_json() == {"counter": 1, "stateVersion": 0, "timestamp": 50}


def test_a_file_of_javas_is_read() -> None:
    text = b"""{
\t"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1700000000000},
\t"topicConfigTable":{"Old":{"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"MULTI_TAG",
\t\t"topicName":"Old","topicSysFlag":0,"writeQueueNums":8}}}"""
    made = table()
    made.load(text)
    old = made.table["Old"]
    assert (old.topic_filter_type, old.attributes, made.data_version.counter) == ("MULTI_TAG", {}, 7)


def test_a_template_without_the_inherit_bit_creates_nothing() -> None:
    made = table()
    made.put(TopicConfig("Template", 8, 8, 6), 1)
    assert made.create_on_send("New", "Template", 4, 0, 1) is None
    made.put(TopicConfig("Template", 8, 2, 7), 1)
    new = made.create_on_send("New", "Template", 4, 0, 1)
    assert new is not None and (new.read_queue_nums, new.perm) == (2, 6)


def test_a_file_longer_than_a_peer_may_send_is_read_back() -> None:
    made = table()
    for number in range(8_000):
        made.table[f"topic-{number}"] = TopicConfig(f"topic-{number}", number % 9, 4)
    text = made.encode()
    assert len(text) > MAX_TEXT
    other = table()
    other.load(text)
    assert {name: config.to_json() for name, config in other.table.items()} == {
        name: config.to_json() for name, config in made.table.items()
    }


def test_a_file_that_cannot_be_read_changes_nothing() -> None:
    made = table()
    before = set(made.table)
    with pytest.raises((AttributeError, TypeError)):  # compiled code refuses the list where it is handed over
        made.load(b'{"topicConfigTable":{"A":{},"B":[]}}')
    assert set(made.table) == before


def test_a_new_topic_is_waited_for_until_the_file_has_it() -> None:
    effects = Effects()
    made = TopicTable(BrokerOptions(), effects, 1)
    topic = made.create_on_send("New", "TBW102", 4, 0, 2)
    assert topic is not None and not topic.plain and not topic.saved
    retry = made.find_or_create("%RETRY%g", 1, 6, 0, False, 2)
    made.begin()
    late = made.create_on_send("Late", "TBW102", 4, 0, 3)
    assert late is not None
    made.put(TopicConfig("Again", 4, 4), 3)
    for name in ("New", "%RETRY%g"):
        effects.persists.clear()
        made.find_or_create(name, 1, 6, 0, False, 4)
        made.create_on_send(name, "TBW102", 4, 0, 4)
        assert effects.persists == {"topics"}  # other sends to it also wait meanwhile
    made.written()
    assert topic.plain and topic.saved and retry.saved and not late.saved
    effects.persists.clear()
    assert made.find_or_create("%RETRY%g", 1, 6, 0, False, 4) is retry and not effects.persists


def test_a_topic_made_again_or_given_more_queues_is_waited_for_again() -> None:
    made = table()
    made.put(TopicConfig("T", 4, 4), 2)
    made.begin()
    made.delete("T", 3)
    again = TopicConfig("T", 4, 4)
    made.put(again, 4)
    made.written()
    assert not again.saved
    made.begin()
    made.written()
    same, more = TopicConfig("T", 4, 4, perm=4), TopicConfig("T", 8, 4)
    made.put(same, 5)
    assert again.saved and same.saved
    made.put(more, 6)
    assert not more.saved


def test_a_write_that_failed_is_made_up_for_by_the_next() -> None:
    made = table()
    made.put(TopicConfig("A", 4, 4), 2)
    made.begin()
    assert made.step(1000)
    made.put(TopicConfig("B", 4, 4), 3)
    made.begin()
    assert made.step(1000)
    made.written()
    assert made.table["A"].saved and made.table["B"].saved
    stored = msgspec.json.decode(made.text().join())
    assert {"A", "B"} < set(stored["topicConfigTable"]) and stored["dataVersion"]["counter"] == 2


def test_the_file_never_says_a_version_it_does_not_hold() -> None:
    made = table()
    made.begin()
    assert made.step(1000)
    made.put(TopicConfig("T", 4, 4), 2)
    stored = msgspec.json.decode(made.text().join())
    assert "T" not in stored["topicConfigTable"] and stored["dataVersion"]["counter"] == 0


def test_numbers_of_a_file_are_those_that_can_be() -> None:
    made = table()
    wrong = {"readQueueNums": 5_000_000_000, "writeQueueNums": -1, "perm": 99, "topicFilterType": "X"}
    made.load(msgspec.json.encode({"topicConfigTable": {"T": wrong}}))
    found = made.table["T"].to_json()
    assert [found[key] for key in wrong] == [65_536, 0, 7, "SINGLE_TAG"]


def test_a_retry_topic_has_as_many_queues_as_a_topic_may() -> None:
    made = table()
    assert made.find_or_create("%RETRY%g", 5_000_000_000, 6, 0, False, 2).read_queue_nums == 65_536
    assert made.find_or_create("%RETRY%h", -4, 6, 0, False, 2).write_queue_nums == 0


NOW = 1_700_000_000_000
BAD_VERSION = b'"dataVersion":{"counter":1,"timestamp":"x"}}'


@pytest.mark.parametrize(
    ("table", "data"),
    [
        (TopicTable(BrokerOptions(), Effects(), NOW), b'{"topicConfigTable":{"T":{"perm":6}},' + BAD_VERSION),
        (GroupTable(BrokerOptions(), Effects(), NOW), b'{"subscriptionGroupTable":{"g":{}},' + BAD_VERSION),
        (GroupTable(BrokerOptions(), Effects(), NOW), b'{"subscriptionGroupTable":{"g":{}},"bolideMadeByUse":5}'),
        (ConsumerOffsets(Effects()), b'{"offsetTable":{"T@g":{"0":1}},"pullOffsetTable":{"T@g":{"0":"x"}}}'),
        (ConsumerOffsets(Effects()), b'{"offsetTable":{"T@g":{"0":1}},' + BAD_VERSION),
    ],
)
def test_unreadable_file_changes_no_table(table: Table, data: bytes) -> None:
    before = written(table)
    with pytest.raises((ValueError, TypeError)):
        table.load(data)
    assert written(table) == before
    if isinstance(table, ConsumerOffsets):
        assert table.queues("g", "T") == {}


def written(table: Table) -> bytes:
    table.begin()
    table.step(1000)
    text = table.text()
    assert isinstance(text, Text)
    return text.join()
