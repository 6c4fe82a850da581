"""Applies TIMER_DELAY_SEC, TIMER_DELAY_MS and TIMER_DELIVER_MS to a message in the append path.

RocketMQ's HookUtils.handleScheduleMessage and TimerMessageStore.isReject. A message with a future time is stored in the
timer topic with TIMER_OUT_MS, REAL_TOPIC and REAL_QID. A message whose time has passed is stored in its own topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.layout import property_names as names
from bolide.layout.message_properties import MessageProperties
from bolide.layout.timer import out_time, wheel_precision
from bolide.remoting.codes import MESSAGE_ILLEGAL, SYSTEM_ERROR

_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")
_MOST: Final = (1 << 63) - 1


class TimerRules:
    """Timer rules of the append path. `waiting_at(slot)` returns the number of messages in a slot (ms). Without it,
    slots are not limited."""

    def __init__(self, options: BrokerOptions, waiting_at: Callable[[int], int] | None = None) -> None:
        self.enabled = options.delay.timer_wheel_enable
        self.precision = wheel_precision(options.delay.timer_precision_ms)
        self.max_delay = options.delay.timer_max_delay_sec * 1000
        self._waiting_at: Callable[[int], int] | None = waiting_at
        self._most = options.delay.timer_congest_num_each_slot
        self._draw = 0

    def slot(self, properties: MessageProperties, now: int) -> int:
        """Return the slot (TIMER_OUT_MS) of a message with these properties, or 0 if it is due.

        Raises `Refused` with code 1 if timers are disabled or the slot is too full. Raises it with code 13 if the time
        is invalid or too far ahead, or if the message deletes a timer whose time has passed.
        """
        if not self.enabled:
            raise Refused(SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false")
        pairs = properties.pairs()
        deliver_at = delivery_time(pairs, now)
        if deliver_at is None or deliver_at - now > self.max_delay:
            raise self._illegal()
        if deliver_at <= now:
            if names.TIMER_DEL_UNIQKEY in pairs:
                raise self._illegal()
            return 0
        out = int(out_time(deliver_at, self.precision))
        if self._waiting_at is not None and self._too_full(self._waiting_at(out)):
            most = self._most
            raise Refused(
                SYSTEM_ERROR,
                f"timer message is under flow control, max num limit is {most * 2} or the current value is greater than"
                f" {most} and less than {most * 2}, trigger random flow control",
            )
        return out

    def _illegal(self) -> Refused:
        return Refused(
            MESSAGE_ILLEGAL,
            f"timer message illegal, the delay time should not be bigger than the max delay {self.max_delay}ms; or if"
            " set del msg, the delay time should be bigger than the current time",
        )

    def _too_full(self, waiting: int) -> bool:
        """Return whether to reject a message for a slot that has `waiting` messages: never up to the limit, always from
        twice the limit, at random in between (RocketMQ's formula)."""
        if waiting <= self._most:
            return False
        if waiting >= self._most * 2:
            return True
        # visits every number once per thousand calls, so the distribution is uniform
        self._draw = (self._draw + 617) % 1000
        return self._draw > 1000 * (waiting - self._most) / (self._most + 0.1)


def delivery_time(properties: dict[str, str], now: int) -> int | None:
    """Return the delivery time of a message (ms), or None if its property is not a number."""
    for name, unit in ((names.TIMER_DELAY_SEC, 1000), (names.TIMER_DELAY_MS, 1)):
        text = properties.get(name)
        if text is not None:
            delay = java_long(text)
            return None if delay is None else now + delay * unit
    return java_long(properties.get(names.TIMER_DELIVER_MS, ""))


def relative_delay(properties: MessageProperties) -> int:
    """Return the delay that a producer set, in ms, or -1 if the message has a time of day or no valid delay."""
    text = properties.get(names.TIMER_DELAY_SEC)
    delay = java_long(text if text is not None else properties.get(names.TIMER_DELAY_MS) or "")
    if delay is None or delay < 0:
        return -1
    return delay * 1000 if text is not None else delay


def java_long(text: str) -> int | None:
    """Parse a number like Long.parseLong. Return None if it is invalid."""
    if not _LONG.fullmatch(text):
        return None
    number = int(text)
    return number if -_MOST - 1 <= number <= _MOST else None
