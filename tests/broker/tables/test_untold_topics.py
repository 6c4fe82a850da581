"""Topics that a slave knows by their messages only."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.core.role import ASYNC_MASTER, SLAVE
from bolide.broker.tables.topic_config import TopicConfig
from bolide.broker.tables.untold_topics import LOOK_MS, UntoldTopics
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties
from bolide.layout.permissions import PERM_READ_WRITE
from tests.broker.parts import NOW, PEER, STORE, Parts

VERSION = {"counter": 7, "stateVersion": 1, "timestamp": 99}


class Followers(Parts):
    """The parts of a broker, with messages of topics that its table does not have."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.untold = UntoldTopics(self.store, self.topics, self.role, self.effects, logging.getLogger("test"))

    def has(self, topic: str, queue_id: int = 0) -> None:
        """A record of this topic came with the log."""
        message = BrokerMessage(topic, topic.encode(), queue_id, b"", MessageProperties(""), NOW, PEER)
        message.store_host = STORE
        self.store.append(message, NOW)
        self.settle()

    def look(self, now: int = NOW) -> None:
        due = self.untold.due(now)
        assert due is not None and due <= now
        self.untold.tick(now, 100)


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[Followers]:
    made = Followers(tmp_path, broker_role=SLAVE, broker_id=1)
    made.effects.take()
    yield made
    made.close()


def test_a_slave_makes_a_topic_of_the_queues_that_it_has(slave: Followers) -> None:
    before = slave.topics.data_version.to_json()
    slave.has("T", queue_id=2)
    slave.look()
    made = slave.topics.table["T"]
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, PERM_READ_WRITE)
    assert slave.topics.data_version.to_json() != before, "the master is asked for its topics once more"
    taken = slave.effects.take()
    assert {"topics", "followedTopics"} <= taken.persists and "T" in taken.registrations
    slave.topics.mark_ordered(["T"], NOW)
    slave.has("T", queue_id=5)
    slave.look(NOW + LOOK_MS)
    assert slave.topics.table["T"].read_queue_nums == 6
    assert slave.topics.is_order_topic("T"), "name servers say so"


def test_topic_of_the_master_is_not_inferred(slave: Followers) -> None:
    slave.has("T", queue_id=2)
    slave.look()
    slave.topics.follow([TopicConfig("T", 1, 1, 4)])
    slave.topics.followed({"T"}, VERSION, {"T"})
    slave.look(NOW + LOOK_MS)
    told = slave.topics.table["T"]
    assert (told.read_queue_nums, told.perm) == (1, 4)
    assert not slave.topics.untold and slave.topics.data_version.to_json() == VERSION


def test_a_guess_grows_with_the_messages_also_after_a_restart_as_master(slave: Followers, tmp_path: Path) -> None:
    slave.has("T", queue_id=1)
    slave.look()
    again = Followers(tmp_path / "again")
    again.topics.load(slave.topics.encode())
    again.untold.load(slave.untold.encode())
    again.has("T", queue_id=3)
    again.look()
    assert again.topics.table["T"].read_queue_nums == 4
    assert json.loads(again.topics.encode())["guessedTopics"] == {"T": 4}
    again.topics.put(TopicConfig("T", 2, 2), NOW)
    again.look(NOW + LOOK_MS)
    assert again.topics.table["T"].read_queue_nums == 2, "an operator set it"
    assert b"guessedTopics" not in again.topics.encode(), "RocketMQ has no such member"
    again.close()


@pytest.mark.parametrize("member", ["7", "true", "null", "[[]]", '["T"]'])
def test_guesses_that_cannot_be_read_are_none(slave: Followers, member: str) -> None:
    slave.topics.load(b'{"topicConfigTable":{"T":{"topicName":"T"}},"guessedTopics":%b}' % member.encode())
    assert "T" in slave.topics.table and not slave.topics.guessed


def test_a_write_that_began_before_a_guess_or_its_end_tells_of_it(slave: Followers) -> None:
    def guessed() -> dict[str, int]:
        while not slave.topics.step(1):
            pass
        found: dict[str, int] = json.loads(slave.topics.text().join()).get("guessedTopics", {})
        return found

    slave.topics.begin()
    slave.has("T", queue_id=1)
    slave.look()
    assert guessed() == {"T": 2}
    slave.topics.begin()
    slave.topics.put(TopicConfig("T", 3, 3), NOW)
    assert guessed() == {"T": 3}
    slave.topics.begin()
    assert guessed() == {}


