"""Pages of the newest messages of a topic."""

from __future__ import annotations

from bolide.admin.newest import Older, newest_messages
from bolide.client import Message
from bolide.testing.broker import Broker
from tests.admin.cluster_of_one import TOPIC, clients


async def test_pages_show_every_message_once_the_newest_first(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        # The messages of a batch are stored in the same millisecond.
        for first in range(0, 30, 10):
            await producer.send_batch([Message(TOPIC, b"%d" % n) for n in range(first, first + 10)])
        stats = await admin.topic_stats(TOPIC)
        bodies: list[int] = []
        older: Older | None = None
        pages = 0
        while pages == 0 or older is not None:
            end, skip = (None, 0) if older is None else (older.end, older.skip)
            found, older = await newest_messages(admin, stats, count=7, end=end, skip=skip)
            bodies += [int(message.body) for message in found]
            pages += 1
        assert (sorted(bodies), pages) == (list(range(30)), 5)
        times = [message.store_timestamp for message in (await newest_messages(admin, stats, count=30))[0]]
        assert times == sorted(times, reverse=True)


async def test_times_select_messages(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        await producer.send(Message(TOPIC, b"1"))
        stats = await admin.topic_stats(TOPIC)
        ((only,), older) = await newest_messages(admin, stats, count=7)
        assert older is None
        at = only.store_timestamp
        for begin, end, count in ((at, None, 1), (at + 1, None, 0), (0, at, 0), (0, at + 1, 1)):
            assert len((await newest_messages(admin, stats, count=7, begin=begin, end=end))[0]) == count
