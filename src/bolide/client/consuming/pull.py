"""One PULL_MESSAGE or LITE_PULL_MESSAGE: the request, and its response (docs/protocol/behaviour.md 7.3)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from mypy_extensions import mypyc_attr

from bolide.client.instance.instance import ClientInstance
from bolide.client.messages.errors import DamagedMessage, NoQueue, ResponseError, response_error
from bolide.client.messages.light_queues import is_lmq
from bolide.client.messages.namespace import without_namespace
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage, damaged_message, intact_messages
from bolide.client.messages.subscription import Subscription, subscription
from bolide.errors import BolideError
from bolide.layout.names import MASTER_ID
from bolide.layout.property_names import TAGS
from bolide.remoting import codes
from bolide.remoting.bulk_pulls import SMALL_PULL, bulk_ext
from bolide.remoting.damaged_answer import names_damage

log = logging.getLogger("bolide.client")

COMMIT: Final = 0x1
SUSPEND: Final = 0x2
SUBSCRIPTION: Final = 0x4
LITE: Final = 0x10

PULL_BYTES: Final = 256 * 1024
"""Maximum size of the response to a pull for more than `SMALL_PULL` messages, except for a single message. It is the
default limit of brokers for messages in memory. RocketMQ's brokers have only their own limits."""

REPLICA_PAUSE: Final = 1.0
"""Seconds between pulls at a replica whose master is down: a replica of 5.x does not hold them, but returns empty
responses immediately."""

SQL_SINCE: Final = 232
"""Brokers before V4_1_0 do not support SQL92 in pulls."""
LITE_SINCE: Final = 413
"""Brokers before V5_0_0 support lite pulls by a flag only; they have no request code for them."""


class PullStatus(Enum):
    """Result of a pull, with Java's names."""

    def __str__(self) -> str:
        return self.name

    FOUND = codes.SUCCESS
    """The pull returned messages."""
    NO_NEW_MSG = codes.PULL_NOT_FOUND
    """The queue has no message at this offset yet."""
    NO_MATCHED_MSG = codes.PULL_RETRY_IMMEDIATELY
    """The filter matches none of the messages: pull again from the next offset."""
    OFFSET_ILLEGAL = codes.PULL_OFFSET_MOVED
    """The offset is outside the queue: pull again from the next offset, which is inside."""


_STATUS: Final = {status.value: status for status in PullStatus}
_ANSWERS: Final = (*_STATUS, codes.SYSTEM_ERROR)


@mypyc_attr(native_class=False)
@dataclass(slots=True)
class PullResult:
    """`next_offset` is the offset of the next pull, for every status;
    `begin_offset` and `end_offset` are the limits of the queue."""

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    begin_offset: int
    end_offset: int
    suggested_broker: int
    idle_replica: bool = False
    """Whether a replica had no message, did not wait for one, and would be pulled again, because its master is down."""


@mypyc_attr(native_class=False)
@dataclass(slots=True)
class PullRequest:
    """Parameters of a pull. The broker waits up to `suspend` seconds for messages (0: responds immediately)."""

    group: str
    queue: MessageQueue
    offset: int
    subscription: Subscription
    max_count: int = 32
    suspend: float = 15.0
    commit_offset: int = -1
    broker_id: int = MASTER_ID
    lite: bool = False
    send_subscription: bool = False
    asked: str = ""
    """The address of the last request."""


async def pull(instance: ClientInstance, request: PullRequest) -> PullResult:
    """Pull from the queue's broker.

    Raises `ResponseError` if the broker rejects the pull, and `NoQueue` if its address is unknown. If the first message
    is damaged at the broker, pull once from each other broker of the set. Raises `DamagedMessage` if no broker sends it
    intact.
    """
    queue = request.queue
    address = instance.any_address(queue.broker_name, request.broker_id)
    if address is None:
        raise NoQueue(f"no address of broker {queue.broker_name} is known, {queue} cannot be read")
    request.asked = address
    try:
        return await _pull_from(instance, request, address)
    except DamagedMessage as error:
        damage = error
    result = await _pull_from_others(instance, request, address, damage)
    if result is None:
        raise damage
    return result


async def _pull_from_others(
    instance: ClientInstance, request: PullRequest, address: str, damage: DamagedMessage
) -> PullResult | None:
    """Return messages of the queue from another broker of the set than `address`, or None. Logs the sender."""
    at_once = replace(request, suspend=0.0)
    for other in list(instance.brokers.get(request.queue.broker_name, {}).values()):
        if other == address:
            continue
        try:
            result = await _pull_from(instance, at_once, other)
        except BolideError as error:
            log.debug("%s did not send the messages of %s, either: %s", other, request.queue, error)
            continue
        if result.status is PullStatus.FOUND:
            log.warning("%s; %s sent %d messages from that offset", damage, other, len(result.messages))
            return result
    return None


