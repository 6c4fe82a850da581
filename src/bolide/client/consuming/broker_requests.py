"""Requests from brokers to a consumer: reset offsets (220), return offsets (221) and state (307), consume (309).

docs/protocol/remoting.md 12 describes the bodies. Their MessageQueue keys have a form that both Java releases read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from bolide.client.consuming.group_member import GroupMember
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.consuming.stacks import stacks
from bolide.client.instance.protocol_json import json_body, json_text, queue_map, queue_map_text, queue_of
from bolide.client.messages.listener import ListenerCall
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage, intact_message, show_origin
from bolide.remoting import codes
from bolide.remoting.codes import language_name
from bolide.remoting.command import Command, make_response
from bolide.version import VERSION


def reset_offsets_of(command: Command) -> dict[MessageQueue, int]:
    """Return the new offsets of RESET_CONSUMER_CLIENT_OFFSET: a map, or the list that C++ clients get."""
    table = json_body(command.body).get("offsetTable") or {}
    if isinstance(table, list):
        return {queue_of(item): int(item["offset"]) for item in table}
    return {queue: int(offset) for queue, offset in queue_map(table).items()}


def consumer_status(member: GroupMember, command: Command) -> Command:
    """Respond to GET_CONSUMER_STATUS_FROM_CLIENT with the offsets of the held queues of one topic."""
    topic = command.ext().get("topic", "")
    table = {queue: member.store.get(queue) for queue in member.owned if queue.topic == topic}
    body = b'{"consumerTable":{},"messageQueueTable":%b}' % queue_map_text(table)
    return make_response(command, codes.SUCCESS, body=body)


def running_info(member: GroupMember, command: Command, started_ms: int, orderly: bool, concurrency: int) -> Command:
    """Respond to GET_CONSUMER_RUNNING_INFO with settings, subscriptions, rates, and the state of every held queue, and
    with the stacks of this process if the request has jstackEnable."""
    now = asyncio.get_running_loop().time()
    properties = {
        "PROP_CLIENT_VERSION": f"bolide {VERSION}",
        "PROP_CONSUMEORDERLY": "true" if orderly else "false",
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CONSUME_TYPE": member.consume_type,
        "PROP_NAMESERVER_ADDR": ";".join(member.options.namesrv),
        "PROP_THREADPOOL_CORE_SIZE": str(concurrency),
        "consumeFromWhere": member.from_where,
        "consumerGroup": member.group,
        "language": language_name(codes.PYTHON),
        "messageModel": member.model,
    }
    info: dict[str, Any] = {
        "properties": properties,
        "statusTable": {topic: member.stats.status(topic, now) for topic in member.subscriptions},
        "subscriptionSet": [wanted.data() for wanted in member.subscriptions.values()],
        "userConsumerInfo": {},
    }
    table = {queue: _queue_info(member, process_queue) for queue, process_queue in member.owned.items()}
    if command.ext().get("jstackEnable") == "true":
        info["jstack"] = stacks()
    body = json_text(info)[:-1] + b',"mqPopTable":{},"mqTable":' + queue_map_text(table) + b"}"
    return make_response(command, codes.SUCCESS, body=body)


def _queue_info(member: GroupMember, process_queue: ProcessQueue) -> dict[str, Any]:
    first, last = process_queue.offsets
    wall_minus_loop = member.options.world.wall_ms() / 1000 - asyncio.get_running_loop().time()
    return {
        "cachedMsgCount": process_queue.cached_count,
        "cachedMsgMaxOffset": last,
        "cachedMsgMinOffset": first,
        "cachedMsgSizeInMiB": process_queue.cached_bytes >> 20,
        "commitOffset": member.store.get(process_queue.queue),
        "droped": process_queue.dropped,
        "lastConsumeTimestamp": _wall_ms(process_queue.last_consume, wall_minus_loop),
        "lastLockTimestamp": _wall_ms(process_queue.locked_at, wall_minus_loop),
        "lastPullTimestamp": _wall_ms(process_queue.last_pull, wall_minus_loop),
        "locked": process_queue.locked,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def _wall_ms(loop_time: float, wall_minus_loop: float) -> int:
    return int((loop_time + wall_minus_loop) * 1000) if loop_time else 0


async def consume_directly(
    command: Command, call_of: Callable[[ReceivedMessage], ListenerCall], threads: Executor, orderly: bool
) -> Command:
    """Respond to CONSUME_MESSAGE_DIRECTLY: call the listener with the message now, outside any queue.

    Raises `DamagedMessage` if the message does not match its CRC.
    """
    message = intact_message(command.body, command.ext().get("brokerName", ""))
    show_origin(message)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    failed = await call_of(message).run([message], threads)
    result = {
        "autoCommit": True,
        "consumeResult": "CR_LATER" if failed else "CR_SUCCESS",
        "order": orderly,
        "remark": None,
        "spentTimeMills": int((loop.time() - begin) * 1000),
    }
    return make_response(command, codes.SUCCESS, body=json_text(result))
