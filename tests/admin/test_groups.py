"""Calls on groups, against a broker of our own."""

from __future__ import annotations

import pytest

from bolide.admin.drain import left_at
from bolide.admin.groups import _age_of
from bolide.client import ClientStateError, Message, ResponseError
from bolide.remoting import codes
from bolide.remoting.bodies.stats import QueueTimeSpan
from bolide.testing.broker import Broker
from bolide.world.clocks import now_ms
from proof.kit.waiting import until, until_answered
from tests.admin.cluster_of_one import TOPIC, clients
from tests.admin.failing_requests import FailingAdmin
from tests.client.patient import PushConsumer


async def test_create_list_delete(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        await admin.create_group("G", retry_max_times=3)
        groups = await admin.groups()
        assert groups["G"].retry_max_times == 3
        await admin.delete_group("G", remove_offset=True)
        assert "G" not in await admin.groups()


async def test_progress_and_connections_of_a_running_group(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        for _ in range(4):
            await producer.send(Message(TOPIC, b"x"))
        seen: list[bytes] = []
        consumer = PushConsumer("G", bolide_broker.namesrv_addr, start_from="first")
        consumer.subscribe(TOPIC, "*", lambda message: seen.append(message.body))
        assert await admin.consumer_connections("G") is None
        async with consumer:
            await until(lambda: len(seen) == 4, "four messages")
            await until(lambda: sum(map(consumer.position, consumer.assignment())) == 4, "their offsets")
            await consumer.commit()
            progress = await admin.consumer_progress("G", TOPIC)
            assert (progress.lag, sum(item.consumer_offset for item in progress.queues)) == (0, 4)
            connections = await admin.consumer_connections("G")
            assert connections is not None
            assert [item.client_id for item in connections.connection_set] == [consumer.client_id]
            assert TOPIC in connections.subscription_table
            info = await admin.consumer_running_info("G", consumer.client_id)
            assert {queue.topic for queue in info.mq_table} == {TOPIC, "%RETRY%G"}
            assert await admin.topic_groups(TOPIC) == ["G"]
            assert len(await admin.producer_connections("P", TOPIC)) == 1
        for _ in range(3):
            await producer.send(Message(TOPIC, b"x"))
        assert (await admin.consumer_progress("G", TOPIC)).lag == 3


async def test_a_client_that_is_not_there(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        with pytest.raises(ResponseError):
            await admin.consumer_running_info("G", "nobody")


async def test_a_change_changes_what_it_names(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        await admin.create_group("Kept", retry_max_times=3, retry_queues=2, orderly=True)
        await admin.create_group("Kept", consume_enable=False)
        config = (await admin.groups())["Kept"]
        assert (config.retry_max_times, config.retry_queue_nums) == (3, 2)
        assert (config.consume_message_orderly, config.consume_enable) == (True, False)
        await admin.create_group("Kept", consume_enable=True, orderly=False)
        config = (await admin.groups())["Kept"]
        assert (config.consume_message_orderly, config.consume_enable, config.retry_max_times) == (False, True, 3)


async def test_lag_times_are_ages_of_the_first_messages_not_consumed(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        first = await producer.send(Message(TOPIC, b"x"))
        second = await producer.send(Message(TOPIC, b"x"), queue=first.queue)
        (stored,) = await admin.messages_at(first.queue, second.queue_offset, 1)
        await admin.create_group("behind")
        await admin.create_group("done")
        await admin.set_group_offset("behind", first.queue, second.queue_offset)
        await admin.set_group_offset("done", first.queue, second.queue_offset + 1)
        before = now_ms() - stored.store_timestamp
        ages = await admin.lag_times("behind", TOPIC)
        assert list(ages) == [first.queue]
        assert before <= ages[first.queue] <= now_ms() - stored.store_timestamp
        assert await admin.lag_times("done") == {}
        found = await admin.lag_ages(["behind", "done", "nobody"])
        assert (found["behind"] or 0) >= ages[first.queue]
        assert found["done"] == 0
    with pytest.raises(ClientStateError, match="not started"):
        await admin.lag_ages(["behind"])


@pytest.mark.parametrize(
    ("delay", "oldest", "newest", "age"),
    [
        (500, 10_000, 20_000, 500),
        (0, 10_000, 20_000, 0),
        (-3, 10_000, 20_000, 0),
        (30_001, 10_000, 20_000, 20_000),  # now + 1: the message is deleted
        (30_001, 0, 0, 30_001),
    ],
)
def test_age_of_a_deleted_message_is_that_of_the_oldest(delay: int, oldest: int, newest: int, age: int) -> None:
    span = QueueTimeSpan(min_time_stamp=oldest, max_time_stamp=newest, delay_time=delay)
    assert _age_of(span) == age


@pytest.mark.slow  # a producer's heartbeat is due every 30 s
async def test_the_lag_of_all_groups_and_all_producers(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        results = [await producer.send(Message(TOPIC, b"x")) for _ in range(4)]
        for group, done in (("behind", 0), ("done", 1)):
            await admin.create_group(group)
            for result in results:
                await admin.set_group_offset(group, result.queue, (result.queue_offset + 1) * done)
        lag = await admin.lag_of_groups()
        assert (lag["behind"], lag["done"]) == (4, 0)

        async def connected() -> list[str]:
            return [each.client_id for each in (await admin.producers()).get("P", [])]

        await until_answered(connected, [producer.client_id])


async def test_offset_beyond_the_end_hides_no_lag_of_other_queues(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        results = [await producer.send(Message(TOPIC, b"x")) for _ in range(6)]
        await admin.create_group("beyond")
        first, second = sorted({result.queue for result in results})
        await admin.set_group_offset("beyond", first, 0)
        await admin.set_group_offset("beyond", second, 5000)
        progress = await admin.consumer_progress("beyond", TOPIC)
        assert [each.lag for each in progress.queues] == [3, 0]
        assert (progress.lag, (await admin.lag_of_groups())["beyond"]) == (3, 3)
        (left,) = [each for each in await left_at(admin, first.broker_name) if each.group == "beyond"]
        assert left.messages == 3


async def test_members_with_different_subscriptions_are_noticed(
    bolide_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with clients(bolide_broker) as (admin, _):
        first = PushConsumer("G", bolide_broker.namesrv_addr, instance_name="one")
        first.subscribe(TOPIC, "A", lambda message: None)
        second = PushConsumer("G", bolide_broker.namesrv_addr, instance_name="two")
        second.subscribe(TOPIC, "B || C", lambda message: None)
        async with first:
            assert await admin.different_subscriptions("G") == {}
            async with second:
                await until(lambda: "subscribe to topic T by" in caplog.text, "the warning of a member")
                assert await admin.different_subscriptions("G") == {
                    TOPIC: {first.client_id: "A", second.client_id: "B || C"}
                }


class Twice(FailingAdmin):
    """Two brokers to query about a group, which are the same one."""

    async def _group_readers(self, group: str) -> dict[str, str]:
        (address,) = (await self.masters()).values()
        return {"broker-a": address, "broker-b": address}


@pytest.mark.parametrize("code", [codes.NO_PERMISSION, codes.SYSTEM_BUSY])
async def test_progress_without_the_queues_of_a_broker_is_not_returned(bolide_broker: Broker, code: int) -> None:
    async with Twice(bolide_broker.namesrv_addr) as admin:
        admin.errors[codes.GET_CONSUME_STATS] = [ResponseError("unknown here", codes.SUBSCRIPTION_GROUP_NOT_EXIST)]
        assert (await admin.consumer_progress("G")).queues == []
        admin.errors[codes.GET_CONSUME_STATS] = [ResponseError("broker-a rejected it", code)]
        with pytest.raises(ResponseError, match="broker-a rejected it"):
            await admin.consumer_progress("G")


async def test_member_that_a_busy_broker_may_know_is_not_reported_as_offline(bolide_broker: Broker) -> None:
    async with Twice(bolide_broker.namesrv_addr) as admin:
        admin.errors[codes.GET_CONSUMER_RUNNING_INFO] = [ResponseError("broker-a is busy", codes.SYSTEM_BUSY)]
        with pytest.raises(ResponseError, match="broker-a is busy"):
            await admin.consumer_running_info("G", "nobody")
        with pytest.raises(ResponseError, match="not online"):
            await admin.consumer_running_info("G", "nobody")
