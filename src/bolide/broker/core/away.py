"""Messages of background work that an acting slave sends to other sets, because its own log is its master's.

With enableRemoteEscape (RocketMQ's EscapeBridge.java). `Role.sends_away` decides where such a message goes; services
then begin a journey where a master would append. The node sends it (`effects.send_away`) and reports back. One that
fails is sent again; nothing counts as done before it has arrived, so a message comes at least once.
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
"""Messages of one queue that may be under way."""
BYTES: Final = 1024 * 1024
"""Bytes of bodies under way beyond which a queue begins no more."""
PAUSE_MS: Final = 500
LONGEST_PAUSE_MS: Final = 30_000
TIMES: Final = (names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS)


def abroad(message: BrokerMessage) -> BrokerMessage:
    """The message as a producer of another set would send it. `message` is left as it is.

    A half message is one again that its own broker is to check. What waits for longer than the wheel goes to its topic
    with the time it is due: other brokers refuse sends to the timer topic. A delay that has acted is dropped.
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
    """One message on its way; `mark` is its offset in its queue."""

    def __init__(self, message: BrokerMessage, mark: int) -> None:
        self.message: BrokerMessage = message
        self.mark: int = mark
        self.sent: bool = False
        self.arrived: bool = False
        self.failed: int = 0
        self.not_before: int = 0
        """When one that failed is sent again (ms)."""


@final
class Journeys:
    """The messages of one queue that are under way, in their order."""

    def __init__(self, effects: Effects, service: object, arrived: Callable[[int], None] | None = None) -> None:
        """`service` is asked again when it is due whenever something is told; `arrived(mark)` hears of each message."""
        self._effects: Effects = effects
        self._service: object = service
        self._arrived: Callable[[int], None] | None = arrived
        self._open: deque[Journey] = deque()
        self._bytes: int = 0
        self._trip: int = 0
        self.failures: int = 0

    @property
    def count(self) -> int:
        """How many have not arrived, or wait for one before them."""
        return len(self._open)

    @property
    def full(self) -> bool:
        """True when no more may begin now."""
        return len(self._open) >= MOST or self._bytes >= BYTES

    def begin(self, message: BrokerMessage, mark: int) -> None:
        """Send a message to another set, and again until it arrives."""
        journey = Journey(abroad(message), mark)
        self._open.append(journey)
        self._bytes += len(message.body)
        self._send(journey)

    def go_on(self, now: int) -> None:
        """Send again what failed and has waited long enough."""
        for journey in self._open:
            if not journey.sent and not journey.arrived and journey.not_before <= now:
                self._send(journey)

    def next_at(self, otherwise: int) -> int:
        """When `go_on` has something to do (ms), `otherwise` at the latest."""
        at = otherwise
        for journey in self._open:
            if not journey.sent and not journey.arrived and journey.not_before < at:
                at = journey.not_before
        return at

    def first(self, otherwise: int) -> int:
        """The mark of the first that has not arrived; `otherwise` when all have."""
        return self._open[0].mark if self._open else otherwise

    def forget(self) -> None:
        """Nothing is under way: what is reported later is passed over."""
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
