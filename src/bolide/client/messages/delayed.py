"""Delivery at a given time: the TIMER_* properties of RocketMQ 5.

The broker limits the delay (timerMaxDelaySec, three days by default).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bolide.client.messages.arguments import plain_number, shown
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.moment import Moment, moment_ms
from bolide.layout.property_names import TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS

MAX_SECONDS: Final = 2**53 / 1000
"""Upper limit of a delay in seconds: a double represents its milliseconds exactly."""


def delay_property(delay: float | timedelta, deliver_at: Moment | None) -> str:
    """Return the property for the delivery time. Raises `MessageRefused` if both arguments are given, or a time is
    invalid."""
    if deliver_at is not None:
        if delay:
            raise MessageRefused("a message is delivered after a delay or at a time, give one of the two", "delay")
        return f"{TIMER_DELIVER_MS}\x01{moment_ms('deliver_at', deliver_at, MessageRefused)}\x02"
    milliseconds = _milliseconds(delay.total_seconds() if isinstance(delay, timedelta) else delay)
    if milliseconds % 1000:
        return f"{TIMER_DELAY_MS}\x01{milliseconds}\x02"
    return f"{TIMER_DELAY_SEC}\x01{milliseconds // 1000}\x02"


def _milliseconds(seconds: float) -> int:
    number = plain_number(seconds)
    if number is not None and 0 <= number < MAX_SECONDS:
        return round(number * 1000)
    raise MessageRefused(f"delay is {shown(seconds)}, which is not a length of time: give seconds from 0", "delay")
