"""Messages delivered at any time: the TIMER_* properties of RocketMQ 5.

How far ahead a message may be delivered is the broker's to say (timerMaxDelaySec, three days).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from bolide.client.messages.errors import MessageRefused
from bolide.layout.property_names import TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS


def delay_property(delay: float | timedelta, deliver_at: float | datetime | None) -> str:
    """The property that says when to deliver, as it travels. Raises `MessageRefused` for both, and for no moment."""
    if deliver_at is not None:
        if delay:
            raise MessageRefused("a message is delivered after a delay or at a time, give one of the two")
        if isinstance(deliver_at, datetime):
            if deliver_at.tzinfo is None:
                raise MessageRefused("deliver_at has no time zone: give a datetime that names its own, or seconds")
            deliver_at = deliver_at.timestamp()
        return f"{TIMER_DELIVER_MS}\x01{_milliseconds(deliver_at)}\x02"
    milliseconds = _milliseconds(delay.total_seconds() if isinstance(delay, timedelta) else delay)
    if milliseconds % 1000:
        return f"{TIMER_DELAY_MS}\x01{milliseconds}\x02"
    return f"{TIMER_DELAY_SEC}\x01{milliseconds // 1000}\x02"


def _milliseconds(seconds: float) -> int:
    try:
        milliseconds = round(seconds * 1000)
    except (ValueError, OverflowError):  # not a number, or no end
        milliseconds = -1
    if milliseconds < 0:
        raise MessageRefused(f"{seconds} is no time to deliver at: give seconds from 0 on")
    return milliseconds
