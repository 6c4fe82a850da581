"""The table of committed offsets: what is stored, reset, copied, forgotten, and what its file looks like."""

from __future__ import annotations

import json

import pytest

from bolide.broker.core.effects import Effects
from bolide.broker.core.role import SLAVE, SYNC_MASTER, Role
from bolide.broker.refused import Refused
from bolide.broker.tables.consumer_offsets import PERSIST_INTERVAL_MS, ConsumerOffsets

CLIENT = "10.0.0.1:5000"


def table() -> tuple[ConsumerOffsets, Effects]:
    effects = Effects()
    return ConsumerOffsets(effects), effects


def test_offsets_go_forward_and_back() -> None:
    offsets, _ = table()
    assert offsets.query("g", "T", 0) == -1
    offsets.commit("g", "T", 0, 12, 1)
    offsets.commit("g", "T", 0, 7, 2)
    assert offsets.query("g", "T", 0) == 7
    assert offsets.query("h", "T", 0) == -1


def test_a_reset_is_handed_out_once_and_counts_at_once() -> None:
    offsets, effects = table()
    offsets.commit("g", "T", 0, 12, 1)
    offsets.assign_reset("g", "T", 0, 3, 2)
    assert effects.releases == [("T", 0)]
    assert offsets.query("g", "T", 0) == 3
    assert offsets.has_reset("g", "T", 0)
    assert offsets.take_reset("g", "T", 1) == -1
    assert offsets.take_reset("g", "T", 0) == 3
    assert offsets.take_reset("g", "T", 0) == -1
    assert offsets.query("g", "T", 0) == 3


def test_the_file_is_written_at_most_every_five_seconds() -> None:
    offsets, effects = table()
    assert offsets.due(0) is None
    offsets.commit("g", "T", 0, 1, 100)
    assert offsets.due(100) == 100 + PERSIST_INTERVAL_MS
    offsets.tick(100 + PERSIST_INTERVAL_MS, 1)
    assert effects.persists == {"consumerOffset"}
    assert offsets.due(100 + PERSIST_INTERVAL_MS) is None
    offsets.commit("g", "T", 0, 1, 9_000)
    assert offsets.due(9_000) is None, "the same offset again is no change"


def test_encoded_offsets_load_unchanged() -> None:
    offsets, _ = table()
    offsets.commit("g", "T", 0, 12, 1)
    offsets.commit("g%x", "%RETRY%g", 3, 2**62, 1)
    written = json.loads(offsets.encode())
    assert written["offsetTable"] == {"T@g": {"0": 12}, "%RETRY%g@g%x": {"3": 2**62}}
    again, _ = table()
    again.load(offsets.encode())
    assert again.encode() == offsets.encode()


def test_javas_unquoted_queue_ids_are_read() -> None:
    offsets, _ = table()
    offsets.load(b'{\n\t"dataVersion":{"counter":3,"timestamp":9},\n\t"offsetTable":{"T@g":{0:12,1:7\n\t\t}\n\t}\n}')
    assert (offsets.query("g", "T", 0), offsets.query("g", "T", 1)) == (12, 7)


@pytest.mark.parametrize("content", [b"[]", b'{"offsetTable":{"T@g":[1]}}'])
def test_a_file_of_another_shape_is_refused(content: bytes) -> None:
    offsets, _ = table()
    with pytest.raises(ValueError, match=r"consumerOffset\.json"):
        offsets.load(content)


def test_groups_and_topics_are_found_copied_and_forgotten() -> None:
    offsets, _ = table()
    offsets.commit("g", "T", 0, 1, 1)
    offsets.commit("g", "U", 0, 2, 1)
    offsets.commit("h", "T", 0, 3, 1)
    assert sorted(offsets.topics_of("g")) == ["T", "U"]
    assert sorted(offsets.groups_of("T")) == ["g", "h"]
    offsets.clone("g", "k", "T", 2)
    offsets.commit("g", "T", 0, 9, 3)
    assert offsets.query("k", "T", 0) == 1
    offsets.remove_group("g", 4)
    assert offsets.topics_of("g") == []
    offsets.remove_topic("T", 4)
    assert offsets.groups_of("T") == []


def test_clone_replaces_a_pending_reset() -> None:
    offsets, _ = table()
    offsets.commit("g", "T", 0, 5, 1)
    offsets.assign_reset("k", "T", 0, 2, 1)
    offsets.clone("g", "k", "T", 2)
    assert offsets.query("k", "T", 0) == 5
    assert not offsets.has_reset("k", "T", 0)


