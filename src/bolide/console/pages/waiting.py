"""Pending messages: delay levels, timed messages, and transactions that are neither committed nor rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from bolide.admin.together import each
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.console.cluster import NEWEST
from bolide.console.errors import PageRefused
from bolide.console.figures import ShownBroker
from bolide.console.pages.messages import rows_of
from bolide.console.visit import Page, Visit, missing
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.names import HALF_TOPIC, SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANSACTION_GROUP

MOST_HALVES: Final = 32
"""Maximum number of half messages shown per broker."""


@dataclass(frozen=True, slots=True)
class ShownLevel:
    """A delay level of a broker. `text` is its entry in messageDelayLevel."""

    broker: str
    level: int
    text: str
    next_offset: int
    waiting: int


async def waiting(visit: Visit) -> Response:
    """Show all pending messages, and the next messages of the selected delay level."""
    brokers = [ShownBroker(row) for row in await visit.view.brokers() if row.broker_id == 0 and not row.error]
    texts = await each([broker.row.address for broker in brokers], lambda address: _levels(visit, address))
    levels = [
        ShownLevel(broker.row.broker_name, level, _text(texts[broker.row.address], level), first, max(end - first, 0))
        for broker in brokers
        for level, (first, end) in broker.delay_levels().items()
    ]
    timed: dict[str, int] = {}
    problem = ""
    try:
        timed = await visit.view.cached.get("timed", visit.view.admin.timed_messages)
    except BolideError as error:
        problem = str(error)
    chosen, following = await _following(visit, levels)
    return visit.page(
        "waiting.html",
        brokers=brokers,
        levels=[level for level in levels if level.waiting],
        timed={topic: count for topic, count in timed.items() if count > 0},
        problem=problem,
        chosen=chosen,
        following=following,
        halves=await _halves(visit),
        given_up=await _given_up(visit),
    )


async def _levels(visit: Visit, address: str) -> list[str]:
    try:
        config = await visit.view.cached.get(("config", address), lambda: visit.view.admin.broker_config(address))
    except BolideError:
        return []
    return config.get("messageDelayLevel", "").split()


def _text(texts: list[str], level: int) -> str:
    return texts[level - 1] if 0 < level <= len(texts) else f"level {level}"


async def _following(visit: Visit, levels: list[ShownLevel]) -> tuple[ShownLevel | None, list[tuple[str, object]]]:
    broker, number = visit.query.text("broker"), visit.query.number("level", 0, most=99)
    for level in levels:
        if (level.broker, level.level) == (broker, number):
            queue = MessageQueue(SCHEDULE_TOPIC, broker, number - 1)
            found = await visit.view.admin.messages_at(queue, level.next_offset)
            return level, [(real_topic(row.message), row) for row in rows_of(found)]
    return None, []


def real_topic(message: ReceivedMessage) -> str:
    """Return the topic to which a pending message is delivered when it is due."""
    return message.properties.get(names.REAL_TOPIC, "")


@dataclass(frozen=True, slots=True)
class ShownHalf:
    """A half message: one that its broker may still check, or one whose checks the broker has given up."""

    message: ReceivedMessage
    topic: str
    group: str
    checks: int


async def _halves(visit: Visit) -> list[ShownHalf] | None:
    """Return the next half messages that each broker will check, or None if a query fails. Some may have ended."""
    try:
        stats = await visit.view.topic_stats(HALF_TOPIC)
        queues = [queue for queue in stats if queue.end_offset > queue.begin_offset]

        async def of(queue: MessageQueue) -> list[ReceivedMessage]:
            done = await visit.view.admin.group_offset(TRANSACTION_GROUP, queue)
            return await visit.view.admin.messages_at(queue, max(done, 0), MOST_HALVES)

        found = await each([queue.queue for queue in queues], of)
    except BolideError:
        return None
    return [
        ShownHalf(
            message,
            real_topic(message),
            message.properties.get(names.PGROUP, ""),
            _number(message.properties.get(names.TRANSACTION_CHECK_TIMES, "0")),
        )
        for messages in found.values()
        for message in messages
    ]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


async def _given_up(visit: Visit) -> list[ShownHalf]:
    try:
        found, _ = await visit.view.newest(TRANS_CHECK_MAX_TIME_TOPIC, 0, None)
    except BolideError:
        return []
    return [
        ShownHalf(
            message,
            real_topic(message),
            message.properties.get(names.PGROUP, ""),
            _number(message.properties.get(names.TRANSACTION_CHECK_TIMES, "0")),
        )
        for message in found[:NEWEST]
    ]


async def check_again(visit: Visit) -> Response:
    """Make a broker resume the checks of a transaction that it has given up."""
    message_id = visit.form.needed("id", "the id of the half message")
    found = await visit.view.admin.message(message_id)
    if found is None:
        raise missing(f"message {message_id[:64]}")
    if found.record.topic != TRANS_CHECK_MAX_TIME_TOPIC:
        raise PageRefused("the broker has not stopped checking this transaction")
    await visit.view.admin.resume_check(found)
    return visit.done(f"the broker resumes the checks with {found.properties.get(names.PGROUP, '')}", "/waiting")


PAGES: Final[Sequence[Page]] = (
    Page("/waiting", waiting),
    Page("/waiting/check", check_again, change=True),
)
