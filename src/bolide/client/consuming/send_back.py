"""Returns failed messages to the group's retry topic, and after too many retries to its dead-letter topic.

The broker does this (CONSUMER_SEND_MSG_BACK). If it cannot, the client sends a copy of the message to the retry topic,
as RocketMQ's DefaultMQPushConsumerImpl.sendMessageBack does.
"""

from __future__ import annotations

import logging
from typing import Final

from bolide.client.consuming.group_member import GroupMember
from bolide.client.instance.send_frame import send_header
from bolide.client.messages.errors import NoQueue, ResponseError
from bolide.client.messages.received import ReceivedMessage
from bolide.client.producing.publish import TopicQueues
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.properties import format_properties
from bolide.remoting import codes
from bolide.remoting.compression import COMPRESSED_FLAG, TYPE_MASK

log = logging.getLogger("bolide.client")

DEFAULT_MAX_RECONSUME_TIMES: Final = 16
TIMEOUT: Final = 5.0
UNSURE: Final = frozenset((codes.FLUSH_DISK_TIMEOUT, codes.FLUSH_SLAVE_TIMEOUT, codes.SLAVE_NOT_AVAILABLE))
"""Codes of responses after which the copy is stored, but may be lost if another broker becomes the master. RocketMQ's
client treats the message as stored."""
KEPT_FLAGS: Final = COMPRESSED_FLAG | TYPE_MASK


async def send_back(member: GroupMember, message: ReceivedMessage, delay_level: int, max_times: int) -> bool:
    """Return a message to its broker for redelivery, or send a copy to the retry topic if the broker fails.

    Returns whether a copy is certainly stored. `max_times`: maximum number of retries.
    """
    instance = member.instance
    address = instance.any_address(message.broker_name) or message.store_host
    ext = {
        "bname": message.broker_name,
        "delayLevel": str(delay_level),
        "group": member.group,
        "maxReconsumeTimes": str(max_times),
        "offset": str(message.physical_offset),
        "originMsgId": message.offset_message_id,
        "originTopic": message.record.topic,
        "unitMode": "false",
    }
    try:
        await instance.call(address, codes.CONSUMER_SEND_MSG_BACK, ext, timeout=TIMEOUT)
        return True
    except BolideError as error:
        if isinstance(error, ResponseError) and error.code in UNSURE:
            log.warning("%r was sent back, but its copy may be lost, retrying it: %s", message, error)
            return False
        log.warning("%r could not be sent back, sending a copy: %s", message, error)
    try:
        await send_to_retry_topic(member, message, max_times)
        return True
    except BolideError as error:
        log.warning("%r could not be sent to the retry topic either: %s", message, error)
        return False


async def send_to_retry_topic(member: GroupMember, message: ReceivedMessage, max_times: int) -> None:
    """Send a copy to ``%RETRY%group``. The broker stores it in the dead-letter topic after `max_times` retries.

    Raises `BolideError` if the broker does not confirm that it has stored the copy.
    """
    instance = member.instance
    queues = TopicQueues(await instance.route(member.retry_topic), instance.world)
    properties = {
        name: value for name, value in message.properties.items() if name not in (names.TRAN_MSG, names.DELAY)
    }
    properties[names.RETRY_TOPIC] = message.get_property(names.RETRY_TOPIC) or message.record.topic
    properties.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_message_id)
    properties[names.DELAY] = str(3 + message.reconsume_times)
    queue = queues.next_queue()
    address = instance.master_address(queue.broker_name)
    if address is None:
        raise NoQueue(f"broker {queue.broker_name} of {member.retry_topic} has no master now")
    header = send_header(member.group, queue, 1, message.sys_flag & KEPT_FLAGS)
    header.born_timestamp, header.flag = instance.world.wall_ms(), message.flag
    header.properties = format_properties(properties)
    header.reconsume_times, header.max_reconsume_times = message.reconsume_times + 1, max_times
    ext = header.to_ext()
    await instance.call(address, codes.SEND_MESSAGE_V2, ext, message.record.body, timeout=TIMEOUT)
