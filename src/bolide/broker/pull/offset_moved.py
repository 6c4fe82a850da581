"""OFFSET_MOVED_EVENT: a message for monitoring about each pull that was answered with another offset (code 21).

RocketMQ 4.9 stores one (PullMessageProcessor.generateOffsetMovedEvent); 5.x only writes a line to its log. Here the
event is stored, once for the same pull within a minute: a client that asks for a wrong offset again and again must not
fill the log.
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
        """Events of the last minute."""
        return len(self._told)

    def taken_back(self, written_offset: int) -> None:
        """A write failed and took events of that turn with it: each may be stored again."""
        self._told.clear()

    def note(self, group: str, topic: str, queue_id: int, *, asked: int, given: int, now: int) -> None:
        """A group asked for an offset of a queue and was given another one. A store that takes nothing is no error."""
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
            return  # the pull is answered all the same, as in Java
        self._forget(now)
        self._told.pop(key, None)
        self._told[key] = now

    def _forget(self, now: int) -> None:
        """Drop what may be told again: the oldest are the first."""
        while self._told:
            key, told = next(iter(self._told.items()))
            if 0 <= now - told < AGAIN_AFTER_MS and len(self._told) < _REMEMBERED:
                return
            del self._told[key]
