"""RECALL_MESSAGE (370): a producer recalls a delayed message (RocketMQ's RecallMessageProcessor).

The broker stores a delete in the slot of that message. Whether the message still existed is known when the slot is due.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import java_long
from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, Parked, Reply, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.topics import TopicTable
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties
from bolide.layout.permissions import PERM_WRITE
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.errors import BodyError
from bolide.remoting.headers.recall import RecallMessageRequestHeader
from bolide.remoting.recall_handle import RecallHandle, decode_recall_handle
from bolide.remoting.request_access import RECALL
from bolide.remoting.request_routes import Kind, Route

RECALL_TAG: Final = "_RECALL_TAG_"
_NOT_NOW: Final = "recall failed, broker service not available"


class RecallService(Service):
    """Serves recalls of delayed messages."""

    def __init__(self, options: BrokerOptions, writer: LogWriter, topics: TopicTable) -> None:
        self._options = options
        self._writer = writer
        self._topics = topics

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def routes(self) -> Routes:
        return [Route(codes.RECALL_MESSAGE, RecallMessageRequestHeader, self.on_recall, Kind.CHANGE, access=RECALL)]

    def on_recall(self, channel: Channel, command: Command, header: RecallMessageRequestHeader, now: int) -> Outcome:
        wall = int(self._writer.store.times.wall(now))  # timers and handles use the wall clock
        refusal = self._closed(wall)
        if refusal is not None:
            return self._answer(command, *refusal)
        if header.topic not in self._topics.table:
            remark = f"recall failed, the topic[{header.topic}] not exist"
            return self._answer(command, codes.TOPIC_NOT_EXIST, remark)
        try:
            handle = decode_recall_handle(header.recall_handle)
        except BodyError as error:
            return self._answer(command, codes.ILLEGAL_OPERATION, str(error))
        why = self._mismatch(header.topic, handle, wall)
        if why:
            return self._answer(command, codes.ILLEGAL_OPERATION, why)
        try:
            end = self._delete(channel, handle, header.producer_group, wall, now)
        except BolideError:
            return self._answer(command, codes.SYSTEM_ERROR, "recall failed, execute error")
        return Parked(self._answer(command, codes.SUCCESS, "", {"msgId": handle.unique_key}), end)

    def _closed(self, wall: int) -> tuple[int, str] | None:
        options = self._options
        if not options.delay.recall_message_enable:
            return codes.NO_PERMISSION, "recall failed, operation is forbidden"
        if not self._writer.role.may_write:
            return codes.SLAVE_NOT_AVAILABLE, _NOT_NOW
        if wall < options.send.start_accept_send_request_time_stamp:
            return codes.SERVICE_NOT_AVAILABLE, _NOT_NOW
        if (
            not options.tables.broker_permission & PERM_WRITE
            and not options.delay.allow_recall_when_broker_not_writeable
        ):
            return codes.SERVICE_NOT_AVAILABLE, _NOT_NOW
        return None

    def _mismatch(self, topic: str, handle: RecallHandle, wall: int) -> str:
        """Return why this handle cannot recall a message here, or ""."""
        if topic != handle.topic:
            return "recall failed, topic not match"
        if self._options.place.broker_name != handle.broker_name:
            return _NOT_NOW
        left = (java_long(handle.deliver_at) or -1) - wall
        if left <= 0 or left >= self._options.delay.timer_max_delay_sec * 1000:
            return "recall failed, timestamp invalid"
        return ""

    def _delete(self, channel: Channel, handle: RecallHandle, group: str | None, wall: int, now: int) -> int:
        """Store the delete. Return the physical end of its record."""
        key = delete_key(handle.topic, handle.unique_key, self._options.delay.append_topic_for_timer_delete_key)
        properties = {
            names.TAGS: RECALL_TAG,
            names.TIMER_DEL_UNIQKEY: key,
            names.UNIQ_KEY: handle.unique_key,
            names.TIMER_DELIVER_MS: handle.deliver_at,
            names.BORN_TIMESTAMP: str(wall),
            names.TRACE_CONTEXT: "",
        }
        if group:
            properties[names.PGROUP] = group
        message = BrokerMessage(
            handle.topic,
            handle.topic.encode(),
            0,
            b"0",
            MessageProperties("", properties),
            wall,
            channel.remote_host,
        )
        return self._writer.put(message, now).end_offset

    def _answer(self, command: Command, code: int, remark: str, ext: dict[str, str] | None = None) -> Reply:
        fields = {"MSG_REGION": self._options.registration.region_id, **(ext or {})}
        return reply(make_response(command, code, remark or None, fields))


def delete_key(topic: str, unique_key: str, with_topic: bool) -> str:
    """Return the value of TIMER_DEL_UNIQKEY for a message (appendTopicForTimerDeleteKey): Java's buildDeleteKey."""
    return f"{topic}+{unique_key}" if with_topic else unique_key