def test_the_setting_says_how_often_they_are_written() -> None:
    offsets = ConsumerOffsets(Effects(), persist_interval_ms=700)
    offsets.commit("g", "T", 0, 1, 100)
    assert offsets.due(100) == 800


def test_pulls_are_remembered_apart() -> None:
    offsets, _ = table()
    offsets.note_pull("g", "T", 0, 40)
    assert offsets.pulled("g", "T", 0) == 40
    assert offsets.query("g", "T", 0) == -1


def test_changes_by_an_operator_are_persisted_immediately() -> None:
    offsets, effects = table()
    offsets.commit("g", "T", 0, 12, 1)
    assert not effects.persists
    for change in (
        lambda: offsets.assign_reset("g", "T", 0, 3, 2),
        lambda: offsets.clone("g", "h", "T", 2),
        lambda: offsets.remove_group("h", 2),
        lambda: offsets.remove_topic("T", 2),
    ):
        effects.persists.clear()
        change()
        assert effects.persists == {"consumerOffset"}


def test_a_write_encodes_what_changed_since_the_last() -> None:
    offsets, _ = table()
    for group in range(300):
        offsets.commit(f"g{group}", "T", 0, group, 1)
    offsets.note_pull("only-pulls", "T", 0, 4)
    offsets.begin()
    assert not offsets.step(100) and not offsets.step(100)
    offsets.commit("late", "T", 0, 1, 2)
    assert offsets.step(100) and len(json.loads(offsets.text().join())["offsetTable"]) == 300
    offsets.begin()
    assert offsets.step(1)
    assert json.loads(offsets.text().join()) == json.loads(offsets.encode())
    offsets.remove_topic("T", 3)
    stored = json.loads(offsets.encode())
    assert stored["offsetTable"] == stored["pullOffsetTable"] == {}


def test_offsets_beyond_the_end_of_their_queue_are_taken_back() -> None:
    offsets, effects = table()
    for group, topic, queue_id, offset in (
        ("g", "T", 0, 9),
        ("g", "T", 1, 5),
        ("g", "gone", 0, 3),
        ("g", "new", 0, 0),
        ("CID_RMQ_SYS_TRANS", "T", 0, 9),
    ):
        offsets.commit(group, topic, queue_id, offset, 1)
    effects.take()
    assert offsets.cut(lambda topic, _: 5 if topic == "T" else 0, 2) == 2
    assert [offsets.query("g", "T", 0), offsets.query("g", "T", 1), offsets.query("g", "gone", 0)] == [5, 5, 0]
    assert offsets.query("CID_RMQ_SYS_TRANS", "T", 0) == 9, "its owner looks at it"
    assert offsets.cut(lambda topic, _: 5 if topic == "T" else 0, 3) == 0
    assert json.loads(offsets.encode())["offsetTable"]["T@g"] == {"0": 5, "1": 5}


def test_commits_of_lost_messages_are_clamped_at_a_master() -> None:
    """Clients still hold positions in a log that was lost. Until a pull corrects them, they commit these."""
    offsets, effects = table()
    offsets.commit("g", "T", 0, 9, 1, CLIENT)
    assert offsets.query("g", "T", 0) == 9, "no message was lost"
    assert offsets.cut(lambda topic, queue_id: 5, 2) == 1
    offsets.commit("g", "T", 0, 9, 3, CLIENT)
    offsets.commit("g", "T", 1, 9, 3)
    assert offsets.queues("g", "T") == {0: 5, 1: 9}, "the broker's own progress is not a client's"
    offsets.commit("g", "T", 0, 4, 4, CLIENT)
    assert offsets.query("g", "T", 0) == 4
    offsets.role_changed(Role(SLAVE, 1), 5)
    offsets.commit("g", "T", 0, 9, 6, CLIENT)
    assert offsets.query("g", "T", 0) == 9, "the log of a slave may lag"
    effects.take()
    offsets.role_changed(Role(SYNC_MASTER), 7)
    assert offsets.queues("g", "T") == {0: 5, 1: 5}
    assert effects.persists == {"consumerOffset"}


def test_a_pending_reset_does_not_lead_beyond_the_end_of_its_queue() -> None:
    offsets, _ = table()
    offsets.assign_reset("g", "T", 0, 9, 1)
    offsets.cut(lambda topic, queue_id: 5, 2)
    assert offsets.take_reset("g", "T", 0) == offsets.query("g", "T", 0) == 5


