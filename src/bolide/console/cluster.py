"""The cluster as one user sees it: an admin client and a producer that sign as that user, and cached responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bolide.admin import Admin, BrokerRow, GroupProgress, QueueStats
from bolide.admin.newest import Older, newest_messages
from bolide.admin.together import each
from bolide.client import Producer
from bolide.client.messages.errors import TopicNotFound
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.console.cached import Cached
from bolide.errors import BolideError
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from bolide.remoting.bodies.groups import SubscriptionGroupConfig
from bolide.remoting.bodies.topics import TopicConfig

TIMEOUT: Final = 5.0
"""Timeout of a request in seconds. It is short because a browser waits for the page."""
SLOW_S: Final = 10.0
"""Seconds for which to cache the result of a query that makes a broker scan all groups."""
PRODUCER_GROUP: Final = "bolide-console"
NEWEST: Final = 64
"""Maximum number of messages on a page."""

TopicConfigs = Mapping[str, Mapping[str, TopicConfig]]


class ClusterView:
    """Queries a cluster for the pages of one user. Call `start` first. Without keys, it signs with the keys of the
    environment."""

    def __init__(self, namesrv: str, clock: Callable[[], float], *, access_key: str = "", secret_key: str = "") -> None:
        self.admin = Admin(namesrv, timeout=TIMEOUT, access_key=access_key, secret_key=secret_key)
        self.cached = Cached(clock)
        self._producer = Producer(PRODUCER_GROUP, namesrv, access_key=access_key, secret_key=secret_key)
        self._produces = False

    async def start(self) -> None:
        """Start the admin client."""
        await self.admin.start()

    async def close(self) -> None:
        """Close the connections."""
        await self.admin.close()
        if self._produces:
            await self._producer.close()

    async def producer(self) -> Producer:
        """Return the producer. The first call starts it."""
        if not self._produces:
            await self._producer.start()
            self._produces = True
        return self._producer

    # -- brokers

    async def brokers(self) -> list[BrokerRow]:
        """Return all brokers with their runtime statistics; the row of an unavailable broker contains the error."""
        return await self.cached.get("brokers", self._brokers)

    async def _brokers(self) -> list[BrokerRow]:
        rows = await self.admin.brokers(runtime=False)
        figures = await each(range(len(rows)), lambda index: self._figures(rows[index]))
        return list(figures.values())

    async def _figures(self, row: BrokerRow) -> BrokerRow:
        runtime: Mapping[str, str] = {}
        error = ""
        try:
            runtime = await self.admin.broker_runtime(row.address)
        except BolideError as failure:
            error = str(failure)
        return BrokerRow(row.cluster, row.broker_name, row.broker_id, row.address, runtime, error)

    # -- topics

    async def topic_configs(self) -> TopicConfigs:
        """Return the settings of all topics, by topic and broker."""
        return await self.cached.get("topics", self.admin.all_topic_configs)

    async def kinds_of_topics(self) -> dict[str, str]:
        """Return the kind of each topic, see `kind_of`. Topics that the name servers do not list are `system`."""
        users = set(await self.cached.get("names", self.admin.topics))
        found = {topic: kind_of(topic) for topic in await self.topic_configs()}
        return {topic: "system" if kind == "normal" and topic not in users else kind for topic, kind in found.items()}

    async def topic_stats(self, topic: str) -> list[QueueStats]:
        """Return the offset ranges of the queues of a topic."""
        return await self.cached.get(("stats", topic), lambda: self.admin.topic_stats(topic))

    async def stats_of(self, topics: list[str]) -> dict[str, list[QueueStats] | None]:
        """Return the `topic_stats` of several topics, queried concurrently. The value is None if a query fails."""

        async def one(topic: str) -> list[QueueStats] | None:
            try:
                return await self.topic_stats(topic)
            except BolideError:
                return None

        return await each(topics, one)

    # -- groups

    async def groups(self) -> Mapping[str, SubscriptionGroupConfig]:
        """Return the settings of all groups, by name."""
        return await self.cached.get("groups", self.admin.groups)

    async def progress(self, group: str) -> GroupProgress:
        """Return the progress of a group in each of its queues."""
        return await self.cached.get(("progress", group), lambda: self.admin.consumer_progress(group))

    async def progress_of(self, groups: list[str]) -> dict[str, GroupProgress | None]:
        """Return the `progress` of several groups, queried concurrently. The value is None if a query fails."""

        async def one(group: str) -> GroupProgress | None:
            try:
                return await self.progress(group)
            except BolideError:
                return None

        return await each(groups, one)

    async def lag_of_groups(self) -> Mapping[str, int]:
        """Return the lag of each group in messages."""
        return await self.cached.get("lag", self.admin.lag_of_groups, SLOW_S)

    async def lag_times(self, group: str) -> Mapping[MessageQueue, int] | None:
        """Return the age in ms of the first message that a group has not consumed, by queue, or None if a broker
        rejects the query."""
        try:
            progress = await self.progress(group)
            return await self.cached.get(
                ("lag times", group), lambda: self.admin.lag_times(group, progress=progress), SLOW_S
            )
        except BolideError:
            return None

    async def lag_times_of(self, groups: list[str]) -> dict[str, Mapping[MessageQueue, int] | None]:
        """Return the lag times of several groups."""
        return await each(groups, self.lag_times)

    async def different_subscriptions(self, group: str) -> Mapping[str, Mapping[str, str | None]]:
        """Return the topics that the members of a group subscribe to differently. Queries every member."""
        return await self.cached.get(("different", group), lambda: self.admin.different_subscriptions(group), SLOW_S)

    # -- messages

    async def newest(
        self, topic: str, begin: int, end: int | None, skip: int = 0
    ) -> tuple[list[ReceivedMessage], Older | None]:
        """Return the newest messages of a topic, newest first, and the position of the older messages or None.

        Messages are stored at or after `begin` and before `end`, in ms since 1970; `end` None means now. The first
        `skip` messages are omitted."""
        stats = await self.topic_stats(topic)
        return await newest_messages(self.admin, stats, count=NEWEST, begin=begin, end=end, skip=skip)

    async def dead_letter_topics(self) -> list[str]:
        """Return the dead letter topics, sorted."""
        return sorted(topic for topic in await self.topic_configs() if topic.startswith(DLQ_PREFIX))

    async def dead_letters_of(self, group: str) -> int:
        """Return the number of stored dead letters of a group, or 0 if no broker responds."""
        topic = DLQ_PREFIX + group
        if topic not in await self.topic_configs():
            return 0
        return stored((await self.stats_of([topic]))[topic])

    async def dead_letters(self) -> int:
        """Return the number of stored dead letters of all groups, without topics whose brokers do not respond."""

        async def total() -> int:
            stats = await self.stats_of(await self.dead_letter_topics())
            return sum(map(stored, stats.values()))

        return await self.cached.get("dead letters", total, SLOW_S)

    async def exists(self, topic: str) -> bool:
        """Return whether a topic has a route."""
        try:
            await self.admin.topic_route(topic)
        except TopicNotFound:
            return False
        return True


def stored(stats: Sequence[QueueStats] | None) -> int:
    """Return the number of messages in the queues, or 0 for None."""
    return sum(queue.end_offset - queue.begin_offset for queue in stats or ())


def kind_of(topic: str) -> str:
    """Return `normal`, `retry`, `dead letters` or `system`."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dead letters"
    return "system" if is_system_topic(topic) else "normal"
