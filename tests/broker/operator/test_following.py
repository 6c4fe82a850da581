"""A slave's tables become its master's: what the master lacks goes, what it does not decide stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.delay.followed_timer import FollowedTimer
from bolide.broker.operator.following import ROWS_AT_ONCE
from bolide.broker.tables.topic_config import TopicConfig
from bolide.layout.names import FIRST_GROUPS
from bolide.layout.timer_checkpoint import TimerCheckpoint, decode_timer_answer
from bolide.remoting.json import parse_long
from tests.broker.operator.followers import VERSION, Followers
from tests.broker.parts import NOW


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Followers]:
    made = Followers(tmp_path)
    made.effects.take()
    yield made
    made.close()


def test_topics_are_the_masters_and_its_own_ones_stay(parts: Followers) -> None:
    parts.topics.put(TopicConfig("gone"), NOW)
    parts.topics.put(TopicConfig("T", 4, 4), NOW)
    parts.effects.take()
    rows = {"T": {"topicName": "T", "readQueueNums": 2, "writeQueueNums": 1, "perm": 4}, "new": {}}
    known = set(parts.topics.table)
    parts.topics.put(TopicConfig("fresh"), NOW)
    parts.effects.take()
    list(parts.following.take_topics(rows, VERSION, known))
    table = parts.topics.table
    assert (table["T"].read_queue_nums, table["T"].write_queue_nums, table["T"].perm) == (2, 1, 4)
    assert {"new", "fresh", "SELF_TEST_TOPIC"} <= table.keys() and "gone" not in table
    assert parts.dropped == ["gone"]
    assert parts.topics.data_version.to_json() == VERSION
    taken = parts.effects.take()
    assert (taken.persists, taken.registrations) == ({"topics"}, {""})
    written = json.loads(parts.topics.encode())
    assert written["dataVersion"] == VERSION and {"T", "new"} <= written["topicConfigTable"].keys()


def test_a_long_table_is_taken_in_steps(parts: Followers) -> None:
    rows = {f"T{number}": {} for number in range(3 * ROWS_AT_ONCE)}
    steps = parts.following.take_topics(rows, VERSION, set())
    next(steps)
    assert "T0" in parts.topics.table and f"T{ROWS_AT_ONCE}" not in parts.topics.table
    assert parts.topics.data_version.to_json() != VERSION, "a crash here has the table asked for once more"
    assert len(list(steps)) == 2
    assert parts.topics.data_version.to_json() == VERSION


def test_groups_are_the_masters(parts: Followers) -> None:
    parts.groups.find("gone", NOW)
    parts.groups.forbid_read("g", "T", True, NOW)
    parts.effects.take()
    rows = {"g": {"groupName": "g", "retryMaxTimes": 3}}
    list(parts.following.take_groups(rows, {"h": {"T": 4}}, VERSION))
    assert parts.groups.table.keys() == {"g", *FIRST_GROUPS}
    assert parts.groups.table["g"].retry_max_times == 3
    assert parts.groups.may_read("g", "T") and not parts.groups.may_read("h", "T")
    assert parts.groups.data_version.to_json() == VERSION
    assert parts.effects.take().persists == {"subscriptionGroup"}
    list(parts.following.take_groups(rows, None, VERSION))  # 4.9 knows nothing of it
    assert not parts.groups.may_read("h", "T")


def test_rows_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    parts = Followers(tmp_path, max_topics=20, max_groups=len(FIRST_GROUPS) + 1)
    room = 20 - len(parts.topics.table)
    list(parts.following.take_topics({f"T{number}": {} for number in range(room + 3)}, VERSION, set()))
    assert parts.following.left_out == 3
    list(parts.following.take_groups({"a": {}, "b": {}}, None, VERSION))
    assert parts.following.left_out == 1
    parts.close()


def test_offsets_of_a_group_are_replaced_and_unknown_groups_stay(parts: Followers) -> None:
    """As Java's putAll: the queues of a group in a topic are taken as a whole."""
    parts.take_offsets({"T@g": {0: 5, 1: 6}, "T@old": {0: 1}})
    parts.take_offsets({"T@g": {0: 4}})
    assert parts.offsets.queues("g", "T") == {0: 4}
    assert parts.committed("old") == 1
    assert parts.effects.take().persists == {"consumerOffset"}
    written = parse_long(parts.offsets.encode())
    assert written["dataVersion"]["counter"] == 7 and written["offsetTable"]["T@g"] == {"0": 4}
    assert parts.offsets.count == 2
    parts.offsets.remove_group("old", NOW)
    parts.offsets.remove_group("g", NOW)
    assert parts.offsets.count == 0 and not parts.offsets.has_group("g")