def test_a_slave_drops_a_reset_of_a_group_that_continued_on_the_master() -> None:
    offsets = ConsumerOffsets(Effects(), following=True)
    offsets.assign_reset("g", "T", 0, 3, 1)
    offsets.follow({"T@g": {0: 3}}, lambda topic, queue_id: 30)
    assert offsets.has_reset("g", "T", 0), "the group has not consumed anything since"
    offsets.follow({"T@g": {0: 20}}, lambda topic, queue_id: 30)
    assert offsets.query("g", "T", 0) == 20
    assert offsets.take_reset("g", "T", 0) == -1


def test_the_file_of_a_slave_is_recognized() -> None:
    slave = ConsumerOffsets(Effects(), following=True)
    slave.commit("g", "T", 0, 9, 1)
    assert json.loads(slave.encode())["bolideSlave"] is True
    assert "bolideSlave" not in json.loads(slave.answer())
    offsets, _ = table()
    offsets.load(slave.encode())
    assert offsets.from_slave
    again, _ = table()
    again.load(offsets.encode())
    assert not again.from_slave
    assert again.query("g", "T", 0) == 9


def test_total_of_offsets_is_limited() -> None:
    offsets = ConsumerOffsets(Effects(), most=4)
    assert offsets.commit("g", "T", 0, 1, 1) and offsets.commit("g", "T", 1, 1, 1)
    offsets.note_pull("g", "T", 0, 9)
    offsets.note_pull("g", "T", 0, 10)
    assert offsets.count == 3
    with pytest.raises(Refused, match="maxConsumerOffsets is 4"):
        offsets.clone("g", "h", "T", 2)
    offsets.assign_reset("h", "T", 0, 1, 2)
    with pytest.raises(Refused, match="maxConsumerOffsets is 4"):
        offsets.assign_reset("h", "T", 1, 1, 2)
    assert not offsets.has_reset("h", "T", 1)
    offsets.note_pull("h", "T", 0, 1)
    assert (
        not offsets.commit("i", "T", 0, 1, 3) and offsets.queues("i", "T") == {} and offsets.pulled("h", "T", 0) == -1
    )
    assert offsets.commit("g", "T", 0, 5, 3) and offsets.commit("CID_RMQ_SYS_TRANS", "T", 0, 5, 3)
    again = ConsumerOffsets(Effects())
    again.load(offsets.encode())
    assert again.count == offsets.count == 5
    for each in (offsets, again):
        each.remove_group("g", 4)
        assert each.count == 2
    offsets.clone("h", "h2", "T", 5)
    assert offsets.count == 3 and offsets.commit("j", "T", 0, 1, 5) and not offsets.commit("j", "T", 1, 1, 5)


def test_a_master_takes_back_what_was_consumed_at_a_slave() -> None:
    offsets, effects = table()
    offsets.commit("g", "T", 0, 5, 1)
    offsets.commit("g", "T", 1, 9, 1)
    told = json.loads(offsets.answer())["dataVersion"]
    version = {**told, "counter": told["counter"] + 3}
    effects.take()
    consumed = {"T@g": {0: 8, 1: 7, 2: 4}, "U@h": {0: 2}, "T@CID_RMQ_SYS_TRANS": {0: 6}}
    offsets.take_back(consumed, version, lambda topic, queue_id: 8 if topic == "T" and queue_id == 0 else 3, 2)
    assert offsets.queues("g", "T") == {0: 8, 1: 9}, "forward only, and no further than the queue"
    assert offsets.query("h", "U", 0) == 2
    assert offsets.query("CID_RMQ_SYS_TRANS", "T", 0) == -1, "the broker's own offsets are a master's"
    assert "consumerOffset" in effects.take().persists
    assert json.loads(offsets.answer())["dataVersion"] == version


def test_an_older_copy_is_not_taken_back() -> None:
    offsets, _ = table()
    offsets.commit("g", "T", 0, 50, 1)
    old = json.loads(offsets.answer())["dataVersion"]
    offsets.assign_reset("g", "T", 0, 3, 2)
    again, _ = table()
    again.load(offsets.encode())
    again.take_back({"T@g": {0: 50}}, old, lambda topic, queue_id: 100, 3)
    assert again.query("g", "T", 0) == 3
