"""Messages of background work that an acting slave sends to other broker sets, because only its master writes its log.

Requires enableRemoteEscape (RocketMQ's EscapeBridge.java). `Role.sends_away` decides whether a message is sent to
another set. Services then start a `Journey` where a master would append. The node sends the message
(`effects.send_away`) and reports the result. A failed message is resent. Work is complete only after its message has
arrived, so each message arrives at least once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from bolide.broker.core.effects import Effects
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import HALF_TOPIC, TIMER_TOPIC
from bolide.layout.sysflag import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_PREPARED

MOST: Final = 64
"""Maximum number of messages of one queue in flight."""
BYTES: Final = 1024 * 1024
"""Bytes of bodies in flight from which a queue sends no more."""
PAUSE_MS: Final = 500
LONGEST_PAUSE_MS: Final = 30_000
TIMES: Final = (names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS)


def abroad(message: BrokerMessage) -> BrokerMessage:
    """Return the message as a producer of another set would send it. `message` is not changed.

    A half message remains one, and the broker that receives it checks it. A message with a longer delay than the wheel
    is sent to its topic with its delivery time, because other brokers reject sends to the timer topic. An expired delay
    is dropped.
    """
    pairs = dict(message.properties.pairs())
    pairs[names.WAIT] = "false"
    topic, sys_flag = message.topic, message.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
    if topic == HALF_TOPIC:
        topic = pairs.get(names.REAL_TOPIC, "")
        pairs[names.TRAN_MSG] = "true"
        pairs.pop(names.TRAN_PREPARED_QUEUE_OFFSET, None)
        pairs.pop(names.REAL_QID, None)
        sys_flag |= TRANSACTION_PREPARED
    else:
        pairs.pop(names.DELAY, None)
        out = pairs.get(names.TIMER_OUT_MS)
        if topic == TIMER_TOPIC or out is None:
            for name in TIMES:
                pairs.pop(name, None)
        if topic == TIMER_TOPIC:
            topic = pairs.pop(names.REAL_TOPIC, "")
            for name in (names.REAL_QID, names.TIMER_OUT_MS, names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS):
                pairs.pop(name, None)
            pairs[names.TIMER_DELIVER_MS] = out or "0"
    sent = BrokerMessage(
        topic,
        topic.encode(),
        message.queue_id,
        message.body,
        MessageProperties("", pairs),
        message.born_timestamp,
        message.born_host,
    )
    sent.flag = message.flag
    sent.sys_flag = sys_flag
    sent.reconsume_times = message.reconsume_times
    return sent


@final
class Journey:
    """One message in flight. `mark`: its offset in its queue."""

    def __init__(self, message: BrokerMessage, mark: int) -> None:
        self.message: BrokerMessage = message
        self.mark: int = mark
        self.sent: bool = False
        self.arrived: bool = False
        self.failed: int = 0
        self.not_before: int = 0
        """Time to resend it after a failure (ms)."""


@final
class Journeys:
    """Messages of one queue that are in flight to other broker sets, in queue order."""

    def __init__(self, effects: Effects, service: object, arrived: Callable[[int], None] | None = None) -> None:
        """`service` is woken after each result; `arrived(mark)` is called for each message that has arrived."""
        self._effects: Effects = effects
        self._service: object = service
        self._arrived: Callable[[int], None] | None = arrived
        self._open: deque[Journey] = deque()
        self._bytes: int = 0
        self._trip: int = 0
        self.failures: int = 0

    @property
    def count(self) -> int:
        """Number of messages in flight, including arrived ones after a message that has not arrived."""
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether the limits of messages in flight are reached."""
        return len(self._open) >= MOST or self._bytes >= BYTES

    def begin(self, message: BrokerMessage, mark: int) -> bool:
        """Send a message to another set, and resend it until it arrives. Return False without an effect if the limits
        of messages in flight are reached."""
        if self.full:
            return False
        journey = Journey(abroad(message), mark)
        self._open.append(journey)
        self._bytes += len(message.body)
        self._send(journey)
        return True

    def go_on(self, now: int) -> None:
        """Resend failed messages whose pause has ended."""
        for journey in self._open:
            if not journey.sent and not journey.arrived and journey.not_before <= now:
                self._send(journey)

    def next_at(self, otherwise: int) -> int:
        """Return when `go_on` has work next (ms), but at most `otherwise`."""
        at = otherwise
        for journey in self._open:
            if not journey.sent and not journey.arrived and journey.not_before < at:
                at = journey.not_before
        return at

    def first(self, otherwise: int) -> int:
        """Return the mark of the first message that has not arrived, or `otherwise` if all have."""
        return self._open[0].mark if self._open else otherwise

    def forget(self) -> None:
        """Drop all in-flight messages and ignore results that arrive later."""
        self._trip += 1
        self._open.clear()
        self._bytes = 0

    def _send(self, journey: Journey) -> None:
        journey.sent = True
        trip = self._trip
        self._effects.send_away(journey.message, lambda error, now: self._told(journey, trip, error, now))

    def _told(self, journey: Journey, trip: int, error: str, now: int) -> None:
        if trip != self._trip:
            return
        journey.sent = False
        if error:
            self.failures += 1
            journey.not_before = now + min(PAUSE_MS << min(journey.failed, 16), LONGEST_PAUSE_MS)
            journey.failed += 1
        else:
            journey.arrived = True
            if self._arrived is not None:
                self._arrived(journey.mark)
            while self._open and self._open[0].arrived:
                self._bytes -= len(self._open.popleft().message.body)
        self._effects.wake(self._service)
