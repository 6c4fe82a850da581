"""All dead letters of a group go back, and a run that ends early is continued."""

from __future__ import annotations

import pytest

from bolide.admin.dead_letters import Resent
from bolide.admin.redrive import (
    SLICE,
    Redrive,
    RedriveActive,
    Remaining,
    _QueueLocks,
    redrive,
    remaining_letters,
)
from bolide.cli.messages.dead_letter import resend as verb
from bolide.client import Message, MessageQueue, Producer
from bolide.client.messages.errors import TopicNotFound
from bolide.client.messages.send_result import SendResult
from bolide.layout.names import DLQ_PREFIX, REDRIVER
from bolide.spark.jobs.redrive import redrive as spark_redrive
from bolide.testing.broker import Broker
from tests.admin.buried import bury, numbered, received
from tests.client.patient import Admin
from tests.client.patient import Producer as Patient

QUEUE = MessageQueue("%DLQ%G", "broker-a", 0)


@pytest.mark.parametrize(
    ("done", "begin", "end", "at", "count", "expired"),
    [
        (-1, 0, 5, 0, 5, 0),
        (-1, 2, 5, 2, 3, 0),
        (3, 0, 5, 3, 2, 0),
        (5, 0, 5, 5, 0, 0),
        (1, 3, 5, 3, 2, 2),  # two expired before a run came to them
        (9, 0, 5, 0, 5, 0),  # the topic was created again
    ],
)
def test_remaining_letters_of_a_queue(done: int, begin: int, end: int, at: int, count: int, expired: int) -> None:
    part = Remaining(QUEUE, done, begin, end)
    assert (part.next_offset, part.count, part.expired) == (at, count, expired)


async def test_all_go_back_once_over_several_runs(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("A", queues=1)
    count = SLICE + 5
    letters = await bury(bolide_broker, "G", *numbered("A", count))
    async with Admin(bolide_broker.namesrv_addr) as admin, Patient("P", bolide_broker.namesrv_addr) as producer:
        resent, totals = Resent(), []
        assert (
            await redrive(admin, producer, Redrive("G", limit=SLICE + 1), resent, on_progress=totals.append)
            == SLICE + 1
        )
        assert (resent.count, resent.error) == (SLICE + 1, "") and totals == [SLICE + 1] * 2
        assert [part.count for part in await remaining_letters(admin, "G")] == [4]
        rest = Resent()
        assert (await redrive(admin, producer, Redrive("G"), rest), rest.count) == (4, 4)
        assert (await redrive(admin, producer, Redrive("G"), Resent())) == 0
        copies = (await received(bolide_broker, "A", 2 * count))[count:]
        assert [copy.body for copy in copies] == [letter.body for letter in letters]
        again = Resent()
        assert (await redrive(admin, producer, Redrive("G", again=True, topic="B"), again), again.count) == (
            count,
            count,
        )
        assert len(await received(bolide_broker, "B", count)) == count


async def test_a_run_that_was_interrupted_is_continued_where_it_stopped(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("A", queues=1)
    await bury(bolide_broker, "G", *numbered("A", 6))
    async with Admin(bolide_broker.namesrv_addr) as admin, Patient("P", bolide_broker.namesrv_addr) as producer:
        resent = Resent()
        assert await redrive(admin, producer, Redrive("G"), resent, stopped=lambda: resent.count == 2) == 6
        assert (resent.count, resent.interrupted) == (2, True)
        assert [part.next_offset for part in await remaining_letters(admin, "G")] == [2]


class Failing(Producer):
    """A producer whose third send fails."""

    sends = 0

    async def send(self, message: Message) -> SendResult:  # type: ignore[override]  # of one form
        self.sends += 1
        if self.sends == 3:
            raise TopicNotFound("no route")
        return await super().send(message)


async def test_a_run_that_failed_is_continued_at_the_failed_one(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("A", queues=1)
    await bury(bolide_broker, "G", *numbered("A", 4))
    async with Admin(bolide_broker.namesrv_addr) as admin, Failing("P", bolide_broker.namesrv_addr) as producer:
        resent = Resent()
        assert await redrive(admin, producer, Redrive("G"), resent) == 4
        assert resent.count == 2 and "is not resent: " in resent.error and not resent.interrupted
        rest = Resent()
        assert (await redrive(admin, producer, Redrive("G"), rest), rest.count) == (2, 2)


async def test_two_runs_at_the_same_time_are_one_too_many(bolide_broker: Broker) -> None:
    await bury(bolide_broker, "G", *numbered("A", 1))
    async with Admin(bolide_broker.namesrv_addr) as admin, Patient("P", bolide_broker.namesrv_addr) as producer:
        async with _QueueLocks(admin, REDRIVER, [MessageQueue(DLQ_PREFIX + "G", "broker-a", 0)], "G"):
            with pytest.raises(RedriveActive, match="another run resends the dead letters of G"):
                await redrive(admin, producer, Redrive("G"), Resent())
        assert await redrive(admin, producer, Redrive("G"), Resent()) == 1  # the locks are released


async def test_a_group_without_dead_letters(bolide_broker: Broker) -> None:
    async with Admin(bolide_broker.namesrv_addr) as admin, Patient("P", bolide_broker.namesrv_addr) as producer:
        with pytest.raises(TopicNotFound):
            await redrive(admin, producer, Redrive("nobody"), Resent())


def test_spark_stores_its_progress_in_the_same_group() -> None:
    (as_group,) = [each for each in verb.__defaults__ or () if getattr(each, "default", None) == REDRIVER]
    assert as_group is not None and (spark_redrive.__kwdefaults__ or {})["as_group"] == REDRIVER