def test_topic_inferred_by_the_master_grows_on_slave(slave: Followers) -> None:
    slave.topics.follow([TopicConfig("T", 1, 1), TopicConfig("U", 1, 1)], {"T": 1})
    slave.topics.followed({"T", "U"}, VERSION, ())
    for topic in ("T", "U"):
        slave.has(topic, queue_id=2)
    slave.look()
    assert [slave.topics.table[topic].read_queue_nums for topic in ("T", "U")] == [3, 1]
    slave.topics.follow([TopicConfig("T", 8, 8)])
    assert slave.topics.guessed == set()


def test_a_late_message_of_a_topic_that_the_master_does_not_have_makes_none(slave: Followers) -> None:
    slave.has("T")
    slave.look()
    end = int(slave.store.end_offset)
    slave.topics.forget("T", end)
    slave.look(NOW + LOOK_MS)
    assert "T" not in slave.topics.table
    slave.has("T")
    slave.look(NOW + 2 * LOOK_MS)
    assert "T" in slave.topics.table, "this may be of its next life"
    assert slave.topics.denied == {}


def test_a_topic_that_the_master_does_not_have_is_gone(slave: Followers) -> None:
    slave.has("T")
    slave.look()
    assert slave.topics.followed(set(), VERSION, set(slave.topics.table)) == ["T"]
    assert not slave.topics.untold


def test_light_queues_and_the_brokers_own_topics_are_no_topics(slave: Followers) -> None:
    slave.has("%LMQ%a")
    slave.has("rmq_sys_of_its_own")
    slave.look()
    assert {"%LMQ%a", "rmq_sys_of_its_own"}.isdisjoint(slave.topics.table)


def test_topic_beyond_the_limit_is_skipped_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slave = Followers(tmp_path, broker_role=SLAVE, broker_id=1, max_topics=1)
    slave.has("T")
    for second in range(2):
        slave.look(NOW + second * LOOK_MS)
    assert "T" not in slave.topics.table
    assert [line.message for line in caplog.records] == ["topic T has messages, but exceeds the limit: raise maxTopics"]
    slave.topics.table["T"] = TopicConfig("T", 1, 1)  # the limit was raised, and the master tells what it guessed
    slave.topics.guessed.add("T")
    slave.has("T", queue_id=4)
    slave.look(NOW + 2 * LOOK_MS)
    assert slave.topics.table["T"].read_queue_nums == 5
    slave.close()


def test_a_slave_that_becomes_master_keeps_them_and_has_looked_once_they_are_on_disk(slave: Followers) -> None:
    slave.look()
    slave.has("T")
    slave.role.become(ASYNC_MASTER, 0, NOW)
    slave.untold.role_changed(slave.role, NOW)
    assert "T" in slave.topics.table
    assert slave.untold.encode() == b'{"following":true}', "a crash now has the next start look once more"
    slave.topics.begin()
    slave.topics.written()
    slave.look(NOW + LOOK_MS)
    assert slave.untold.encode() == b'{"following":false}'


def test_a_master_that_was_a_slave_makes_the_topic_of_a_message_that_is_delivered_late(slave: Followers) -> None:
    promoted(slave)
    slave.has("T", queue_id=2)  # as a delayed message of a topic of which nothing else came
    slave.look(NOW + 2 * LOOK_MS)
    assert slave.topics.table["T"].read_queue_nums == 3


@pytest.mark.parametrize("had_messages", [True, False])
def test_a_late_message_does_not_bring_a_deleted_topic_back(slave: Followers, had_messages: bool) -> None:
    slave.has("T" if had_messages else "Other")
    promoted(slave)
    slave.topics.delete("T", NOW)
    slave.store.delete_topic("T")
    slave.has("T")
    slave.look(NOW + 2 * LOOK_MS)
    assert "T" not in slave.topics.table


def promoted(slave: Followers) -> None:
    """It has looked through its queues as master, and its topics are on disk."""
    slave.look()
    slave.role.become(ASYNC_MASTER, 0, NOW)
    slave.untold.role_changed(slave.role, NOW)
    slave.topics.begin()
    slave.topics.written()
    slave.untold.tick(NOW + LOOK_MS, 0)
    assert slave.untold.encode() == b'{"following":false}'


def test_a_broker_that_always_was_a_master_looks_for_none(tmp_path: Path) -> None:
    master = Followers(tmp_path)
    master.has("T")
    assert master.untold.due(NOW) is None and master.untold.encode() == b""
    master.untold.tick(NOW, 0)
    assert "T" not in master.topics.table
    master.untold.load(b'{"following":true}')
    master.untold.tick(NOW, 0)
    assert "T" in master.topics.table
    master.close()