def test_offsets_committed_without_master_survive_its_return(parts: Followers) -> None:
    parts.take_offsets({"T@g": {0: 5, 1: 5}})
    parts.offsets.commit("g", "T", 0, 9, NOW)
    parts.offsets.commit("new", "T", 0, 3, NOW)
    parts.take_offsets({"T@g": {0: 5, 1: 6}})  # it is back, with what it knew
    assert parts.offsets.queues("g", "T") == {0: 9, 1: 6}
    assert parts.committed("new") == 3
    parts.take_offsets({"T@g": {0: 7, 1: 7}})  # consumers commit to it again, from where they were
    assert parts.offsets.queues("g", "T") == {0: 9, 1: 7}
    parts.take_offsets({"T@g": {0: 10, 1: 7}})
    parts.take_offsets({"T@g": {0: 2, 1: 7}})  # an operator reset it
    assert parts.offsets.queues("g", "T") == {0: 2, 1: 7}


def test_a_group_that_its_master_sets_back_meanwhile_goes_back(parts: Followers) -> None:
    parts.take_offsets({"T@g": {0: 5}})
    parts.offsets.commit("g", "T", 0, 9, NOW)
    parts.take_offsets({"T@g": {0: 4}})
    assert parts.committed("g") == 4


def test_an_offset_beyond_the_end_of_its_queue_does_not_survive_the_return_of_a_master(parts: Followers) -> None:
    """Only the log of a removed master had the messages."""
    parts.take_offsets({"T@g": {0: 5, 1: 5}})
    parts.offsets.commit("g", "T", 0, 9, NOW)
    parts.offsets.commit("g", "T", 1, 8, NOW)
    parts.ends = {("T", 0): 8, ("T", 1): 8}
    parts.take_offsets({"T@g": {0: 5, 1: 5}})
    assert parts.offsets.queues("g", "T") == {0: 5, 1: 8}


def test_offsets_beyond_the_limit_are_left_out(tmp_path: Path) -> None:
    parts = Followers(tmp_path)
    parts.offsets.configure(parts.options.of(max_consumer_offsets=2))
    parts.take_offsets({"T@g": {0: 5, 1: 5}, "T@h": {0: 1}, "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 1}})
    assert (parts.following.left_out, parts.offsets.count) == (1, 3)
    parts.close()


def test_progress_of_delays_is_the_masters(parts: Followers) -> None:
    parts.following.take_delays(b'{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":5},"offsetTable":{1:8}}')
    assert parse_long(parts.delay.encode())["offsetTable"] == {"1": 8}
    assert parts.effects.take().persists == {"delayOffset"}
    assert parts.delay.due(NOW) is None


def test_request_modes_are_the_masters(parts: Followers) -> None:
    mode = {"T": {"g": {"topic": "T", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2}}}
    for _ in range(2):
        parts.following.take_modes(json.dumps({"messageRequestModeMap": mode}).encode())
    assert json.loads(parts.assignments.encode())["messageRequestModeMap"] == mode
    assert parts.effects.take().persists == {"messageRequestMode"}
    parts.following.take_modes(b'{"messageRequestModeMap":{}}')
    assert json.loads(parts.assignments.encode())["messageRequestModeMap"] == {}


def test_timer_figures_of_the_master_are_stored(parts: Followers) -> None:
    answer = {"timingCount": {"T": {"count": 3, "timeStamp": 5}}, "dataVersion": VERSION}
    parts.following.take_figures(answer)
    assert json.loads(parts.figures.encode()) == answer


def test_progress_of_the_timer_is_kept_for_the_day_this_broker_is_master(parts: Followers) -> None:
    assert parts.timer.encode() == b""
    parts.following.take_timer(TimerCheckpoint(read_time=50, queue_offset=0))
    assert not parts.timer.known, "a master without such messages"
    parts.following.take_timer(TimerCheckpoint(read_time=50, queue_offset=4))
    assert parts.effects.take().persists == {"followedTimer"}
    again = FollowedTimer(parts.effects)
    again.load(parts.timer.encode())
    assert (again.known, again.read_time, again.queue_offset) == (True, 50, 4)
    again.clear()
    empty = FollowedTimer(parts.effects)
    empty.load(again.encode())
    assert not empty.known


def test_answers_about_the_timer_s_progress() -> None:
    """Captured from 5.5.0; an older one has no version."""
    captured = bytes.fromhex("000001a202008430" + "0" * 64 + "000001a202008614" + "000000000000003f")
    told = decode_timer_answer(captured)
    assert told == TimerCheckpoint(0x1A202008430, 0, 0, 0, 0x1A202008614, 0x3F)
    assert decode_timer_answer(captured[:32]) == TimerCheckpoint(0x1A202008430)
    assert decode_timer_answer(b"") is None


def test_offsets_of_a_deleted_topic_are_dropped_before_copying(parts: Followers) -> None:
    parts.offsets.commit("gone", "T", 0, 9, NOW)
    parts.offsets.commit("stays", "T", 0, 9, NOW)
    parts.following.before_offsets.append(lambda: parts.offsets.remove_topic("T", NOW))
    parts.take_offsets({"T@stays": {0: 1}})
    assert (parts.committed("gone"), parts.committed("stays")) == (-1, 1)
