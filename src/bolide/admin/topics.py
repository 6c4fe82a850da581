"""Topics: create, change, delete, list, route, statistics
(mqadmin's updateTopic, deleteTopic, topicList, topicStatus)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import msgspec

from bolide.admin.calls import ADDRESS, AdminCalls, ext_of, queue_from
from bolide.admin.transient import is_transient
from bolide.client.instance.routes import TopicRoute
from bolide.client.messages.arguments import check_count, check_topic
from bolide.client.messages.checked import PERMISSION, Allowed, checked_methods, one_of
from bolide.client.messages.queue import MessageQueue
from bolide.errors import ArgumentError, BolideError, RequestTimeout
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.names import AUTO_CREATE_TOPIC, is_system_topic
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.groups import GroupList
from bolide.remoting.bodies.stats import KVTable
from bolide.remoting.bodies.topics import (
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicFilterType,
    TopicList,
    TopicStatsTable,
)

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
REGISTRATION_WAIT: Final = 5.0
"""Seconds to wait for a route, or the timeout of a request if that is longer."""
NEW_QUEUES: Final = 8
"""Default number of queues of a new topic."""


QUEUES: Final = Allowed("1 to 65536", partial(check_count, least=1, most=MAX_QUEUES))
FILTER_TYPE: Final = Allowed("SINGLE_TAG, MULTI_TAG", one_of(*TopicFilterType.__members__))


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Offsets of one queue: `begin_offset` to `end_offset` (exclusive). `last_update` is ms since 1970, or 0 if the
    queue is empty."""

    queue: MessageQueue
    begin_offset: int
    end_offset: int
    last_update: int


