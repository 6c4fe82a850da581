"""Dead letters: which groups have some, one by its id, and copies that go back."""

from __future__ import annotations

import pytest

from bolide.admin.dead_letters import Resent, copy_of, dead_letter, groups_with_dead_letters, origin_of, resend
from bolide.client import ReceivedMessage
from bolide.client.messages.errors import TopicNotFound
from bolide.layout.names import DLQ_PREFIX
from bolide.remoting.compression import COMPRESSED_FLAG
from bolide.testing.broker import Broker
from tests.admin.buried import bury, numbered, received
from tests.client.patient import Admin, Producer
from tests.layout.records import record_of


async def test_groups_are_listed_by_their_number_of_dead_letters(bolide_broker: Broker) -> None:
    async with Admin(bolide_broker.namesrv_addr) as admin:
        assert await groups_with_dead_letters(admin) == []
        await bury(bolide_broker, "few", *numbered("A", 1))
        letters = await bury(bolide_broker, "many", *numbered("B", 3))
        found = await groups_with_dead_letters(admin)
        assert [(row.group, row.count) for row in found] == [("many", 3), ("few", 1)]
        assert found[0].newest == max(letter.store_timestamp for letter in letters)


async def test_a_dead_letter_is_found_by_both_ids_and_only_in_its_group(bolide_broker: Broker) -> None:
    (mine,) = await bury(bolide_broker, "mine", *numbered("A", 1))
    (other,) = await bury(bolide_broker, "other", *numbered("B", 1))
    async with Admin(bolide_broker.namesrv_addr) as admin:
        for message_id in (mine.offset_message_id, mine.message_id):
            found = await dead_letter(admin, "mine", message_id)
            assert found is not None and found.offset_message_id == mine.offset_message_id
        assert await dead_letter(admin, "mine", other.offset_message_id) is None
        with pytest.raises(TopicNotFound):
            await dead_letter(admin, "nobody", mine.offset_message_id)


async def test_copies_go_back_with_all_that_the_user_set(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("A", queues=1)
    letters = await bury(bolide_broker, "G", *numbered("A", 2))
    resent = Resent()
    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        assert await resend(producer, letters, resent) == 2
    assert (resent.count, resent.error, resent.skipped, resent.interrupted) == (2, "", [], False)
    *_, first, second = await received(bolide_broker, "A", 4)
    assert [copy.body for copy in (first, second)] == [letter.body for letter in letters]
    for copy, letter in zip((first, second), letters, strict=True):
        assert origin_of(letter) == copy.topic == "A"
        assert (copy.tags, copy.keys, copy.sharding_key, copy.flag) == ("T", letter.keys, "s", letter.flag)
        assert copy.properties["colour"] == "red"
        assert copy.message_id != letter.message_id and copy.reconsume_times == 0


async def test_a_run_stops_at_an_error_and_says_how_far_it_came(bolide_broker: Broker) -> None:
    letters = await bury(bolide_broker, "G", *numbered("A", 3))
    resent = Resent()
    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        unknown = ReceivedMessage(record_of(DLQ_PREFIX + "G"), "broker-a")
        assert await resend(producer, [letters[0], unknown, letters[1]], resent) == 1
        assert resent.count == 1 and "do not contain its original topic: choose a topic" in resent.error
        assert not resent.unreachable
        resent = Resent()
        assert await resend(producer, [unknown], resent, topic="elsewhere") == 1
        stopped = iter([False, True])
        resent = Resent()
        assert await resend(producer, letters, resent, stopped=lambda: next(stopped)) == 1
        assert (resent.count, resent.interrupted) == (1, True)


async def test_a_body_that_cannot_be_inflated_is_skipped(bolide_broker: Broker) -> None:
    (letter,) = await bury(bolide_broker, "G", *numbered("A", 1))
    damaged = ReceivedMessage(record_of(DLQ_PREFIX + "G", sys_flag=COMPRESSED_FLAG), "broker-a")
    resent = Resent()
    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        assert await resend(producer, [damaged, letter], resent) == 2
    assert (resent.count, resent.skipped, resent.error) == (1, [damaged.offset_message_id], "")


def test_a_copy_has_no_property_of_rocketmq() -> None:
    record = record_of("A", properties=b"colour\x01red\x02UNIQ_KEY\x01ID\x02RECONSUME_TIME\x0116\x02")
    copy = copy_of(ReceivedMessage(record, "broker-a"), "B")
    assert (copy.topic, dict(copy.properties)) == ("B", {"colour": "red"})
