"""Request-reply: SEND_REPLY_MESSAGE (324, 325) receives a reply, PUSH_REPLY_MESSAGE_TO_CLIENT (326) forwards it.

RocketMQ's ReplyMessageProcessor (docs/protocol/behaviour.md 9). The requester is a producer of this broker, found by
its client id. The replier gets its response only after the requester has received the reply. The reply is also stored,
in the cluster's reply topic.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.append.log_writer import LogWriter, refuse_zeros
from bolide.broker.core.channel import Channel
from bolide.broker.core.names import NO_SEND_TOPICS, topic_refusal
from bolide.broker.core.outcome import Ask, Outcome, Parked, Reply, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.found import check_each
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.topic_config import TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.dispatch.multi import split_names
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_id import host_text
from bolide.layout.message_properties import MessageProperties
from bolide.layout.permissions import PERM_WRITE
from bolide.layout.properties import format_properties, parse_properties
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.reply import ReplyMessageRequestHeader
from bolide.remoting.headers.send import SendHeader, SendMessageRequestHeader, SendMessageRequestHeaderV2
from bolide.remoting.request_access import REPLY
from bolide.remoting.request_routes import Kind, Route

PUSH_TIMEOUT_MS: Final = 10_000


class ReplyService(Service):
    """Forwards replies to requesters."""

    def __init__(self, options: BrokerOptions, writer: LogWriter, topics: TopicTable, clients: Clients) -> None:
        self._options = options
        self._writer = writer
        self._topics = topics
        self._clients = clients
        self._spread = 0

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def routes(self) -> Routes:
        """Return the routes. A reply is forwarded on any broker to which the requester is connected. Only storing it
        needs a master and its replicas."""
        return [
            Route(
                codes.SEND_REPLY_MESSAGE,
                SendMessageRequestHeader,
                self.on_reply,
                Kind.SEND,
                needs_replicas=False,
                access=REPLY,
            ),
            Route(
                codes.SEND_REPLY_MESSAGE_V2,
                SendMessageRequestHeaderV2,
                self.on_reply,
                Kind.SEND,
                needs_replicas=False,
                access=REPLY,
            ),
        ]

    def on_reply(self, channel: Channel, command: Command, header: SendHeader, now: int) -> Outcome:
        if self._writer.store.times.wall(now) < self._options.send.start_accept_send_request_time_stamp:
            until = self._options.send.start_accept_send_request_time_stamp
            return self._answer(command, codes.SYSTEM_ERROR, f"broker unable to service, until {until} (ms)")
        topic = self._topic(command, header, now)
        if not isinstance(topic, TopicConfig):
            return topic
        queue_id = header.queue_id
        if queue_id < 0:
            self._spread += 1
            queue_id = self._spread % max(topic.write_queue_nums, 1)
        properties = parse_properties(header.properties or "")
        check_each(command, split_names(properties.get(names.INNER_MULTI_DISPATCH) or ""))
        asker = properties.get(names.REPLY_TO_CLIENT)
        if asker is None:
            why = f"reply message properties[{names.REPLY_TO_CLIENT}] is null"
            return self._store(channel, command, header, queue_id, why, now)
        client = self._clients.producer_by_client_id(asker)
        if client is None:
            why = f"push reply message fail, channel of <{asker}> not found."
            return self._store(channel, command, header, queue_id, why, now)

        def then(answer: Command | None, later: int) -> Outcome:
            taken = answer is not None and answer.code == codes.SUCCESS
            why = "" if taken else f"push reply message to {asker} fail."
            return self._store(channel, command, header, queue_id, why, later)

        wall = int(self._writer.store.times.wall(now))
        properties[names.PUSH_REPLY_TIME] = str(wall)
        push = self._push(channel, command, header, properties, wall)
        return Ask(client.channel, push, PUSH_TIMEOUT_MS, then)

    def _topic(self, command: Command, header: SendHeader, now: int) -> TopicConfig | Reply:
        name = header.topic
        writable = self._options.tables.broker_permission & PERM_WRITE != 0
        if not writable and self._topics.is_order_topic(name):
            remark = f"the broker[{self._options.place.spoken_name}] sending message is forbidden"
            return self._answer(command, codes.NO_PERMISSION, remark)
        why = topic_refusal(name)
        if why is not None:
            return self._answer(command, codes.INVALID_PARAMETER, why)
        if name in NO_SEND_TOPICS:
            return self._answer(command, codes.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
        topic = self._topics.create_on_send(name, header.default_topic, header.default_topic_queue_nums, 0, now)
        if topic is None:
            return self._answer(command, codes.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        if header.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            return self._answer(command, codes.INVALID_PARAMETER, f"request queueId[{header.queue_id}] is illegal")
        return topic

    def _push(
        self, channel: Channel, command: Command, header: SendHeader, properties: dict[str, str], wall: int
    ) -> Command:
        pushed = ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            born_host=host_text(channel.remote_host),
            store_host=host_text(self._writer.store_host),
            store_timestamp=wall,
            properties=format_properties(properties),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        return make_request(codes.PUSH_REPLY_MESSAGE_TO_CLIENT, 0, pushed.to_ext(), command.body)

    def _store(
        self, channel: Channel, command: Command, header: SendHeader, queue_id: int, why: str, now: int
    ) -> Outcome:
        """Store the reply, then report the result of the push to the replier. A failed store does not change that
        result."""
        code = codes.SYSTEM_ERROR if why else codes.SUCCESS
        place = {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
        if not self._options.send.store_reply_message_enable or self._writer.role.short:
            return self._answer(command, code, why, place if not why else {})
        properties = MessageProperties(header.properties or "")
        properties.terminate()
        properties.set(names.MSG_REGION, self._options.registration.region_id)
        properties.set(names.TRACE_ON, "true" if self._options.tables.trace_on else "false")
        topic = header.topic
        message = BrokerMessage(
            topic, topic.encode(), queue_id, command.body, properties, header.born_timestamp, channel.remote_host
        )
        message.flag = header.flag
        message.reconsume_times = header.reconsume_times or 0
        try:
            refuse_zeros(properties.text, False)
            appended = self._writer.put(message, now)
        except BolideError:
            return self._answer(command, code, why, place if not why else {})
        place["msgId"] = self._writer.message_id(appended.physical_offset)
        place["queueOffset"] = str(appended.queue_offset)
        return Parked(self._answer(command, code, why, place), appended.end_offset)

    def _answer(self, command: Command, code: int, remark: str = "", place: dict[str, str] | None = None) -> Reply:
        ext = {
            "MSG_REGION": self._options.registration.region_id,
            "TRACE_ON": "true" if self._options.tables.trace_on else "false",
        }
        return reply(make_response(command, code, remark or None, {**ext, **(place or {})}))
