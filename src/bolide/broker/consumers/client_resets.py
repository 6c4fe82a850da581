"""Resets a group's offsets by notifying its clients (220), as in 4.9, and in 5.x with useServerSideResetOffset=false.

The broker stores no offset: the clients commit the offsets at which they resume. Rules of RocketMQ's
Broker2Client.resetOffset.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.effects import Effects
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.topics import TopicTable
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, encode_body
from bolide.remoting.bodies.offsets import MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.offsets import ResetOffsetRequestHeader
from bolide.store.message_store import MessageStore

RESET_SINCE: Final = 28
"""Clients before V3_0_7_SNAPSHOT do not support the notification."""
CPP: Final = 1


class ClientResets:
    """Notifies the clients of a group of new offsets."""

    def __init__(
        self,
        broker_name: str,
        store: MessageStore,
        offsets: ConsumerOffsets,
        topics: TopicTable,
        clients: Clients,
        effects: Effects,
    ) -> None:
        self._broker = broker_name
        self._store = store
        self._offsets = offsets
        self._topics = topics
        self._clients = clients
        self._effects = effects

    def tell(self, command: Command, header: ResetOffsetRequestHeader) -> Outcome:
        """Send the new offsets to every client of the group, and return them to the operator."""
        topic, group = header.topic, header.group
        config = self._topics.get(topic)
        if config is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            return reply(make_response(command, codes.TOPIC_NOT_EXIST, remark))
        targets: dict[MessageQueue, int] = {}
        for queue_id in range(config.write_queue_nums):
            committed = self._offsets.query(group, topic, queue_id)
            if committed == -1:
                return reply(make_response(command, codes.SYSTEM_ERROR, f"THe consumer group <{group}> not exist"))
            offset = self._by_time(topic, queue_id, header.timestamp)
            wanted = offset if header.is_force or offset < committed else committed
            targets[MessageQueue(topic, self._broker, queue_id)] = wanted
        connected = self._clients.consumer_group(group)
        if connected is None or not connected.clients:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} "
                f"Timestamp: {header.timestamp}"
            )
            return reply(make_response(command, codes.CONSUMER_NOT_ONLINE, remark))
        for client in connected.clients.values():
            if client.version < RESET_SINCE:
                remark = f"the client does not support this feature. version={client.version}"
                return reply(make_response(command, codes.SYSTEM_ERROR, remark))
            self._effects.send(client.channel, self._request(header, targets, command.language == CPP))
        return reply(make_response(command, codes.SUCCESS, body=encode_body(ResetOffsetBody(targets))))

    def _by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp == -1:
            return self._store.max_queue_offset(topic, queue_id)
        return max(self._store.offset_by_time(topic, queue_id, timestamp), 0)

    def _request(self, header: ResetOffsetRequestHeader, targets: dict[MessageQueue, int], is_c: bool) -> Command:
        """Return the notification. With `is_c`, it does not contain objects as keys, because clients written in C++
        cannot parse them (RocketMQ's rule)."""
        listed = [MessageQueueForC(queue.topic, queue.broker_name, queue.queue_id, at) for queue, at in targets.items()]
        body = encode_body(ResetOffsetBodyForC(listed) if is_c else ResetOffsetBody(targets))
        ext = {
            "group": header.group,
            "isForce": "false",
            "queueId": "-1",
            "timestamp": str(header.timestamp),
            "topic": header.topic,
        }
        return make_request(codes.RESET_CONSUMER_CLIENT_OFFSET, 0, ext, body, oneway=True)
