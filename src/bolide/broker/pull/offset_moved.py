"""OFFSET_MOVED_EVENT: a message for monitoring about each pull whose response has a corrected offset (code 21).

RocketMQ 4.9 stores one (PullMessageProcessor.generateOffsetMovedEvent); 5.x only logs a line. Here the event is stored,
at most once per minute for the same pull, so that a client that repeats a wrong offset does not fill the log.
"""

from __future__ import annotations

from typing import Final, final

from bolide.broker.append.log_writer import LogWriter
from bolide.errors import BolideError
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import OFFSET_MOVED_EVENT
from bolide.layout.property_names import DELAY, KEYS, TAGS
from bolide.remoting.bodies.base import encode_body

AGAIN_AFTER_MS: Final = 60_000
_REMEMBERED: Final = 10_000
_TOPIC_BYTES: Final = OFFSET_MOVED_EVENT.encode()


@final
class OffsetMovedEvents:
    """Stores the events of one broker."""

    def __init__(self, writer: LogWriter, broker_name: str, enabled: bool) -> None:
        self._writer: LogWriter = writer
        self._broker: str = broker_name
        self._enabled: bool = enabled
        self._told: dict[tuple[str, str, int, int, int], int] = {}
        writer.store.on_taken_back.append(self.taken_back)

    @property
    def remembered(self) -> int:
        """Number of events in the last minute."""
        return len(self._told)

    def taken_back(self, written_offset: int) -> None:
        """Called after a failed write, which may have discarded events: each may be stored again."""
        self._told.clear()

    def note(self, group: str, topic: str, queue_id: int, *, asked: int, given: int, now: int) -> None:
        """Store an event for a corrected offset. Does nothing if the store rejects it."""
        if not self._enabled:
            return
        key = (group, topic, queue_id, asked, given)
        if now - self._told.get(key, -AGAIN_AFTER_MS) < AGAIN_AFTER_MS:
            return
        event = {
            "consumerGroup": group,
            "messageQueue": {"brokerName": self._broker, "queueId": queue_id, "topic": topic},
            "offsetNew": given,
            "offsetRequest": asked,
        }
        host = self._writer.store_host
        properties = MessageProperties("", {TAGS: group, DELAY: "0", KEYS: group})
        try:
            body = encode_body(event)
            self._writer.put(BrokerMessage(OFFSET_MOVED_EVENT, _TOPIC_BYTES, 0, body, properties, now, host), now)
        except BolideError:
            return  # the pull gets its response anyway, as in Java
        self._forget(now)
        self._told.pop(key, None)
        self._told[key] = now

    def _forget(self, now: int) -> None:
        """Remove events that may be stored again, oldest first."""
        while self._told:
            key, told = next(iter(self._told.items()))
            if 0 <= now - told < AGAIN_AFTER_MS and len(self._told) < _REMEMBERED:
                return
            del self._told[key]
