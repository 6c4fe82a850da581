"""A message about to be stored, and where it went: argument and result of `MessageStore.append`.

What the broker's one door to the log hands over is in its final form (properties rewritten, hosts raw, tags code
computed); only what the store alone can know is missing: queue offset, physical offset, store timestamp, body CRC.
"""

from __future__ import annotations

from typing import final

from bolide.dispatch.multi import MultiQueue


@final
class Put:
    """One message. Hosts are 4 or 16 address bytes plus an int32 port; timestamps are ms since the epoch."""

    def __init__(
        self,
        topic: str,
        topic_bytes: bytes,
        queue_id: int,
        body: bytes,
        properties: bytes,
        born_timestamp: int,
        born_host: bytes,
        store_host: bytes,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        uniq_key: str = "",
        keys: str = "",
        tags: str = "",
        tags_code: int = 0,
        wait: bool = True,
        delay_level: int = 0,
        multi: list[str] | None = None,
    ) -> None:
        self.topic = topic
        self.topic_bytes = topic_bytes
        self.queue_id = queue_id
        self.flag = flag
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.born_host = born_host
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        self.body = body
        self.properties = properties
        self.uniq_key = uniq_key
        self.keys = keys
        self.tags = tags
        self.tags_code = tags_code
        """int64 of the queue unit: hash of the tags. For the delay topic the store replaces it by the delivery time."""
        self.delay_level = delay_level
        """> 0 only for the delay topic: the store computes the delivery time, since it knows the store timestamp."""
        self.wait = wait
        """False (property WAIT=false): the answer waits neither for the disk nor for a replica."""
        self.multi: list[str] | None = multi
        """Light queues (LMQ) it goes to besides its own. The store numbers it there and adds the numbers to the
        properties, which must name these queues and no numbers yet."""
        self.multi_queues: list[MultiQueue] | None = None
        """Set by the store."""


@final
class Appended:
    """Where a message went: all of it known at once, certain only when the log is confirmed to `end_offset`."""

    def __init__(self, physical_offset: int, size: int, queue_offset: int, store_timestamp: int) -> None:
        self.physical_offset = physical_offset
        self.size = size
        self.queue_offset = queue_offset
        self.store_timestamp = store_timestamp

    @property
    def end_offset(self) -> int:
        """Physical offset behind the record: what `Parked` waits for."""
        return self.physical_offset + self.size
