"""A record that has just become readable. It wakes held pulls."""

from __future__ import annotations

from typing import final


@final
class Arrival:
    """A unit added to a queue. `max_offset`: queue offset after it. `properties`: encoded properties of the record."""

    def __init__(
        self, topic: str, queue_id: int, max_offset: int, tags_code: int, store_timestamp: int, properties: bytes
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.max_offset = max_offset
        self.tags_code = tags_code
        self.store_timestamp = store_timestamp
        self.properties = properties
