"""Takes a set out of service: producers avoid it, and consumers finish its messages (mqadmin's wipeWritePerm)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bolide.admin.client import Admin
from bolide.admin.transient import is_transient
from bolide.errors import BolideError, LocalError
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX, is_predefined_group
from bolide.layout.permissions import PERM_WRITE
from bolide.remoting import codes
from bolide.remoting.bodies.stats import ConsumeStatsList

LOOK_S: Final = 2.0
SETTLE_S: Final = 35.0
"""Seconds until all producers avoid the set: clients refresh routes every 30 s."""
DELAYED: Final = "(delayed)"
SENDS: Final = "(sends a second)"
_LEVEL: Final = "scheduleMessageOffset_"


class NotDrained(LocalError):
    """A set still has messages after the time limit; its producers still avoid it."""


@dataclass(frozen=True, slots=True)
class Left:
    """Messages of a set that a group has not consumed, in one topic. `group` may also be `DELAYED` or `SENDS`."""

    group: str
    topic: str
    messages: int


async def only_at(admin: Admin, broker: str) -> list[str]:
    """Return the topics that producers can send to only at this set. Raises `NoQueue` if it has no master."""
    await admin.masters(broker=broker)
    shown = await admin.topics()
    found = await admin.all_topic_configs()
    alone = []
    for topic in shown:
        takes = [
            name
            for name, config in found.get(topic, {}).items()
            if config.perm & PERM_WRITE and config.write_queue_nums > 0
        ]
        # Each broker has separate retry topics and dead letters.
        if takes == [broker] and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            alone.append(topic)
    return alone


async def left_at(admin: Admin, broker: str) -> list[Left]:
    """Return the messages of a set that are unconsumed, delayed or still being sent. Raises `NoQueue` if it has no
    master."""
    address = (await admin.masters(broker=broker))[broker]
    told = await admin.decoded(ConsumeStatsList, address, codes.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    lags: dict[tuple[str, str], int] = {}
    for of_groups in told.consume_stats_list:
        for group, of_topics in of_groups.items():
            if is_predefined_group(group):
                continue
            for stats in of_topics:
                for queue, place in stats.offset_table.items():
                    key = group, queue.topic
                    lags[key] = lags.get(key, 0) + place.lag
    left = [Left(group, topic, lag) for (group, topic), lag in sorted(lags.items()) if lag > 0]
    runtime = await admin.broker_runtime(address)
    waiting = 0
    for name, value in runtime.items():
        if name.startswith(_LEVEL):
            offset, _, end = value.partition(",")
            waiting += max(int(end) - int(offset), 0)
    if waiting:
        left.append(Left(DELAYED, "delay levels", waiting))
    timed = sum((await admin.timed_messages(broker=broker)).values())
    if timed:
        left.append(Left(DELAYED, "timers", timed))
    rate = float((runtime.get("putTps") or "0").split(" ")[0])
    if rate > 0:
        left.append(Left(SENDS, "", max(round(rate), 1)))
    return left


async def drain(
    admin: Admin,
    broker: str,
    seconds: float,
    told: Callable[[list[Left]], None],
    settle: float = SETTLE_S,
    failed: Callable[[BolideError], None] = lambda error: None,
) -> None:
    """Make producers avoid a set, and wait until it has no pending messages.

    Calls `told` with the pending messages at every check, or `failed` with the error of a request that is repeated.
    Waits at least `settle` seconds, because producers notice the change when they refresh the route. Raises `NoQueue`
    before any change if the set has no master, and `NotDrained` after `seconds`, or if a right is missing.
    """
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await admin.masters(broker=broker)
    go_on = f"run this command again to wait longer, or bolide cluster drain {broker} --undo to let them return"
    while True:
        left: list[Left] | None = None
        trouble = ""
        try:
            # Repeat this: a broker whose topics change re-registers its permissions.
            await admin.wipe_write_permission(broker)
            left = await left_at(admin, broker)
        except BolideError as error:
            if not is_transient(error):
                raise NotDrained(f"{broker} is not drained: {error}; its producers may stay away: {go_on}") from error
            trouble = str(error)
            failed(error)
        else:
            told(left)
        passed = loop.time() - begin
        if left == [] and passed >= settle:
            return
        if left != [] and passed >= max(seconds, settle):
            if not left:
                raise NotDrained(
                    f"{broker} cannot be checked for messages after {seconds:g} s ({trouble}): its producers stay "
                    f"away; {go_on}"
                )
            first = left[0]
            raise NotDrained(
                f"{broker} still holds messages after {seconds:g} s, such as {first.messages:,} of "
                f"{first.topic or 'its producers'} for {first.group}: its producers stay away; {go_on}"
            )
        await asyncio.sleep(min(LOOK_S, max(settle - passed, 0.01)) if left == [] else LOOK_S)
