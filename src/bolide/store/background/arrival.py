"""A record that has just become readable: what wakes held pulls."""

from __future__ import annotations

from typing import final


@final
class Arrival:
    """One unit put into a queue. `max_offset` is the queue offset after it, `properties` the record's stored bytes."""

    def __init__(
        self, topic: str, queue_id: int, max_offset: int, tags_code: int, store_timestamp: int, properties: bytes
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.max_offset = max_offset
        self.tags_code = tags_code
        self.store_timestamp = store_timestamp
        self.properties = properties