async def _pull_from(instance: ClientInstance, request: PullRequest, address: str) -> PullResult:
    queue = request.queue
    wanted = request.subscription
    flags = LITE if request.lite else 0
    if request.commit_offset > 0 and instance.master_address(queue.broker_name) == address:
        flags |= COMMIT
    if request.suspend > 0:
        flags |= SUSPEND
    if request.lite or request.send_subscription:
        flags |= SUBSCRIPTION
    given: Any = queue  # the id of a user's queue may be a numpy number
    version = instance.heartbeats.versions.get(address, codes.VERSION_5_5_0)
    if wanted.kind != "TAG" and version < SQL_SINCE:
        raise response_error(codes.SYSTEM_ERROR, f"its version {version} lacks SQL92", f"a pull of {queue}", address)
    ext = {
        "bname": queue.broker_name,
        "commitOffset": str(request.commit_offset if request.commit_offset > 0 else 0),
        "consumerGroup": request.group,
        "expressionType": wanted.kind,
        "maxMsgNums": str(request.max_count),
        "queueId": str(given.queue_id),
        "queueOffset": str(request.offset),
        "subVersion": str(wanted.version),
        "suspendTimeoutMillis": str(int(request.suspend * 1000)),
        "sysFlag": str(flags),
        "topic": queue.topic,
    }
    if flags & SUBSCRIPTION:
        ext["subscription"] = wanted.expression
    if request.max_count > SMALL_PULL:
        ext.update(bulk_ext(PULL_BYTES))
    asked = codes.LITE_PULL_MESSAGE if request.lite and version >= LITE_SINCE else codes.PULL_MESSAGE
    answer = await instance.call(
        address,
        asked,
        ext,
        timeout=request.suspend + 15.0,
        accept=_ANSWERS,
    )
    said = answer.ext()
    if answer.code == codes.SYSTEM_ERROR:
        refusal = response_error(answer.code, answer.remark, codes.request_name(asked), address)
        raise DamagedMessage(str(refusal), answer.code, refusal.remark) if names_damage(said) else refusal
    status = _STATUS[answer.code]
    messages: list[ReceivedMessage] = []
    next_offset = int(said.get("nextBeginOffset", request.offset))
    if status is PullStatus.FOUND:
        messages, end = intact_messages(answer.body, queue.broker_name)
        namespace = instance.options.namespace
        for message in messages if namespace or is_lmq(queue.topic) else ():
            message.topic = without_namespace(namespace, message.topic)
            if is_lmq(queue.topic):
                message.read_from(queue.topic)
        if end < len(answer.body):
            if not messages:
                raise damaged_message(answer.body, end, f"a message of {queue} at or after {request.offset}", address)
            next_offset = messages[-1].queue_offset + 1  # the next pull finds the damaged message first
        tags = wanted.exact_tags
        if tags is not None:  # brokers compare hashes, and two tags may share one
            messages = [message for message in messages if message.get_property(TAGS) in tags]
    suggested = int(said.get("suggestWhichBrokerId", "0"))
    at_replica = instance.master_address(queue.broker_name) != address
    return PullResult(
        status,
        messages,
        next_offset,
        int(said.get("minOffset", "0")),
        int(said.get("maxOffset", "0")),
        suggested,
        at_replica
        and status is PullStatus.NO_MATCHED_MSG
        and next_offset == request.offset
        and instance.any_address(queue.broker_name, suggested) == address,
    )


async def pull_or_restart(instance: ClientInstance, request: PullRequest, last_stored: int) -> PullResult:
    """Like `pull`, but if the topic was deleted and created again, the next offset is the offset of its first message.

    A broker returns the end of the queue for an offset beyond it, so a new queue would be read from its end. The queue
    is new if its first message is younger than the last pulled message, which was stored at `last_stored` (ms since
    1970, or 0 before the first message). A queue that only lost its tail starts with an older message.
    """
    result = await pull(instance, request)
    moved_back = result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset < request.offset
    if moved_back and last_stored and result.begin_offset < result.next_offset:
        everything = subscription(request.queue.topic, "*", instance.world.wall_ms())
        first = PullRequest(
            request.group, request.queue, result.begin_offset, everything, 1, 0.0, send_subscription=True
        )
        found = (await pull(instance, first)).messages
        if found and found[0].store_timestamp > last_stored:
            result.next_offset = found[0].queue_offset
    return result


async def moved_after(instance: ClientInstance, request: PullRequest, error: BolideError) -> bool:
    """Look up the route after a failed pull without a response.

    Return whether the queue's broker has another address now. The caller must pull from the master next, instead of a
    broker that an earlier response suggested.
    """
    queue = request.queue
    if error.refresh_route and not isinstance(error, ResponseError):
        await instance.look_again(queue.topic)
    now = instance.any_address(queue.broker_name)
    return now is not None and now != request.asked