@checked_methods
class TopicCalls(AdminCalls):
    """Calls on topics."""

    async def create_topic(
        self,
        topic: str,
        *,
        queues: Annotated[int | None, QUEUES] = None,
        read_queues: Annotated[int | None, QUEUES] = None,
        write_queues: Annotated[int | None, QUEUES] = None,
        perm: Annotated[int | None, PERMISSION] = None,
        order: bool | None = None,
        filter_type: Annotated[str | None, FILTER_TYPE] = None,
        attributes: str = "",
        cluster: str | None = None,
        broker: str | None = None,
        wait: bool = True,
    ) -> list[str]:
        """Create or change a topic on every master of a cluster, on one broker, or by default on all masters.

        Omitted settings stay unchanged; a new topic has 8 queues and permission 6. `queues` sets the number of read and
        of write queues. `perm`: 6 for read and write, 4 for read, 2 for write. Returns the broker names; with `wait`,
        once a name server routes to all of them. Raises `MessageRefused`, `ResponseError`, and `RequestTimeout` if no
        name server does so within the `timeout` of this object, or within 5 s if that is longer.

        The name servers store the brokers of an ordered topic as one list. `order` adds the brokers of `cluster` or
        `broker` to it and keeps the others; `order=False` deletes the list, and the topic is not ordered on any broker.
        """
        check_topic(topic)
        if queues is not None and (read_queues is not None or write_queues is not None):
            raise ArgumentError(
                "queues sets read_queues and write_queues, one of which is given as well: leave one out", "queues"
            )
        masters = await self.masters(cluster, broker)
        changes = {
            "read_queue_nums": read_queues if queues is None else queues,
            "write_queue_nums": write_queues if queues is None else queues,
            "perm": perm,
            "order": order,
            "topic_filter_type": None if filter_type is None else TopicFilterType[filter_type],
        }
        given = {name: value for name, value in changes.items() if value is not None}
        orders = {}
        if order is False:
            # Do this first: while the name servers have the order, a registration makes the topic ordered again.
            await self.tell_every_namesrv(codes.DELETE_KV_CONFIG, ext_of(namespace=ORDER_NAMESPACE, key=topic))
        for name, address in masters.items():
            before = await self.topic_config_at(address, topic) or TopicConfig(topic, NEW_QUEUES, NEW_QUEUES)
            config = msgspec.structs.replace(before, **given)
            await self._put_topic(address, config, attributes)
            if config.order:
                orders[name] = config.write_queue_nums
        if orders and order:
            others = "" if cluster is None and broker is None else await self.get_kv(ORDER_NAMESPACE, topic)
            await self.put_kv(ORDER_NAMESPACE, topic, merged_order(others or "", orders))
        if wait:
            await self._wait_for_route(topic, set(masters))
        return sorted(masters)

    async def topic_config_at(self, address: Annotated[str, ADDRESS], topic: str) -> TopicConfig | None:
        """Return the settings of a topic at one broker, or None if the broker does not have it."""
        accept = (codes.SUCCESS, codes.TOPIC_NOT_EXIST, codes.REQUEST_CODE_NOT_SUPPORTED)
        answer = await self.ask(address, codes.GET_TOPIC_CONFIG, ext_of(topic=topic), accept=accept)
        if answer.code == codes.SUCCESS:
            return decode_answer(answer.body, TopicConfig)
        if answer.code == codes.TOPIC_NOT_EXIST:
            return None
        # A 4.9 broker returns only all topics together.
        every = await self.decoded(TopicConfigSerializeWrapper, address, codes.GET_ALL_TOPIC_CONFIG)
        return every.topic_config_table.get(topic)

    async def _put_topic(self, address: str, config: TopicConfig, attributes: str) -> None:
        ext = ext_of(
            topic=config.topic_name,
            defaultTopic=AUTO_CREATE_TOPIC,
            readQueueNums=config.read_queue_nums,
            writeQueueNums=config.write_queue_nums,
            perm=config.perm,
            topicFilterType=config.topic_filter_type.name,
            topicSysFlag=config.topic_sys_flag,
            order=config.order,
            attributes=attributes or None,
            force=False,
        )
        await self.ask(address, codes.UPDATE_AND_CREATE_TOPIC, ext)

    async def _wait_for_route(self, topic: str, brokers: set[str]) -> None:
        """Wait until a name server routes to the brokers. Brokers register a new topic immediately, but only after
        their response."""
        seconds = max(REGISTRATION_WAIT, self._timeout)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        route = await self._client.fetch_route(topic)
                        if brokers <= {info.broker_name for info in route.queues}:
                            return
                    except BolideError as error:
                        if not is_transient(error):
                            raise
                        # a slow name server is not a reason to fail: the topic exists
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise RequestTimeout(
                f"topic {topic} is created, but after {seconds:g} s no name server routes to all of"
                f" {', '.join(sorted(brokers))}"
            ) from None

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> list[str]:
        """Delete a topic on all masters, or only in `cluster`, and in the name servers. Return the broker names."""
        masters = await self.masters(cluster)
        for address in masters.values():
            await self.ask(address, codes.DELETE_TOPIC_IN_BROKER, ext_of(topic=topic))
        await self.tell_every_namesrv(codes.DELETE_TOPIC_IN_NAMESRV, ext_of(topic=topic, clusterName=cluster))
        await self.tell_every_namesrv(codes.DELETE_KV_CONFIG, ext_of(namespace=ORDER_NAMESPACE, key=topic))
        self._client.routes.pop(topic, None)
        return sorted(masters)

    async def topics(self, *, system: bool = False, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, or of one cluster's topics. Includes system topics only with `system`."""
        if cluster is not None:
            answer = await self.ask_namesrv(codes.GET_TOPICS_BY_CLUSTER, ext_of(cluster=cluster))
        else:
            answer = await self.ask_namesrv(codes.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        names = set(decode_answer(answer.body, TopicList).topic_list)
        if not system:
            answer = await self.ask_namesrv(codes.GET_SYSTEM_TOPIC_LIST_FROM_NS)
            hidden = set(decode_answer(answer.body, TopicList).topic_list)
            names = {name for name in names if name not in hidden and not is_system_topic(name)}
        return sorted(names)

    async def topic_route(self, topic: str) -> TopicRoute:
        """Return the brokers and queues of a topic from a name server. Raises `TopicNotFound`."""
        return await self._client.fetch_route(topic)

    async def topic_configs(self, topic: str) -> dict[str, TopicConfig]:
        """Return a topic's settings by broker name. Omits brokers without the topic."""
        found = {}
        for name, address in (await self.masters()).items():
            wrapper = await self.decoded(TopicConfigSerializeWrapper, address, codes.GET_ALL_TOPIC_CONFIG)
            if topic in wrapper.topic_config_table:
                found[name] = wrapper.topic_config_table[topic]
        return found

    async def all_topic_configs(self, *, cluster: str | None = None) -> dict[str, dict[str, TopicConfig]]:
        """Return the settings of every topic, including system topics, by topic and broker name. Sends one request per
        master."""
        found: dict[str, dict[str, TopicConfig]] = {}
        for name, address in (await self.masters(cluster)).items():
            wrapper = await self.decoded(TopicConfigSerializeWrapper, address, codes.GET_ALL_TOPIC_CONFIG)
            for topic, config in wrapper.topic_config_table.items():
                found.setdefault(topic, {})[name] = config
        return found

    async def topic_stats(self, topic: str) -> list[QueueStats]:
        """Return the offsets of every queue of a topic. Raises `TopicNotFound`."""
        stats = []
        for address in (await self.topic_masters(topic)).values():
            table = await self.decoded(TopicStatsTable, address, codes.GET_TOPIC_STATS_INFO, ext_of(topic=topic))
            stats += [
                QueueStats(queue_from(queue), ends.min_offset, ends.max_offset, ends.last_update_timestamp)
                for queue, ends in table.offset_table.items()
            ]
        return sorted(stats, key=lambda item: item.queue)

    async def topic_groups(self, topic: str) -> list[str]:
        """Return the groups that consume a topic or have consumed it. Raises `TopicNotFound`."""
        groups: set[str] = set()
        for address in (await self.topic_masters(topic)).values():
            found = await self.decoded(GroupList, address, codes.QUERY_TOPIC_CONSUME_BY_WHO, ext_of(topic=topic))
            groups.update(found.group_list)
        return sorted(groups)

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """Return a value of the name server's key-value table, or None."""
        answer = await self.ask_namesrv(
            codes.GET_KV_CONFIG, ext_of(namespace=namespace, key=key), (codes.SUCCESS, codes.QUERY_NOT_FOUND)
        )
        return answer.ext().get("value") if answer.code == codes.SUCCESS else None

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a value in every name server's table."""
        await self.tell_every_namesrv(codes.PUT_KV_CONFIG, ext_of(namespace=namespace, key=key, value=value))

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Remove a value from every name server's table."""
        await self.tell_every_namesrv(codes.DELETE_KV_CONFIG, ext_of(namespace=namespace, key=key))

    async def list_kv(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace, or {} if it is unknown."""
        answer = await self.ask_namesrv(
            codes.GET_KVLIST_BY_NAMESPACE, ext_of(namespace=namespace), (codes.SUCCESS, codes.QUERY_NOT_FOUND)
        )
        return decode_answer(answer.body, KVTable).table if answer.code == codes.SUCCESS else {}


def merged_order(before: str, changed: Mapping[str, int]) -> str:
    """Return an order, ``broker:queues;broker:queues``, with the queue counts of some brokers changed or added."""
    entries = {entry.partition(":")[0]: entry for entry in before.split(";") if entry}
    entries.update({name: f"{name}:{number}" for name, number in changed.items()})
    return ";".join(entries[name] for name in sorted(entries))
