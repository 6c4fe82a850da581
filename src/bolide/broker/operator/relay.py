"""Requests forwarded to a consumer: its running info (307), direct consumption of one message (309), its offsets (223).

The broker only finds the client's channel, forwards the request and returns the client's response unchanged (RocketMQ's
Broker2Client and AdminBrokerProcessor.callConsumer).
"""

from __future__ import annotations

from typing import Any, Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Ask, Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.found import check_record
from bolide.broker.tables.clients import Client, Clients
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topics import TopicTable
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from bolide.remoting.headers.offsets import GetConsumerStatusRequestHeader
from bolide.remoting.json import parse_lenient
from bolide.remoting.request_access import CONSUME_DIRECTLY, GET_CONSUMER_GROUP, GET_TOPIC_AND_GROUP
from bolide.remoting.request_routes import DiskReads, Kind, Route
from bolide.store.message_store import MessageStore

ANSWER_TIMEOUT_MS: Final = 10_000
STATUS_SINCE: Final = 28
"""Clients before V3_0_7_SNAPSHOT do not return their offsets."""
RUNNING_INFO_SINCE: Final = 59
"""Clients before V3_1_8_SNAPSHOT do not support the request."""


class RelayService(Service):
    """Forwards administrative requests to consumers."""

    def __init__(
        self, broker_name: str, clients: Clients, store: MessageStore, topics: TopicTable, groups: GroupTable
    ) -> None:
        self._broker = broker_name
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._store = store

    def routes(self) -> Routes:
        return [
            Route(
                codes.GET_CONSUMER_RUNNING_INFO,
                GetConsumerRunningInfoRequestHeader,
                self.on_running_info,
                Kind.READ,
                access=GET_CONSUMER_GROUP,
            ),
            Route(
                codes.CONSUME_MESSAGE_DIRECTLY,
                ConsumeMessageDirectlyResultRequestHeader,
                self.on_consume_directly,
                Kind.READ,
                reads=DiskReads.STEPWISE,
                access=CONSUME_DIRECTLY,
            ),
            Route(
                codes.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
                GetConsumerStatusRequestHeader,
                self.on_consumer_status,
                Kind.READ,
                access=GET_TOPIC_AND_GROUP,
            ),
        ]

    def on_running_info(
        self, channel: Channel, command: Command, header: GetConsumerRunningInfoRequestHeader, now: int
    ) -> Outcome:
        return self._call(command, header.consumer_group, header.client_id, b"")

    def on_consume_directly(
        self, channel: Channel, command: Command, header: ConsumeMessageDirectlyResultRequestHeader, now: int
    ) -> Outcome:
        body = b""
        if header.msg_id:
            offset = _offset_of(header.msg_id)
            record = None if offset is None else self._store.record_bytes(offset)
            if record is None:
                remark = f"no message {header.msg_id} is stored on this broker"
                return reply(make_response(command, codes.SYSTEM_ERROR, remark))
            check_record(command, record)
            body = record
        more = {"brokerName": self._broker}
        topic = self._topics.get(header.topic or "")
        if topic is not None:
            more["topicSysFlag"] = str(topic.topic_sys_flag)
        group = self._groups.get(header.consumer_group)
        if group is not None:
            more["groupSysFlag"] = str(group.group_sys_flag)
        return self._call(command, header.consumer_group, header.client_id or "", body, more)

    def on_consumer_status(
        self, channel: Channel, command: Command, header: GetConsumerStatusRequestHeader, now: int
    ) -> Outcome:
        """Query the clients of the group in turn. Clients that do not respond are omitted."""
        group = self._clients.consumer_group(header.group)
        if group is None or not group.clients:
            remark = f"No Any Consumer online in the consumer group: [{header.group}]"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        wanted = (header.client_addr or "").strip()  # named an address, but compared with client ids
        chosen = [client for client in group.clients.values() if not wanted or wanted == client.client_id]
        for client in chosen:
            if client.version < STATUS_SINCE:
                remark = f"the client does not support this feature. version={client.version}"
                return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        return self._next_status(command, header, chosen, {})

    def _next_status(
        self, command: Command, header: GetConsumerStatusRequestHeader, left: list[Client], found: dict[str, Any]
    ) -> Outcome:
        if not left:
            body = encode_body({"consumerTable": found, "messageQueueTable": {}})
            return reply(make_response(command, codes.SUCCESS, body=body))
        client, rest = left[0], left[1:]

        def then(answer: Command | None, now: int) -> Outcome:
            if answer is not None and answer.code == codes.SUCCESS and answer.body:
                content = parse_lenient(answer.body)
                if isinstance(content, dict):
                    found[client.client_id] = content.get("messageQueueTable") or {}
            return self._next_status(command, header, rest, found)

        ext = {"topic": header.topic, "group": header.group}
        question = self._request(codes.GET_CONSUMER_STATUS_FROM_CLIENT, ext, b"")
        return Ask(client.channel, question, ANSWER_TIMEOUT_MS, then)

    def _call(
        self, command: Command, group: str, client_id: str, body: bytes, more: dict[str, str] | None = None
    ) -> Outcome:
        client = self._clients.consumer_channel(group, client_id)
        if client is None:
            remark = f"The Consumer <{group}> <{client_id}> not online"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        if client.version < RUNNING_INFO_SINCE:
            remark = f"The Consumer <{client_id}> is older than V3_1_8: upgrade it"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))

        def then(answer: Command | None, now: int) -> Outcome:
            if answer is None:
                remark = f"consumer <{group}> <{client_id}> did not answer within {ANSWER_TIMEOUT_MS} ms"
                return reply(make_response(command, codes.CONSUME_MSG_TIMEOUT, remark))
            return reply(make_response(command, answer.code, answer.remark, body=answer.body))

        return Ask(
            client.channel,
            self._request(command.code, {**command.ext(), **(more or {})}, body),
            ANSWER_TIMEOUT_MS,
            then,
        )

    def _request(self, code: int, ext: dict[str, str], body: bytes) -> Command:
        return make_request(code, 0, ext, body)


def _offset_of(message_id: str) -> int | None:
    """Return the physical offset at the end of a broker's message id, or None if the id is invalid."""
    try:
        return int(message_id[-16:], 16) if len(message_id) in (32, 56) else None
    except ValueError:
        return None
