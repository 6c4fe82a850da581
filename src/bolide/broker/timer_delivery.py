"""Putting a message whose time has come where it belongs: under its own topic, or once more on the timer topic.

RocketMQ's TimerMessageStore.convert and doPut. Where Java gives a message up after three refused writes, here it stays
first in line until the store takes it; one whose properties grow too long by what delivery adds goes without that.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.names import HALF_TOPIC, NO_SEND_TOPICS, TIMER_TOPIC, topic_refusal
from bolide.broker.put import PutDoor
from bolide.broker.refused import response_code
from bolide.broker.timer_metrics import TimerMetrics
from bolide.broker.timer_rules import java_long
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.properties import format_properties, text_of
from bolide.layout.record import Record
from bolide.remoting.codes import MESSAGE_ILLEGAL

RETRY_MS: Final = 500
MOST_QUEUE_ID: Final = (1 << 31) - 1
NEVER_WAITED: Final = (1 << 63) - 1
"""TIMER_ENQUEUE_MS of a message that was due before it came to the wheel."""


class Delivery:
    """Stores messages of the timer again. After a False nothing is to be tried before `retry_at` (ms)."""

    def __init__(self, door: PutDoor, metrics: TimerMetrics, precision: int) -> None:
        self.retry_at = 0
        self.failures = 0
        self._door = door
        self._metrics = metrics
        self._pause = RETRY_MS * precision // 1000

    def deliver(self, record: Record, properties: dict[str, str], enqueue_time: int, now: int) -> bool:
        """Put a message into its own topic; False when the store does not take it now.

        The stored properties keep REAL_TOPIC, REAL_QID and TIMER_OUT_MS, as Java leaves them.
        """
        topic = properties.get(names.REAL_TOPIC, "")
        queue_id = java_long(properties.get(names.REAL_QID, ""))
        if queue_id is None or not 0 <= queue_id <= MOST_QUEUE_ID or names.TIMER_DEL_UNIQKEY in properties:
            return True  # nowhere to go; or a delete, which is never delivered
        if topic_refusal(topic) is not None or (topic in NO_SEND_TOPICS and topic != HALF_TOPIC):
            return True  # no producer could have meant it: somebody wrote to the timer topic by hand
        return self._put(record, topic, queue_id, properties, stamps(enqueue_time, now), now)

    def roll(self, record: Record, properties: dict[str, str], enqueue_time: int, now: int) -> bool:
        """Put a message back to the timer topic, from where it goes on waiting."""
        times = java_long(properties.get(names.TIMER_ROLL_TIMES, "0")) or 0
        added = {**stamps(enqueue_time, now), names.TIMER_ROLL_TIMES: str(times + 1)}
        return self._put(record, TIMER_TOPIC, 0, properties, added, now)

    def _put(
        self, record: Record, topic: str, queue_id: int, properties: dict[str, str], added: dict[str, str], now: int
    ) -> bool:
        for text in (format_properties({**properties, **added}), text_of(record.properties)):
            try:
                self._door.put_again(record, topic, queue_id, text, now)
                break
            except BolideError as error:
                self.failures += 1
                if response_code(error) != MESSAGE_ILLEGAL:
                    self.retry_at = now + self._pause
                    return False
        if added[names.TIMER_ENQUEUE_MS] != str(NEVER_WAITED):
            self._metrics.add(properties, -1, now)
        self._metrics.dequeued += 1
        return True


def stamps(enqueue_time: int, now: int) -> dict[str, str]:
    """What delivery adds to the properties: when the message came into the wheel, and when it left it."""
    return {names.TIMER_ENQUEUE_MS: str(enqueue_time), names.TIMER_DEQUEUE_MS: str(now)}
